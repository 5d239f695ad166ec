/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The core's lock, and the thread of each fabric link in shared memory: it sleeps on a futex that the switch
 * wakes, takes out of the ring what has come in, and does what doorbells have left over. It never takes the BQL:
 * interrupts that the core raises meanwhile are sent from a bottom half of the main loop.
 */
#include "qemu/osdep.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#include "idle_spin.h"
#include "pib_hca_glue.h"
#include "qemu/main-loop.h"
#include "qemu/processor.h"
#include "qemu/rcu.h"
#include "short_slices.h"

/*
 * A holder works for some microseconds, a wake-up takes ten: who finds the lock taken waits for it awake for a
 * while.
 */
#define LOCK_SPINS 2000
/* Between two looks of a thread that stays awake. */
#define LOOK_SPINS 64
/* How long a link's thread lets others have the lock between two rounds. */
#define YIELD_SPINS 2000

void pib_hca_lock(PibHca *hca)
{
    if (qemu_mutex_trylock(&hca->lock) == 0) {
        return;
    }
    qatomic_inc(&hca->lock_waiters);
    qatomic_inc(&hca->lock_waits);
    for (unsigned i = 0; i < LOCK_SPINS; i++) {
        cpu_relax();
        if (qemu_mutex_trylock(&hca->lock) == 0) {
            qatomic_dec(&hca->lock_waiters);
            return;
        }
    }
    qatomic_inc(&hca->lock_sleeps);
    qemu_mutex_lock(&hca->lock);
    qatomic_dec(&hca->lock_waiters);
}

void pib_hca_unlock(PibHca *hca)
{
    qemu_mutex_unlock(&hca->lock);
}

/* A processor that waits with its doorbell goes first. */
static void let_others(PibHca *hca)
{
    for (unsigned i = 0; i < YIELD_SPINS && qatomic_read(&hca->lock_waiters) != 0; i++) {
        cpu_relax();
    }
}

/* Until the switch has something for us, or for as long as nobody else wants the processor. */
static bool spin(PibHcaLink *link, PibIdleSpin *idle, uint32_t seen)
{
    while (pib_idle_spin_go_on(idle)) {
        for (unsigned i = 0; i < LOOK_SPINS; i++) {
            cpu_relax();
        }
        if (qatomic_load_acquire(link->wakes) != seen) {
            return true;
        }
    }
    return false;
}

static void futex_wait(uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

/* The same word that the switch wakes us by: the thread looks after everything when it moves. */
static void wake_thread(PibHcaLink *link)
{
    qatomic_inc(link->wakes);
    syscall(SYS_futex, link->wakes, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* One round under the lock; true when there is more to do. */
static bool serve(PibHcaLink *link)
{
    PibHca *hca = link->hca;
    bool more = false;

    pib_hca_lock(hca);
    if (!hca->paused && !qatomic_read(&link->stopping)) {
        if (qatomic_xchg(&hca->run_wanted, false)) {
            pib_hca_core_run(hca->core);
        }
        more = pib_hca_core_link_poll(hca->core, link->port) || qatomic_read(&hca->run_wanted);
    }
    pib_hca_unlock(hca);
    if (qatomic_read(&hca->pending_vectors) != 0) {
        qemu_bh_schedule(hca->interrupt_bh);
    }
    return more;
}

static void *link_thread(void *opaque)
{
    PibHcaLink *link = opaque;
    PibIdleSpin idle;

    rcu_register_thread();
    pib_ask_for_short_slices();
    pib_idle_spin_init(&idle, link->hca->prop.poll_us);
    while (!qatomic_read(&link->stopping)) {
        uint32_t seen = qatomic_load_acquire(link->wakes);

        if (serve(link)) {
            let_others(link->hca);
        } else if (spin(link, &idle, seen)) {
            pib_idle_spin_found(&idle);
        } else {
            futex_wait(link->wakes, seen);
        }
    }
    pib_idle_spin_end(&idle);
    rcu_unregister_thread();
    return NULL;
}

void pib_hca_thread_start(PibHcaLink *link)
{
    g_autofree char *name = g_strdup_printf("pib-hca/%u", link->port);

    link->stopping = false;
    link->has_thread = true;
    qemu_thread_create(&link->thread, name, link_thread, link, QEMU_THREAD_JOINABLE);
}

void pib_hca_thread_stop(PibHcaLink *link)
{
    if (link->has_thread) {
        qatomic_set(&link->stopping, true);
        wake_thread(link);
        qemu_thread_join(&link->thread);
        link->has_thread = false;
        qemu_bh_schedule(link->hca->bh); /* which does what the thread would have done */
    }
}

void pib_hca_threads_wake(PibHca *hca)
{
    for (unsigned i = 0; i < hca->prop.ports; i++) {
        if (hca->links[i].has_thread) {
            wake_thread(&hca->links[i]);
        }
    }
}

/* From any thread. What the core leaves over is a link thread's work if there is one. */
void pib_hca_wake(void *opaque)
{
    PibHca *hca = opaque;

    for (unsigned i = 0; i < hca->prop.ports; i++) {
        PibHcaLink *link = &hca->links[i];

        if (link->has_thread && !qatomic_read(&link->stopping)) {
            qatomic_set(&hca->run_wanted, true);
            if (!qemu_thread_is_self(&link->thread)) {
                wake_thread(link);
            }
            return;
        }
    }
    qemu_bh_schedule(hca->bh);
}
