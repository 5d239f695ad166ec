/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A thread for each fabric link in shared memory. It sleeps on a futex that the
 * switch wakes, handles the frames of the ring, and does the work that
 * doorbells have left over. It takes the BQL itself to send interrupts without
 * an irqfd, because a bottom half would be one more wake-up for each, and to
 * work behind a vIOMMU. So a thread that has the BQL cannot join the link's
 * thread: see pib_hca_thread_stop().
 */
#include "qemu/osdep.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#include "idle_spin.h"
#include "pib_hca_glue.h"
#include "qemu/main-loop.h"
#include "qemu/processor.h"
#include "qemu/rcu.h"
#include "qemu/thread.h"
#include "short_slices.h"

/* Interval between two checks of the futex by a thread that spins. */
#define LOOK_NS 2000
/* Longest time for which a thread with more work leaves the lock to others. */
#define YIELD_NS 50000
/* Time that a thread may take to stop before it is woken again. */
#define STOP_RETRY_MS 10

/* A thread may wait for the BQL after its place in PibHcaThreads is empty. */
typedef struct PibHcaThread {
    PibHca *hca; /* the thread holds a reference */
    unsigned port;
    uint32_t *wakes; /* not to be accessed once `stopping` and `away` are set */
    QemuThread thread;
    QemuMutex lock;
    QemuCond has_left;
    bool stopping; /* set with the BQL, never cleared */
    /*
     * While set, the thread accesses only this structure until it has the BQL.
     * Cleared with the BQL and `lock`.
     */
    bool away;
} PibHcaThread;

struct PibHcaThreads {
    PibHcaThread *of_port[PIB_HCA_GLUE_PORTS]; /* core's lock */
    bool run_wanted; /* a thread has to call pib_hca_core_run(); atomic */
};

void pib_hca_threads_init(PibHca *hca)
{
    hca->threads = g_new0(PibHcaThreads, 1);
}

void pib_hca_threads_free(PibHca *hca)
{
    g_clear_pointer(&hca->threads, g_free);
}

/* Leaves the lock to a thread that waits, such as a vCPU with a doorbell. */
static void pib_hca_thread_yield(PibHca *hca)
{
    int64_t until = get_clock() + YIELD_NS;

    while (pib_hca_lock_is_wanted(hca) && get_clock() < until) {
        cpu_relax();
    }
}

/* Uses the clock: x86's PAUSE takes 40 to 140 cycles, Arm's YIELD one. */
static void pib_hca_thread_pause(void)
{
    int64_t until = get_clock() + LOOK_NS;

    do {
        cpu_relax();
    } while (get_clock() < until);
}

/*
 * Spins while no other thread wants the processor. True: the counter has
 * changed, so there may be work.
 */
static bool pib_hca_thread_spin(PibHcaThread *self, PibIdleSpin *idle,
                                uint32_t seen)
{
    while (pib_idle_spin_go_on(idle)) {
        pib_hca_thread_pause();
        if (qatomic_load_acquire(self->wakes) != seen) {
            return true;
        }
    }
    return false;
}

static void pib_hca_futex_wait(uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

/*
 * Wakes the thread as the switch does: any change of the counter wakes the
 * thread, which then checks for all kinds of work.
 */
static void pib_hca_thread_wake(PibHcaThread *thread)
{
    qatomic_inc(thread->wakes);
    syscall(SYS_futex, thread->wakes, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Takes the BQL. Until pib_hca_thread_return() the thread can be stopped. */
static void pib_hca_thread_leave(PibHcaThread *self)
{
    qemu_mutex_lock(&self->lock);
    self->away = true;
    qemu_cond_signal(&self->has_left);
    qemu_mutex_unlock(&self->lock);
    bql_lock();
}

static void pib_hca_thread_return(PibHcaThread *self)
{
    qemu_mutex_lock(&self->lock);
    self->away = false;
    qemu_mutex_unlock(&self->lock);
    bql_unlock();
}

/* Call with the lock. True: there is more to do. */
static bool pib_hca_thread_work(PibHcaThread *self)
{
    PibHca *hca = self->hca;
    bool *run_wanted = &hca->threads->run_wanted;
    bool more = false;

    if (!hca->paused && !qatomic_read(&self->stopping)) {
        if (qatomic_xchg(run_wanted, false)) {
            pib_hca_core_run(hca->core);
        }
        more = pib_hca_core_link_poll(hca->core, self->port);
        more = more || qatomic_read(run_wanted);
    }
    return more;
}

/*
 * Serves the link behind a vIOMMU, with the BQL. False when the thread has
 * been stopped: then it is `away` and has the BQL.
 */
static bool pib_hca_thread_serve_with_bql(PibHcaThread *self, bool *more)
{
    bool was_engaged;

    pib_hca_thread_leave(self);
    if (self->stopping) {
        return false;
    }
    was_engaged = pib_hca_enter(self->hca);
    *more = pib_hca_thread_work(self);
    pib_hca_leave(self->hca, was_engaged);
    if (self->stopping) {
        return false; /* an interrupt has unplugged the device */
    }
    pib_hca_thread_return(self);
    return true;
}

/*
 * Serves the link once. `more`: there is more to do. False when the thread has
 * been stopped: then it is `away` and has the BQL.
 */
static bool pib_hca_thread_serve(PibHcaThread *self, bool *more)
{
    PibHca *hca = self->hca;

    pib_hca_lock(hca);
    if (pib_hca_dma_is_translated(hca)) {
        pib_hca_unlock(hca);
        return pib_hca_thread_serve_with_bql(self, more);
    }
    *more = pib_hca_thread_work(self);
    pib_hca_unlock(hca);
    return true;
}

/* False when the thread has been stopped: then it is `away` and has the BQL. */
static bool pib_hca_thread_interrupt(PibHcaThread *self)
{
    pib_hca_irqfds_send(self->hca);
    if (qatomic_read(&self->hca->pending_vectors) == 0) {
        return true;
    }
    pib_hca_thread_leave(self);
    if (self->stopping) {
        return false;
    }
    pib_hca_enter_for_interrupts(self->hca);
    if (self->stopping) {
        return false; /* the interrupt has unplugged the device */
    }
    pib_hca_thread_return(self);
    return true;
}

/* Serves the link until the thread is stopped; returns with the BQL. */
static void pib_hca_thread_loop(PibHcaThread *self, PibIdleSpin *idle)
{
    for (;;) {
        /*
         * Read before `stopping`: pib_hca_thread_stop() also changes `wakes`,
         * so the wait below ends at once.
         */
        uint32_t seen = qatomic_load_acquire(self->wakes);
        bool more;

        if (qatomic_read(&self->stopping)) {
            break;
        }
        if (!pib_hca_thread_serve(self, &more) ||
            !pib_hca_thread_interrupt(self)) {
            return;
        }
        if (more) {
            pib_hca_thread_yield(self->hca);
        } else if (pib_hca_thread_spin(self, idle, seen)) {
            pib_idle_spin_found(idle);
        } else {
            pib_hca_futex_wait(self->wakes, seen);
        }
    }
    pib_hca_thread_leave(self);
}

static void *pib_hca_thread_main(void *opaque)
{
    PibHcaThread *self = opaque;
    PibIdleSpin idle;

    rcu_register_thread();
    pib_ask_for_short_slices();
    pib_idle_spin_init(&idle, self->hca->prop.poll_us);
    pib_hca_thread_loop(self, &idle);
    pib_idle_spin_end(&idle);
    object_unref(OBJECT(self->hca));
    bql_unlock();
    rcu_unregister_thread();
    qemu_cond_destroy(&self->has_left);
    qemu_mutex_destroy(&self->lock);
    g_free(self);
    return NULL;
}

bool pib_hca_thread_runs(PibHca *hca, unsigned port)
{
    return hca->threads->of_port[port - 1] != NULL;
}

void pib_hca_thread_start(PibHca *hca, unsigned port, uint32_t *wakes)
{
    g_autofree char *name = g_strdup_printf("pib-hca/%u", port);
    PibHcaThread *thread = g_new0(PibHcaThread, 1);

    thread->hca = hca;
    object_ref(OBJECT(hca));
    thread->port = port;
    thread->wakes = wakes;
    qemu_mutex_init(&thread->lock);
    qemu_cond_init(&thread->has_left);
    hca->threads->of_port[port - 1] = thread;
    qemu_thread_create(&thread->thread, name, pib_hca_thread_main, thread,
                       QEMU_THREAD_DETACHED);
}

/*
 * When this returns, the thread no longer accesses the link or the device's
 * state. It may still wait for the BQL, which the caller has, and ends when it
 * has got it; joining it would be a deadlock.
 */
void pib_hca_thread_stop(PibHca *hca, unsigned port)
{
    PibHcaThread *thread = hca->threads->of_port[port - 1];

    if (!thread) {
        return;
    }
    pib_hca_lock(hca);
    hca->threads->of_port[port - 1] = NULL;
    pib_hca_unlock(hca);
    qatomic_set(&thread->stopping, true);
    pib_hca_thread_wake(thread);
    qemu_mutex_lock(&thread->lock);
    while (!thread->away) {
        /* The switch can reset the counter before the thread sleeps on it. */
        if (!qemu_cond_timedwait(&thread->has_left, &thread->lock,
                                 STOP_RETRY_MS)) {
            pib_hca_thread_wake(thread);
        }
    }
    qemu_mutex_unlock(&thread->lock);
    qemu_bh_schedule(hca->bh); /* does the thread's work from now on */
}

void pib_hca_threads_wake(PibHca *hca)
{
    for (unsigned i = 0; i < PIB_HCA_GLUE_PORTS; i++) {
        if (hca->threads->of_port[i]) {
            pib_hca_thread_wake(hca->threads->of_port[i]);
        }
    }
}

/*
 * Host::wake(), on any thread with the lock: the thread of the first link calls
 * pib_hca_core_run(), or the main loop if there is no thread.
 */
void pib_hca_wake(void *opaque)
{
    PibHca *hca = opaque;

    for (unsigned i = 0; i < PIB_HCA_GLUE_PORTS; i++) {
        PibHcaThread *thread = hca->threads->of_port[i];

        if (thread) {
            qatomic_set(&hca->threads->run_wanted, true);
            if (!qemu_thread_is_self(&thread->thread)) {
                pib_hca_thread_wake(thread);
            }
            return;
        }
    }
    qemu_bh_schedule(hca->bh);
}

/*
 * Host::link_wake(), on any thread with the lock. The port's own thread needs
 * no wake-up, because it polls its link before it sleeps.
 */
void pib_hca_link_wake(void *opaque, unsigned port)
{
    PibHca *hca = opaque;
    PibHcaThread *thread = hca->threads->of_port[port - 1];

    if (thread && !qemu_thread_is_self(&thread->thread)) {
        pib_hca_thread_wake(thread);
    }
}
