/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Deadlines of waits, and the pause between two looks at the device. */
#ifndef DEADLINE_H
#define DEADLINE_H

#include <stdbool.h>
#include <time.h>

static inline time_t deadline_in(int seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + seconds;
}

static inline bool deadline_passed(time_t deadline)
{
	return deadline_in(0) > deadline;
}

/* Leaves the processor to others for a moment between two looks at the device. */
static inline void rest(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
}

#endif
