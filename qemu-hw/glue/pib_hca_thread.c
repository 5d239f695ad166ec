/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The core's lock, and the thread of each fabric link in shared memory: it sleeps on a futex that the switch
 * wakes, takes out of the ring what has come in, and does what doorbells have left over. It takes the BQL for one
 * thing, to send the interrupts that the core has raised meanwhile and that have no irqfd: having the main loop do
 * that would be one more wake-up on the way of each. Who has the BQL therefore cannot join it, see
 * pib_hca_thread_stop().
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

/* How long a thread may take to stop before it is woken again. */
#define STOP_RETRY_MS 10

/* Outlives its place in the link while it waits for the BQL. */
struct PibHcaThread {
    PibHca *hca;      /* a reference */
    PibHcaLink *link; /* not ours any more once it is both `stopping` and `away` */
    QemuThread thread;
    QemuMutex lock;
    QemuCond has_left;
    bool stopping; /* set under the BQL, for ever */
    bool away;     /* touches nothing of the link until it has the BQL; set under `lock`, cleared under both */
};

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
static bool serve(PibHcaThread *self)
{
    PibHca *hca = self->hca;
    bool more = false;

    pib_hca_lock(hca);
    if (!hca->paused && !qatomic_read(&self->stopping)) {
        if (qatomic_xchg(&hca->run_wanted, false)) {
            pib_hca_core_run(hca->core);
        }
        more = pib_hca_core_link_poll(hca->core, self->link->port) || qatomic_read(&hca->run_wanted);
    }
    pib_hca_unlock(hca);
    return more;
}

/* From here to come_back() nobody has to wait for us. */
static void leave(PibHcaThread *self)
{
    qemu_mutex_lock(&self->lock);
    self->away = true;
    qemu_cond_signal(&self->has_left);
    qemu_mutex_unlock(&self->lock);
    bql_lock();
}

static void come_back(PibHcaThread *self)
{
    qemu_mutex_lock(&self->lock);
    self->away = false;
    qemu_mutex_unlock(&self->lock);
    bql_unlock();
}

/* False when the thread was stopped meanwhile: it is still away then, and has the BQL. */
static bool send_interrupts(PibHcaThread *self)
{
    pib_hca_irqfds_send(self->hca);
    if (qatomic_read(&self->hca->pending_vectors) == 0) {
        return true;
    }
    leave(self);
    if (self->stopping) {
        return false;
    }
    pib_hca_interrupts(self->hca);
    if (self->stopping) {
        return false; /* the interrupt has had the device unplugged */
    }
    come_back(self);
    return true;
}

/* Serves until it is stopped, and ends with the BQL. */
static void serve_link(PibHcaThread *self, PibIdleSpin *idle)
{
    PibHcaLink *link = self->link;

    for (;;) {
        /* First: the count that pib_hca_thread_stop() has moved shows `stopping`. */
        uint32_t seen = qatomic_load_acquire(link->wakes);
        bool more;

        if (qatomic_read(&self->stopping)) {
            break;
        }
        more = serve(self);
        if (!send_interrupts(self)) {
            return;
        }
        if (more) {
            let_others(self->hca);
        } else if (spin(link, idle, seen)) {
            pib_idle_spin_found(idle);
        } else {
            futex_wait(link->wakes, seen);
        }
    }
    leave(self);
}

static void *link_thread(void *opaque)
{
    PibHcaThread *self = opaque;
    PibIdleSpin idle;

    rcu_register_thread();
    pib_ask_for_short_slices();
    pib_idle_spin_init(&idle, self->hca->prop.poll_us);
    serve_link(self, &idle);
    pib_idle_spin_end(&idle);
    object_unref(OBJECT(self->hca));
    bql_unlock();
    rcu_unregister_thread();
    qemu_cond_destroy(&self->has_left);
    qemu_mutex_destroy(&self->lock);
    g_free(self);
    return NULL;
}

void pib_hca_thread_start(PibHcaLink *link)
{
    g_autofree char *name = g_strdup_printf("pib-hca/%u", link->port);
    PibHcaThread *thread = g_new0(PibHcaThread, 1);

    thread->hca = link->hca;
    object_ref(OBJECT(thread->hca));
    thread->link = link;
    qemu_mutex_init(&thread->lock);
    qemu_cond_init(&thread->has_left);
    link->runner = thread;
    qemu_thread_create(&thread->thread, name, link_thread, thread, QEMU_THREAD_DETACHED);
}

/*
 * Afterwards the thread touches neither the link nor the device's state any more. One that waits for the BQL,
 * which we have, finds out when it gets it; to wait for its end would be to wait for ever.
 */
void pib_hca_thread_stop(PibHcaLink *link)
{
    PibHcaThread *thread = link->runner;

    if (!thread) {
        return;
    }
    pib_hca_lock(link->hca);
    link->runner = NULL;
    pib_hca_unlock(link->hca);
    qatomic_set(&thread->stopping, true);
    wake_thread(link);
    qemu_mutex_lock(&thread->lock);
    while (!thread->away) {
        /* The switch can turn the count back before the thread sleeps: wake it again. */
        if (!qemu_cond_timedwait(&thread->has_left, &thread->lock, STOP_RETRY_MS)) {
            wake_thread(link);
        }
    }
    qemu_mutex_unlock(&thread->lock);
    qemu_bh_schedule(link->hca->bh); /* which does what the thread would have done */
}

void pib_hca_threads_wake(PibHca *hca)
{
    for (unsigned i = 0; i < hca->prop.ports; i++) {
        if (hca->links[i].runner) {
            wake_thread(&hca->links[i]);
        }
    }
}

/* From any thread, with the lock. What the core leaves over is a link thread's work if there is one. */
void pib_hca_wake(void *opaque)
{
    PibHca *hca = opaque;

    for (unsigned i = 0; i < hca->prop.ports; i++) {
        PibHcaLink *link = &hca->links[i];

        if (link->runner) {
            qatomic_set(&hca->run_wanted, true);
            if (!qemu_thread_is_self(&link->runner->thread)) {
                wake_thread(link);
            }
            return;
        }
    }
    qemu_bh_schedule(hca->bh);
}
