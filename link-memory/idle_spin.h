/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether a thread that has nothing to do stays awake for a moment. Waking a thread takes ten
 * microseconds and a system call of whoever wakes it; a processor that nobody else wants is cheaper.
 * On one that somebody wants (a virtual processor that polls) an awake thread only delays what it
 * waits for, so the answer is no as soon as more threads can run than there are processors.
 *
 * The time adapts: doubled when something came in time, halved when nothing did.
 */
#ifndef PIB_IDLE_SPIN_H
#define PIB_IDLE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of one thread; nothing in it is to be looked at. */
typedef struct PibIdleSpin {
    int loadavg_fd; /* -1: it cannot be known who else wants to run, so nobody stays awake */
    unsigned processors;
    uint64_t most_ns;
    uint64_t budget_ns;
    uint64_t began_ns; /* 0: not idle */
    uint64_t looked_ns;
    uint64_t busy_until_ns; /* others want to run */
} PibIdleSpin;

/* Called by the thread that is to spin. `most_us`: the longest time; 0: never. */
void pib_idle_spin_init(PibIdleSpin *spin, uint32_t most_us);
void pib_idle_spin_end(PibIdleSpin *spin);

/* There is nothing to do: whether to look again (after a short pause) instead of going to sleep. */
bool pib_idle_spin_go_on(PibIdleSpin *spin);
/* There was something to do. */
void pib_idle_spin_found(PibIdleSpin *spin);

/* Of /proc/loadavg ("0.1 0.2 0.3 RUNNABLE/ALL PID"): threads that run or could; 0: not that. */
unsigned pib_runnable_threads(const char *loadavg);

#ifdef __cplusplus
}
#endif

#endif /* PIB_IDLE_SPIN_H */
