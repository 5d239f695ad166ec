/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Descriptors that a switch passes over the socket of a link: the memory of the
 * link's rings, and the eventfd that wakes the switch.
 */
#include "qemu/osdep.h"
#include "io/channel-socket.h"
#include "pib_hca_glue.h"
#include "qemu/error-report.h"

/* Headers of Linux before 6.16 do not define this option. */
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

void pib_hca_fds_refuse(PibHca *hca, QIOChannel *channel)
{
    int pass = 0;

    if (!hca->tls) {
        /* Fails on an older kernel, and on TCP, which passes no descriptors. */
        (void)setsockopt(QIO_CHANNEL_SOCKET(channel)->fd, SOL_SOCKET,
                         SO_PASSRIGHTS, &pass, sizeof(pass));
    }
}

PibLinkMemory *pib_hca_fds_map(const int *fds, size_t count)
{
    PibLinkMemory *memory;
    char *error = NULL;

    if (count != 2) {
        warn_report("pib-hca: %zu descriptors came from the switch, not 2; "
                    "the link works without shared memory (QEMU may need more "
                    "file descriptors: ulimit -n)",
                    count);
        return NULL;
    }
    memory = pib_link_memory_map(fds[0], &error);
    if (!memory) {
        warn_report("pib-hca: %s; the link works without shared memory",
                    error);
        free(error);
    }
    return memory;
}

void pib_hca_fds_close(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}
