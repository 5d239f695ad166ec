/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sockets of the fabric links: connect, reconnect, and pass bytes to and
 * from the core without blocking. docs/fabric-protocol.md defines the bytes;
 * this file does not interpret them.
 */
#include "qemu/osdep.h"
#include "io/channel-socket.h"
#include "pib_hca_glue.h"
#include "pib_hca_qemu.h"
#include "pib_link_memory.h"
#include "qapi/error.h"
#include "qapi/qapi-visit-sockets.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/sockets.h"
#include "qemu/timer.h"
#include "system/runstate.h"

#define RETRY_FIRST_MS 50
#define RETRY_LAST_MS 1000
/* Time for which connections avoid shared memory after it has failed. */
#define SHARE_AGAIN_MS 60000
#define RX_CHUNK (256 * 1024)
#define TX_PARTS 64

typedef struct PibHcaLink PibHcaLink;

/* An attempt to connect. It outlives its link if the device is unplugged. */
typedef struct PibHcaConnect {
    PibHcaLink *link; /* NULL: the device is unplugged */
} PibHcaConnect;

/* One port's connection to the switch. */
struct PibHcaLink {
    PibHca *hca;
    unsigned port; /* 1.. */
    PibHcaConnect *connecting; /* NULL: no attempt is under way */
    QEMUTimer *retry;          /* real-time clock */
    unsigned retry_delay_ms;
    int64_t connected_at_ms;
    int64_t share_after_ms; /* no shared memory before; real-time clock */
    /*
     * A change of the members below needs the BQL and the lock, but the lock
     * alone for `want_write` and `to_close`, and the BQL alone for
     * `tls_failed`.
     */
    QIOChannel *channel; /* NULL: not connected */
    bool want_write; /* the core waits for room in the socket */
    bool to_close;   /* the core has closed the link */
    bool takes_fds;  /* the next bytes may carry WELCOME's descriptors */
    bool tls_failed; /* the log has the warning */
    bool fds_failed; /* the log has the warning */
    PibLinkMemory *memory; /* NULL: frames use the socket */
    int kick_fd;           /* eventfd that the switch polls, or -1 */
    PibHcaPeerCopy *peer_copy; /* NULL: no peer copy */
    bool sends_fds; /* the next bytes carry peer_copy's descriptors */
};

struct PibHcaLinks {
    SocketAddress *address; /* NULL: no fabric, so all ports stay Down */
    uint8_t *rx_buffer;
    QEMUBH *close_bh; /* closes the links that are `to_close` */
    PibHcaLink links[PIB_HCA_GLUE_PORTS];
};

static void pib_hca_link_readable(void *opaque);
static void pib_hca_link_writable(void *opaque);
static void pib_hca_links_close(void *opaque);

void pib_hca_links_init(PibHca *hca)
{
    hca->links = g_new0(PibHcaLinks, 1);
    hca->links->rx_buffer = g_malloc(RX_CHUNK);
    hca->links->close_bh = qemu_bh_new(pib_hca_links_close, hca);
    for (unsigned i = 0; i < PIB_HCA_GLUE_PORTS; i++) {
        hca->links->links[i].hca = hca;
        hca->links->links[i].port = i + 1;
        hca->links->links[i].kick_fd = -1;
    }
}

void pib_hca_links_free(PibHca *hca)
{
    if (hca->links) {
        qapi_free_SocketAddress(hca->links->address);
        qemu_bh_delete(hca->links->close_bh);
        g_free(hca->links->rx_buffer);
        pib_hca_tls_close(hca);
        g_clear_pointer(&hca->links, g_free);
    }
}

bool pib_hca_links_parse(PibHca *hca, Error **errp)
{
    const char *fabric = hca->prop.fabric;

    if (!fabric || !*fabric) {
        return true;
    }
    hca->links->address = pib_hca_fabric_address(fabric, errp);
    return hca->links->address &&
           pib_hca_tls_open(hca, hca->links->address, errp);
}

/* Call with the lock. */
static void pib_hca_link_set_handlers(PibHcaLink *link)
{
    AioContext *ctx = qemu_get_aio_context();
    bool running = link->channel && !link->hca->paused;

    assert(pib_hca_lock_is_taken(link->hca));
    if (link->channel) {
        qio_channel_set_aio_fd_handler(
            link->channel, ctx,
            running ? pib_hca_link_readable : NULL, ctx,
            running && link->want_write ? pib_hca_link_writable : NULL, link);
    }
}

static void pib_hca_link_retry_later(PibHcaLink *link)
{
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    timer_mod(link->retry, now + link->retry_delay_ms);
    link->retry_delay_ms = MIN(link->retry_delay_ms * 2, RETRY_LAST_MS);
}

/* Call with the lock, after the core has closed the link. */
static void pib_hca_link_drop(PibHcaLink *link)
{
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    qio_channel_set_aio_fd_handler(link->channel,
                                   qemu_get_aio_context(), NULL,
                                   qemu_get_aio_context(), NULL, NULL);
    object_unref(OBJECT(link->channel));
    link->channel = NULL;
    link->want_write = false;
    link->to_close = false;
    g_clear_pointer(&link->peer_copy, pib_hca_peer_copy_free);
    g_clear_pointer(&link->memory, pib_link_memory_unmap);
    if (link->kick_fd >= 0) {
        close(link->kick_fd);
        link->kick_fd = -1;
    }
    /*
     * A connection that has lasted resets the delay. A switch that refuses at
     * once is retried at growing intervals.
     */
    if (now - link->connected_at_ms > RETRY_LAST_MS) {
        link->retry_delay_ms = RETRY_FIRST_MS;
    }
}

/* The switch or the network has ended the connection. */
static void pib_hca_link_lost(PibHcaLink *link)
{
    PibHca *hca = link->hca;
    bool was_engaged;

    pib_hca_thread_stop(hca, link->port);
    was_engaged = pib_hca_enter(hca);
    pib_hca_core_link_closed(hca->core, link->port);
    pib_hca_link_drop(link);
    pib_hca_link_retry_later(link);
    pib_hca_leave(hca, was_engaged);
}

static PibHcaRing pib_hca_ring(PibLinkRing ring)
{
    return (PibHcaRing){ring.control, ring.bytes, ring.size};
}

/* Takes the descriptors of WELCOME. Sets the entries that it keeps to -1. */
static bool pib_hca_link_share(PibHcaLink *link, int *fds, size_t count)
{
    PibHcaRing out, in;

    link->memory = pib_hca_fds_map(fds, count);
    if (!link->memory) {
        link->share_after_ms =
            qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + SHARE_AGAIN_MS;
        return false;
    }
    link->kick_fd = fds[1];
    fds[1] = -1;
    /* QEMU's channel has cleared O_NONBLOCK, for the switch as well. */
    g_unix_set_fd_nonblocking(link->kick_fd, true, NULL);
    out = pib_hca_ring(pib_link_memory_out(link->memory));
    in = pib_hca_ring(pib_link_memory_in(link->memory));
    pib_hca_core_link_shared(link->hca->core, link->port, &out, &in);
    return true;
}

/*
 * Descriptors come with WELCOME's first byte, on a connection that asked for
 * shared memory, or not at all. False if the link has to be closed.
 */
static bool pib_hca_link_take_fds(PibHcaLink *link, int *fds, size_t count)
{
    bool expected = link->takes_fds;

    if (expected) {
        link->takes_fds = false;
        pib_hca_fds_refuse(link->hca, link->channel);
    }
    if (count == 0) {
        return true;
    }
    if (expected) {
        return pib_hca_link_share(link, fds, count);
    }
    if (!link->fds_failed) {
        warn_report("pib-hca: port %u: fabric link closed: %zu descriptors "
                    "came that the device had not asked for: look which "
                    "program listens at %s",
                    link->port, count, link->hca->prop.fabric);
    }
    link->fds_failed = true;
    return false;
}

static void pib_hca_link_offer_memory(PibHcaLink *link)
{
    link->peer_copy = pib_hca_peer_copy_new();
    if (link->peer_copy) {
        link->sends_fds = true; /* the next write has the descriptors */
        pib_hca_peer_copy_offer(link->peer_copy, link->hca->core, link->port);
        link->sends_fds = false;
    }
}

/* Starts the thread that serves the link from now on. */
static void pib_hca_link_start_thread(PibHcaLink *link)
{
    PibHca *hca = link->hca;

    if (pib_hca_core_link_wants_memory(hca->core, link->port)) {
        pib_hca_link_offer_memory(link);
    }
    pib_hca_thread_start(hca, link->port,
                         pib_link_memory_wakes(link->memory));
}

/* False if the link has to be closed. */
static bool pib_hca_link_received(PibHcaLink *link, size_t length, int *fds,
                                  size_t fd_count)
{
    PibHca *hca = link->hca;

    if (!pib_hca_link_take_fds(link, fds, fd_count)) {
        return false;
    }
    PIB_HCA_TRACE(hca, PIB_HCA_TRACE_LINK_IN, "port %u bytes %zu", link->port,
                  length);
    pib_hca_core_link_rx(hca->core, link->port, hca->links->rx_buffer, length);
    if (link->memory && !link->to_close &&
        !pib_hca_thread_runs(hca, link->port)) {
        pib_hca_link_start_thread(link);
    }
    return true;
}

/* Other threads may write to the same TLS session, so the lock is held. */
static void pib_hca_link_readable(void *opaque)
{
    PibHcaLink *link = opaque;
    PibHca *hca = link->hca;
    struct iovec iov = {.iov_base = hca->links->rx_buffer,
                        .iov_len = RX_CHUNK};
    bool fds_pass =
        qio_channel_has_feature(link->channel, QIO_CHANNEL_FEATURE_FD_PASS);
    g_autofree int *fds = NULL;
    size_t fd_count = 0;
    ssize_t length = QIO_CHANNEL_ERR_BLOCK;
    bool was_engaged, works;

    object_ref(OBJECT(hca));
    was_engaged = pib_hca_enter(hca);
    if (!pib_hca_core_link_is_behind(hca->core, link->port)) {
        length = qio_channel_readv_full(link->channel, &iov, 1,
                                        fds_pass ? &fds : NULL,
                                        fds_pass ? &fd_count : NULL, 0, NULL);
    }
    works = length > 0 || length == QIO_CHANNEL_ERR_BLOCK;
    if (length > 0) {
        works = pib_hca_link_received(link, length, fds, fd_count);
    }
    pib_hca_leave(hca, was_engaged);
    pib_hca_fds_close(fds, fd_count);
    /* An interrupt may have unplugged the device meanwhile. */
    if (!works && hca->links && link->channel) {
        pib_hca_link_lost(link);
    }
    object_unref(OBJECT(hca));
}

static void pib_hca_link_writable(void *opaque)
{
    PibHcaLink *link = opaque;
    PibHca *hca = link->hca;
    bool was_engaged = pib_hca_enter(hca);

    link->want_write = false;
    pib_hca_link_set_handlers(link);
    pib_hca_core_link_writable(hca->core, link->port);
    pib_hca_leave(hca, was_engaged);
}

static bool pib_hca_link_can_share(PibHcaLink *link)
{
    PibHca *hca = link->hca;

    return hca->prop.shared_memory &&
           link->connected_at_ms >= link->share_after_ms &&
           hca->links->address->type == SOCKET_ADDRESS_TYPE_UNIX;
}

static PibHcaConnect *pib_hca_link_begin(PibHcaLink *link)
{
    link->connecting = g_new(PibHcaConnect, 1);
    link->connecting->link = link;
    return link->connecting;
}

/*
 * A VM that has run and is stopped gets no connection: an entry into the core
 * would complete the commands that wait for the switch, in memory that must not
 * change. Before its start a VM has no commands.
 */
static bool pib_hca_link_must_wait(PibHcaLink *link)
{
    return link->hca->paused && !runstate_check(RUN_STATE_PRELAUNCH);
}

/* Takes over the reference to the channel. */
static void pib_hca_link_open(PibHcaLink *link, QIOChannel *channel)
{
    PibHca *hca = link->hca;
    bool was_engaged;

    if (pib_hca_link_must_wait(link)) {
        object_unref(OBJECT(channel));
        pib_hca_link_retry_later(link);
        return;
    }
    was_engaged = pib_hca_enter(hca);
    link->channel = channel;
    link->connected_at_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    link->takes_fds = pib_hca_link_can_share(link);
    if (!link->takes_fds) {
        pib_hca_fds_refuse(hca, channel);
    }
    pib_hca_link_set_handlers(link);
    pib_hca_core_link_connected(hca->core, link->port, link->takes_fds);
    pib_hca_leave(hca, was_engaged);
}

static void pib_hca_link_tls_failed(PibHcaLink *link, Error *error)
{
    if (!link->tls_failed) {
        warn_report("pib-hca: port %u: TLS: %s; look at the switch's log, too",
                    link->port, error_get_pretty(error));
    }
    link->tls_failed = true;
    error_free(error);
    pib_hca_link_retry_later(link);
}

static void pib_hca_link_secured(QIOTask *task, void *opaque)
{
    PibHcaConnect *connect = opaque;
    PibHcaLink *link = connect->link;
    Error *error = NULL;

    if (!link) {
        return;
    }
    link->connecting = NULL;
    if (qio_task_propagate_error(task, &error)) {
        pib_hca_link_tls_failed(link, error);
        return;
    }
    link->tls_failed = false;
    pib_hca_link_open(link, QIO_CHANNEL(object_ref(qio_task_get_source(task))));
}

static void pib_hca_link_secure(PibHcaLink *link, QIOChannel *socket)
{
    Error *error = NULL;
    QIOChannelTLS *tls = pib_hca_tls_channel(link->hca, socket, &error);

    if (!tls) {
        pib_hca_link_tls_failed(link, error);
        return;
    }
    qio_channel_tls_handshake(tls, pib_hca_link_secured,
                              pib_hca_link_begin(link), g_free, NULL);
    object_unref(OBJECT(tls));
}

static void pib_hca_link_connected(QIOTask *task, void *opaque)
{
    PibHcaConnect *connect = opaque;
    PibHcaLink *link = connect->link;
    QIOChannel *socket;

    if (!link) {
        return;
    }
    link->connecting = NULL;
    if (qio_task_propagate_error(task, NULL)) {
        pib_hca_link_retry_later(link); /* the port stays Down */
        return;
    }
    socket = QIO_CHANNEL(qio_task_get_source(task));
    qio_channel_set_blocking(socket, false, &error_abort);
    qio_channel_set_delay(socket, false);
    if (link->hca->tls) {
        pib_hca_link_secure(link, socket);
    } else {
        pib_hca_link_open(link, QIO_CHANNEL(object_ref(OBJECT(socket))));
    }
}

static void pib_hca_link_connect(void *opaque)
{
    PibHcaLink *link = opaque;
    QIOChannelSocket *channel;

    if (pib_hca_link_must_wait(link)) {
        pib_hca_link_retry_later(link);
        return;
    }
    channel = qio_channel_socket_new();
    qio_channel_set_name(QIO_CHANNEL(channel), "pib-hca-link");
    qio_channel_socket_connect_async(channel, link->hca->links->address,
                                     pib_hca_link_connected,
                                     pib_hca_link_begin(link), g_free, NULL);
    object_unref(OBJECT(channel));
}

void pib_hca_links_start(PibHca *hca)
{
    for (unsigned i = 0; i < hca->prop.ports; i++) {
        PibHcaLink *link = &hca->links->links[i];

        link->retry_delay_ms = RETRY_FIRST_MS;
        link->retry =
            timer_new_ms(QEMU_CLOCK_REALTIME, pib_hca_link_connect, link);
        if (hca->links->address) {
            pib_hca_link_connect(link);
        }
    }
}

static void pib_hca_links_stop_threads(PibHca *hca)
{
    for (unsigned i = 0; i < PIB_HCA_GLUE_PORTS; i++) {
        PibHcaLink *link = &hca->links->links[i];

        if (link->connecting) {
            link->connecting->link = NULL;
            link->connecting = NULL;
        }
        pib_hca_thread_stop(hca, link->port);
        g_clear_pointer(&link->retry, timer_free);
    }
}

/*
 * The thread of one port runs the QPs of all ports, and every entry into the
 * core serves all links. So all threads stop first, then the core closes all
 * links, and the memory of the links is freed last.
 */
void pib_hca_links_stop(PibHca *hca)
{
    if (!hca->links) {
        return;
    }
    pib_hca_links_stop_threads(hca);
    pib_hca_lock(hca);
    if (hca->core) {
        pib_hca_core_stop_copying(hca->core);
        pib_hca_await_switch(hca);
        for (unsigned i = 0; i < hca->prop.ports; i++) {
            pib_hca_core_link_closed(hca->core, i + 1);
        }
    }
    for (unsigned i = 0; i < PIB_HCA_GLUE_PORTS; i++) {
        if (hca->links->links[i].channel) {
            pib_hca_link_drop(&hca->links->links[i]);
        }
    }
    pib_hca_unlock(hca);
}

void pib_hca_links_update(PibHca *hca)
{
    for (unsigned i = 0; i < PIB_HCA_GLUE_PORTS; i++) {
        pib_hca_link_set_handlers(&hca->links->links[i]);
    }
}

static ssize_t pib_hca_link_writev(PibHcaLink *link, struct iovec *iov,
                                   size_t count)
{
    int *fds = NULL;
    size_t fd_count = 0;
    ssize_t written;

    if (link->sends_fds) {
        fd_count = pib_hca_peer_copy_fds(link->peer_copy, &fds);
    }
    written = qio_channel_writev_full(link->channel, iov, count,
                                      fds, fd_count, 0, NULL);
    if (written > 0) {
        link->sends_fds = false;
    }
    return written;
}

/*
 * Host::link_write(), on any thread with the lock. After an error the reader
 * sees the end of the stream; until then the core waits.
 */
size_t pib_hca_link_write(void *opaque, unsigned port, const PibHcaBytes *parts,
                          size_t count)
{
    PibHca *hca = opaque;
    PibHcaLink *link = &hca->links->links[port - 1];
    size_t total = 0;

    while (link->channel && count > 0) {
        struct iovec iov[TX_PARTS];
        size_t batch = MIN(count, TX_PARTS);
        size_t wanted = 0;
        ssize_t written;

        for (size_t i = 0; i < batch; i++) {
            iov[i] = (struct iovec){.iov_base = (void *)parts[i].data,
                                    .iov_len = parts[i].length};
            wanted += parts[i].length;
        }
        written = pib_hca_link_writev(link, iov, batch);
        total += MAX(written, 0);
        if (written < 0 || (size_t)written < wanted) {
            link->want_write = true;
            pib_hca_link_set_handlers(link);
            break;
        }
        parts += batch;
        count -= batch;
    }
    PIB_HCA_TRACE(hca, PIB_HCA_TRACE_LINK_OUT, "port %u bytes %zu", port,
                  total);
    return total;
}

/* Host::link_close(), on any thread; the main loop closes the socket. */
void pib_hca_link_close(void *opaque, unsigned port)
{
    PibHca *hca = opaque;
    PibHcaLink *link = &hca->links->links[port - 1];

    if (link->channel) {
        link->to_close = true;
        qemu_bh_schedule(hca->links->close_bh);
    }
}

static void pib_hca_links_close(void *opaque)
{
    PibHca *hca = opaque;

    for (unsigned i = 0; i < PIB_HCA_GLUE_PORTS; i++) {
        PibHcaLink *link = &hca->links->links[i];

        if (link->to_close && link->channel) {
            pib_hca_thread_stop(hca, link->port);
            pib_hca_lock(hca);
            pib_hca_link_drop(link);
            pib_hca_unlock(hca);
            pib_hca_link_retry_later(link);
        }
    }
}

/* Host::link_kick(), on any thread. */
void pib_hca_link_kick(void *opaque, unsigned port)
{
    static const uint64_t one = 1;
    PibHca *hca = opaque;
    ssize_t written =
        write(hca->links->links[port - 1].kick_fd, &one, sizeof(one));

    /* EAGAIN: the counter is full, so the eventfd wakes the switch anyway. */
    (void)written;
}
