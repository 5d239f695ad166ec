/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decides whether a thread with no work stays awake for a moment. To wake a
 * thread takes ten microseconds, and a system call of the thread that wakes it:
 * a processor that no other thread wants is cheaper. Where another thread wants
 * the processor, such as a vCPU that polls, an awake thread delays the event
 * that it waits for. So threads sleep at once as soon as more threads are
 * runnable than there are processors.
 *
 * The time adapts: it doubles when work came within it, and halves when none
 * came.
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
    int loadavg_fd; /* -1: unknown what else is runnable, so never stay awake */
    unsigned processors;
    uint64_t most_ns;
    uint64_t budget_ns;
    uint64_t began_ns; /* 0: not idle */
    uint64_t looked_ns;
    uint64_t busy_until_ns; /* other threads are runnable until then */
} PibIdleSpin;

/* Call on the thread that spins, for at most `most_us`; 0: never. */
void pib_idle_spin_init(PibIdleSpin *spin, uint32_t most_us);
void pib_idle_spin_end(PibIdleSpin *spin);

/*
 * Call when there is no work. True: pause for a moment and look again; false:
 * sleep.
 */
bool pib_idle_spin_go_on(PibIdleSpin *spin);
/* Call when there was work. */
void pib_idle_spin_found(PibIdleSpin *spin);

/*
 * Parses the count of runnable threads from /proc/loadavg
 * ("0.1 0.2 0.3 RUNNABLE/ALL PID"); 0: not in this form.
 */
unsigned pib_runnable_threads(const char *loadavg);

#ifdef __cplusplus
}
#endif

#endif /* PIB_IDLE_SPIN_H */
