/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Preloaded into QEMU, this lets two minutes pass at once: the monotonic clock jumps when the file
 * that PIB_LATER names comes into being.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	const char *file = getenv("PIB_LATER");
	int ret = (int)syscall(SYS_clock_gettime, clock, now);

	if (ret == 0 && clock == CLOCK_MONOTONIC && file && access(file, F_OK) == 0)
		now->tv_sec += 120;
	return ret;
}
