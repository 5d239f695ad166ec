/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file of a recording (property `record`); qemu-hw/core/record has its
 * format. The core passes large pieces, so this file does not buffer them.
 */
#include "qemu/osdep.h"
#include <sys/file.h>
#include "pib_hca_glue.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "qemu/units.h"

struct PibHcaRecord {
    int fd; /* -1: the recording has ended; changed with the core's lock */
};

/* The file has content of guest memory: only QEMU's user may read it. */
#define RECORD_MODE 0600

/*
 * Empties an existing file and sets its mode. The lock keeps out another device
 * with the same file, because both recordings would be damaged.
 */
static bool pib_hca_record_prepare(int fd, const char *path, Error **errp)
{
    struct stat found;

    if (fstat(fd, &found) == 0 && !S_ISREG(found.st_mode)) {
        error_setg(errp, "record=%s: name a regular file", path);
        return false;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        error_setg(errp,
                   "record=%s: another device records to this file: give each "
                   "its own",
                   path);
        return false;
    }
    if (fchmod(fd, RECORD_MODE) < 0 || ftruncate(fd, 0) < 0) {
        error_setg_errno(errp, errno,
                         "record=%s: name a file that belongs to QEMU's user",
                         path);
        return false;
    }
    return true;
}

bool pib_hca_record_open(PibHca *hca, PibHcaConfig *config, Error **errp)
{
    const char *path = hca->prop.record;
    int fd;

    if (!path || !*path) {
        if (hca->prop.record_payload ||
            hca->prop.record_limit != PIB_HCA_RECORD_LIMIT) {
            error_setg(errp,
                       "record-payload and record-limit need record=FILE");
            return false;
        }
        return true;
    }
    /* A FIFO without a reader would block QEMU. */
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, RECORD_MODE);
    if (fd < 0) {
        error_setg_errno(errp, errno,
                         "record=%s: name a file that QEMU may write", path);
        return false;
    }
    if (!pib_hca_record_prepare(fd, path, errp)) {
        close(fd);
        return false;
    }
    hca->record = g_new0(PibHcaRecord, 1);
    hca->record->fd = fd;
    config->record = true;
    config->record_payload = hca->prop.record_payload;
    config->record_limit = hca->prop.record_limit;
    return true;
}

void pib_hca_record_close(PibHca *hca)
{
    if (hca->record) {
        if (hca->record->fd >= 0) {
            close(hca->record->fd);
        }
        g_clear_pointer(&hca->record, g_free);
    }
}

static void pib_hca_record_end(PibHca *hca)
{
    warn_report("%s: the recording %s ends here: %s. It can be replayed up to "
                "here, and the VM goes on. For a longer one, free space and "
                "start the VM again",
                hca->path, hca->prop.record, strerror(errno));
    close(hca->record->fd);
    hca->record->fd = -1;
}

/*
 * A file that may not grow (RLIMIT_FSIZE) gives the writing thread SIGXFSZ,
 * which would end QEMU. The thread blocks the signal and takes it, so that the
 * error EFBIG remains.
 */
static ssize_t pib_hca_record_write(int fd, const uint8_t *bytes, size_t length)
{
    static const struct timespec no_time;
    sigset_t too_large, before;
    ssize_t written;

    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &too_large, &before);
    written = RETRY_ON_EINTR(write(fd, bytes, length));
    if (written < 0 && errno == EFBIG) {
        (void)RETRY_ON_EINTR(sigtimedwait(&too_large, NULL, &no_time));
        errno = EFBIG;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return written;
}

/* Host::record(), on any thread with the lock. */
bool pib_hca_record(void *opaque, const uint8_t *bytes, size_t length)
{
    PibHca *hca = opaque;

    while (length > 0) {
        ssize_t written =
            pib_hca_record_write(hca->record->fd, bytes, length);

        if (written < 0) {
            pib_hca_record_end(hca);
            return false;
        }
        bytes += written;
        length -= written;
    }
    return true;
}
