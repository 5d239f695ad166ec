/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The core's lock, the entry into the core, and the interrupts that are sent at
 * its end.
 */
#include "qemu/osdep.h"
#include "hw/pci/msix.h"
#include "pib_hca_glue.h"
#include "qemu/bitops.h"
#include "qemu/processor.h"
#include "qemu/thread.h"

/*
 * Time for which a thread spins for the lock. The holder keeps the lock for
 * some microseconds; a wake-up takes ten.
 */
#define AWAKE_NS 50000

struct PibHcaLock {
    QemuMutex mutex;
    unsigned waiters; /* atomic, as are the two below */
    uint32_t waits;
    uint32_t sleeps;
};

void pib_hca_lock_init(PibHca *hca)
{
    hca->lock = g_new0(PibHcaLock, 1);
    qemu_mutex_init(&hca->lock->mutex);
}

void pib_hca_lock_destroy(PibHca *hca)
{
    qemu_mutex_destroy(&hca->lock->mutex);
    g_clear_pointer(&hca->lock, g_free);
}

static bool pib_hca_lock_awake(PibHcaLock *lock)
{
    int64_t until = get_clock() + AWAKE_NS;

    do {
        cpu_relax();
        if (qemu_mutex_trylock(&lock->mutex) == 0) {
            return true;
        }
    } while (get_clock() < until);
    return false;
}

void pib_hca_lock(PibHca *hca)
{
    PibHcaLock *lock = hca->lock;

    if (qemu_mutex_trylock(&lock->mutex) == 0) {
        return;
    }
    qatomic_inc(&lock->waiters);
    qatomic_inc(&lock->waits);
    if (!pib_hca_lock_awake(lock)) {
        qatomic_inc(&lock->sleeps);
        qemu_mutex_lock(&lock->mutex);
    }
    qatomic_dec(&lock->waiters);
}

void pib_hca_unlock(PibHca *hca)
{
    qemu_mutex_unlock(&hca->lock->mutex);
}

bool pib_hca_lock_is_taken(PibHca *hca)
{
    if (qemu_mutex_trylock(&hca->lock->mutex) != 0) {
        return true;
    }
    qemu_mutex_unlock(&hca->lock->mutex);
    return false;
}

bool pib_hca_lock_is_wanted(PibHca *hca)
{
    return qatomic_read(&hca->lock->waiters) != 0;
}

void pib_hca_lock_count(PibHca *hca, uint32_t *waits, uint32_t *sleeps)
{
    *waits = qatomic_read(&hca->lock->waits);
    *sleeps = qatomic_read(&hca->lock->sleeps);
}

bool pib_hca_enter(PibHca *hca)
{
    MemReentrancyGuard *guard = &DEVICE(hca)->mem_reentrancy_guard;
    bool was_engaged = guard->engaged_in_io;

    object_ref(OBJECT(hca));
    guard->engaged_in_io = true;
    pib_hca_lock(hca);
    return was_engaged;
}

void pib_hca_leave(PibHca *hca, bool was_engaged)
{
    pib_hca_unlock(hca);
    pib_hca_send_interrupts(hca);
    DEVICE(hca)->mem_reentrancy_guard.engaged_in_io = was_engaged;
    object_unref(OBJECT(hca));
}

void pib_hca_enter_for_interrupts(PibHca *hca)
{
    bool was_engaged = pib_hca_enter(hca);

    pib_hca_leave(hca, was_engaged);
}

/* Takes the lowest pending vector; false when there is none. */
static bool pib_hca_take_vector(PibHca *hca, unsigned *vector)
{
    /* Read once, because a link's thread may clear bits meanwhile. */
    uint64_t pending = qatomic_read(&hca->pending_vectors);

    if (pending == 0) {
        return false;
    }
    *vector = ctz64(pending);
    qatomic_and(&hca->pending_vectors, ~BIT_ULL(*vector));
    return true;
}

void pib_hca_send_interrupts(PibHca *hca)
{
    PCIDevice *pci = &hca->parent_obj;
    unsigned vector;

    pib_hca_irqfds_send(hca);
    while (pib_hca_take_vector(hca, &vector)) {
        if (msix_enabled(pci) && pib_hca_may_master(hca)) {
            PIB_HCA_TRACE(hca, PIB_HCA_TRACE_INTERRUPT, "vector %u", vector);
            hca->messages_sent++;
            msix_notify(pci, vector);
        }
    }
}
