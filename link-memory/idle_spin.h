/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decides whether a thread without work stays awake for a moment. A wake-up
 * takes ten microseconds and costs the waking thread a system call, so staying
 * awake is cheaper if no other thread wants the processor. If another thread
 * does, such as a vCPU that polls, the awake thread would delay the event that
 * it waits for.
 * So a thread sleeps at once when more threads are runnable than it has
 * processors.
 *
 * The time adapts: it doubles when work arrived within it, and halves
 * otherwise.
 */
#ifndef PIB_IDLE_SPIN_H
#define PIB_IDLE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The state of one thread; private to idle_spin.cc. */
typedef struct PibIdleSpin {
    int loadavg_fd; /* -1: never stay awake */
    unsigned processors;
    uint64_t most_ns;
    uint64_t budget_ns;
    uint64_t began_ns;      /* 0: not idle */
    uint64_t looked_ns;     /* when /proc/loadavg was read last */
    uint64_t busy_until_ns; /* until then, other threads are assumed runnable */
} PibIdleSpin;

/*
 * Call on the thread that spins. It stays awake for at most `most_us`
 * microseconds; never if `most_us` is 0 or if it may run on one processor only.
 */
void pib_idle_spin_init(PibIdleSpin* spin, uint32_t most_us);
/* Closes /proc/loadavg. */
void pib_idle_spin_end(PibIdleSpin* spin);

/*
 * Call when there is no work. True: pause briefly and check for work again;
 * false: sleep.
 */
[[nodiscard]] bool pib_idle_spin_go_on(PibIdleSpin* spin);
/* Call when there was work. */
void pib_idle_spin_found(PibIdleSpin* spin);

/*
 * Parses the count of runnable threads from /proc/loadavg ("0.1 0.2 0.3
 * RUNNABLE/ALL PID"); 0: the text has another form.
 */
unsigned pib_runnable_threads(const char* loadavg);

#ifdef __cplusplus
}
#endif

#endif /* PIB_IDLE_SPIN_H */
