/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sockets of the fabric links: connect, and connect again, never block, hand bytes to the core. What the
 * bytes mean is docs/fabric-protocol.md and the core's business.
 */
#include "qemu/osdep.h"
#include "block/aio.h"
#include "io/channel-socket.h"
#include "pib_hca_glue.h"
#include "qapi/error.h"
#include "qapi/qapi-visit-sockets.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/sockets.h"
#include "qemu/timer.h"

#define RETRY_FIRST_MS 50
#define RETRY_LAST_MS 1000
#define RX_CHUNK (256 * 1024)
#define TX_PARTS 64

/* Outlives its link when the device goes away while the attempt is under way. */
struct PibHcaConnect {
    PibHcaLink *link;
};

static void link_connect(PibHcaLink *link);
static void link_readable(void *opaque);
static void link_writable(void *opaque);

bool pib_hca_links_parse(PibHca *hca, Error **errp)
{
    const char *fabric = hca->prop.fabric;

    if (!fabric || !*fabric) {
        return true;
    }
    if (!g_str_has_prefix(fabric, "unix:") && !g_str_has_prefix(fabric, "tcp:")) {
        error_setg(errp, "fabric=%s: expected unix:PATH or tcp:HOST:PORT", fabric);
        return false;
    }
    /* socket_parse() takes "unix:PATH", and "HOST:PORT" for TCP. */
    hca->fabric_address = socket_parse(g_str_has_prefix(fabric, "tcp:") ? fabric + 4 : fabric, errp);
    return hca->fabric_address != NULL;
}

static void link_set_handlers(PibHcaLink *link)
{
    AioContext *ctx = qemu_get_aio_context();
    bool running = link->channel && !link->hca->paused;

    if (link->channel) {
        qio_channel_set_aio_fd_handler(QIO_CHANNEL(link->channel), ctx,
                                       running ? link_readable : NULL, ctx,
                                       running && link->want_write ? link_writable : NULL, link);
    }
}

static void link_retry_later(PibHcaLink *link)
{
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    timer_mod(link->retry, now + link->retry_delay_ms);
    link->retry_delay_ms = MIN(link->retry_delay_ms * 2, RETRY_LAST_MS);
}

/* With the lock, after the core has closed the link. */
static void link_drop(PibHcaLink *link)
{
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    qio_channel_set_aio_fd_handler(QIO_CHANNEL(link->channel), qemu_get_aio_context(), NULL,
                                   qemu_get_aio_context(), NULL, NULL);
    object_unref(OBJECT(link->channel));
    link->channel = NULL;
    link->want_write = false;
    link->to_close = false;
    pib_hca_one_copy_drop(link);
    g_clear_pointer(&link->memory, pib_link_memory_unmap);
    if (link->kick_fd >= 0) {
        close(link->kick_fd);
        link->kick_fd = -1;
    }
    /* A connection that was refused at once must not make us hammer the switch. */
    if (now - link->connected_at_ms > RETRY_LAST_MS) {
        link->retry_delay_ms = RETRY_FIRST_MS;
    }
}

/* The peer or the network ended it. */
static void link_lost(PibHcaLink *link)
{
    PibHca *hca = link->hca;
    bool was_engaged;

    pib_hca_thread_stop(link);
    was_engaged = pib_hca_enter(hca);
    pib_hca_core_link_closed(hca->core, link->port);
    link_drop(link);
    link_retry_later(link);
    pib_hca_leave(hca, was_engaged);
}

/* What WELCOME has brought: the memory of the rings, and the eventfd by which the switch is woken. */
static bool link_share(PibHcaLink *link, const int *fds, size_t count)
{
    char *error = NULL;
    PibHcaRing out, in;
    PibLinkRing ring;

    if (count != 2) {
        warn_report("pib-hca: the switch hands over %zu descriptors, not 2", count);
        return false;
    }
    link->memory = pib_link_memory_map(fds[0], &error);
    if (!link->memory) {
        warn_report("pib-hca: %s", error);
        free(error);
        return false;
    }
    ring = pib_link_memory_out(link->memory);
    out = (PibHcaRing){ring.control, ring.bytes, ring.size};
    ring = pib_link_memory_in(link->memory);
    in = (PibHcaRing){ring.control, ring.bytes, ring.size};
    link->wakes = pib_link_memory_wakes(link->memory);
    link->kick_fd = dup(fds[1]);
    /* Made blocking by the channel, for whoever shares it. */
    g_unix_set_fd_nonblocking(link->kick_fd, true, NULL);
    pib_hca_core_link_shared(link->hca->core, link->port, &out, &in);
    return true;
}

static void link_readable(void *opaque)
{
    PibHcaLink *link = opaque;
    PibHca *hca = link->hca;
    struct iovec iov = {.iov_base = hca->rx_buffer, .iov_len = RX_CHUNK};
    int *fds = NULL;
    size_t fd_count = 0;
    ssize_t length = qio_channel_readv_full(QIO_CHANNEL(link->channel), &iov, 1, &fds, &fd_count, 0,
                                            NULL);
    bool was_engaged;
    bool fine = true;

    if (length == QIO_CHANNEL_ERR_BLOCK) {
        return;
    }
    if (length > 0) {
        was_engaged = pib_hca_enter(hca);
        if (fd_count > 0 && !link->memory) {
            fine = link_share(link, fds, fd_count);
        }
        if (fine) {
            PIB_HCA_TRACE(hca, PIB_HCA_TRACE_LINK_IN, "port %u bytes %zd", link->port,
                          (ssize_t)length);
            pib_hca_core_link_rx(hca->core, link->port, hca->rx_buffer, length);
        }
        if (link->memory && !link->runner && !link->to_close) {
            if (pib_hca_core_link_wants_memory(hca->core, link->port)) {
                pib_hca_one_copy_share(link);
            }
            pib_hca_thread_start(link);
        }
        pib_hca_leave(hca, was_engaged);
    }
    for (size_t i = 0; i < fd_count; i++) {
        close(fds[i]);
    }
    g_free(fds);
    /* By now an interrupt may have had the device unplugged. */
    if (link->channel && (length <= 0 || !fine)) {
        link->no_sharing = link->no_sharing || !fine;
        link_lost(link);
    }
}

static void link_writable(void *opaque)
{
    PibHcaLink *link = opaque;
    PibHca *hca = link->hca;
    bool was_engaged = pib_hca_enter(hca);

    link->want_write = false;
    link_set_handlers(link);
    pib_hca_core_link_writable(hca->core, link->port);
    pib_hca_leave(hca, was_engaged);
}

static void link_connected(QIOTask *task, void *opaque)
{
    PibHcaConnect *connect = opaque;
    PibHcaLink *link = connect->link;
    PibHca *hca;
    bool was_engaged;

    if (!link) {
        return; /* the device is gone */
    }
    link->connecting = NULL;
    if (qio_task_propagate_error(task, NULL)) {
        link_retry_later(link); /* no switch yet: the port stays Down */
        return;
    }
    link->channel = QIO_CHANNEL_SOCKET(object_ref(qio_task_get_source(task)));
    link->connected_at_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    qio_channel_set_blocking(QIO_CHANNEL(link->channel), false, &error_abort);
    qio_channel_set_delay(QIO_CHANNEL(link->channel), false);
    link_set_handlers(link);
    hca = link->hca;
    was_engaged = pib_hca_enter(hca);
    pib_hca_core_link_connected(hca->core, link->port,
                                hca->prop.shared_memory && !link->no_sharing &&
                                    hca->fabric_address->type == SOCKET_ADDRESS_TYPE_UNIX);
    pib_hca_leave(hca, was_engaged);
}

static void link_connect(PibHcaLink *link)
{
    QIOChannelSocket *channel = qio_channel_socket_new();

    link->connecting = g_new(PibHcaConnect, 1);
    link->connecting->link = link;
    qio_channel_set_name(QIO_CHANNEL(channel), "pib-hca-link");
    qio_channel_socket_connect_async(channel, link->hca->fabric_address, link_connected,
                                     link->connecting, g_free, NULL);
    object_unref(OBJECT(channel));
}

static void link_retry(void *opaque)
{
    link_connect(opaque);
}

void pib_hca_links_start(PibHca *hca)
{
    hca->rx_buffer = g_malloc(RX_CHUNK);
    for (unsigned i = 0; i < hca->prop.ports; i++) {
        PibHcaLink *link = &hca->links[i];

        link->hca = hca;
        link->port = i + 1;
        link->kick_fd = -1;
        link->retry_delay_ms = RETRY_FIRST_MS;
        link->retry = timer_new_ms(QEMU_CLOCK_REALTIME, link_retry, link);
        if (hca->fabric_address) {
            link_connect(link);
        }
    }
}

/*
 * The thread of one port runs the queues of all of them, and the core looks after every link
 * whenever it is entered: first all threads stop, then the core closes all links, and only then
 * the memory of the first one goes.
 */
void pib_hca_links_stop(PibHca *hca)
{
    for (unsigned i = 0; i < hca->prop.ports; i++) {
        PibHcaLink *link = &hca->links[i];

        if (link->connecting) {
            link->connecting->link = NULL;
            link->connecting = NULL;
        }
        pib_hca_thread_stop(link);
    }
    pib_hca_lock(hca);
    if (hca->core) {
        pib_hca_core_stop_copying(hca->core);
        for (unsigned i = 0; i < hca->prop.ports; i++) {
            pib_hca_core_link_closed(hca->core, i + 1);
        }
    }
    for (unsigned i = 0; i < hca->prop.ports; i++) {
        if (hca->links[i].channel) {
            link_drop(&hca->links[i]);
        }
    }
    pib_hca_unlock(hca);
    for (unsigned i = 0; i < hca->prop.ports; i++) {
        g_clear_pointer(&hca->links[i].retry, timer_free);
    }
    g_clear_pointer(&hca->rx_buffer, g_free);
    g_clear_pointer(&hca->fabric_address, qapi_free_SocketAddress);
}

void pib_hca_links_update(PibHca *hca)
{
    for (unsigned i = 0; i < hca->prop.ports; i++) {
        link_set_handlers(&hca->links[i]);
    }
}

size_t pib_hca_link_write(void *opaque, unsigned port, const PibHcaBytes *parts, size_t count)
{
    PibHca *hca = opaque;
    PibHcaLink *link = &hca->links[port - 1];
    size_t total = 0;

    while (link->channel && count > 0) {
        struct iovec iov[TX_PARTS];
        size_t batch = MIN(count, TX_PARTS);
        size_t wanted = 0;
        ssize_t written;

        for (size_t i = 0; i < batch; i++) {
            iov[i] = (struct iovec){.iov_base = (void *)parts[i].data, .iov_len = parts[i].length};
            wanted += parts[i].length;
        }
        written = qio_channel_writev_full(QIO_CHANNEL(link->channel), iov, batch,
                                          link->fds_to_send ? link->one_copy->fds : NULL,
                                          link->fds_to_send, 0, NULL);
        if (written > 0) {
            link->fds_to_send = 0;
        }
        /* On an error the reader sees the end of the stream too and reports it; until then we wait. */
        total += MAX(written, 0);
        if (written < 0 || (size_t)written < wanted) {
            link->want_write = true;
            link_set_handlers(link);
            break;
        }
        parts += batch;
        count -= batch;
    }
    PIB_HCA_TRACE(hca, PIB_HCA_TRACE_LINK_OUT, "port %u bytes %zu", port, total);
    return total;
}

/* Perhaps on the link's own thread: the rest is done in the main loop. */
void pib_hca_link_close(void *opaque, unsigned port)
{
    PibHca *hca = opaque;
    PibHcaLink *link = &hca->links[port - 1];

    if (link->channel) {
        link->to_close = true;
        qemu_bh_schedule(hca->close_bh);
    }
}

void pib_hca_links_close(void *opaque)
{
    PibHca *hca = opaque;

    for (unsigned i = 0; i < hca->prop.ports; i++) {
        PibHcaLink *link = &hca->links[i];

        if (link->to_close && link->channel) {
            pib_hca_thread_stop(link);
            pib_hca_lock(hca);
            link_drop(link);
            pib_hca_unlock(hca);
            link_retry_later(link);
        }
    }
}

void pib_hca_link_kick(void *opaque, unsigned port)
{
    PibHca *hca = opaque;
    static const uint64_t one = 1;
    ssize_t written = write(hca->links[port - 1].kick_fd, &one, sizeof(one));

    /* EAGAIN: so many are pending that one more makes no difference. */
    (void)written;
}
