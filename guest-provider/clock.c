// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The device's clock, which stamps CQEs with nanoseconds, and its offset from the wall clock.
 * Each reading of the device's clock is a VM exit.
 */
#include <config.h>

#include <errno.h>
#include <time.h>

#include <util/mmio.h>

#include "pib.h"

#define PIB_NS_PER_S 1000000000ull
#define PIB_CLOCK_TRIES 4

static uint64_t pib_read_clock(struct pib_context *ctx)
{
	return le64toh(mmio_read64_le(ctx->uar + PIB_HCA_UAR_CLOCK));
}

static uint64_t pib_now(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * PIB_NS_PER_S + now.tv_nsec;
}

int pib_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	if (!check_comp_mask(values->comp_mask, IBV_VALUES_MASK_RAW_CLOCK))
		return EINVAL;
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		/*
		 * tv_nsec has the whole time, because users compare it with
		 * ibv_wc_read_completion_ts().
		 */
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = pib_read_clock(to_pctx(context));
	}
	return 0;
}

/*
 * Reads the device's clock between two readings of the wall clock, several times, and takes the
 * try with the shortest interval.
 */
static uint64_t pib_measure_offset(struct pib_context *ctx)
{
	uint64_t before, device, after, offset = 0, shortest = UINT64_MAX;
	int i;

	for (i = 0; i < PIB_CLOCK_TRIES; i++) {
		before = pib_now(CLOCK_REALTIME);
		device = pib_read_clock(ctx);
		after = pib_now(CLOCK_REALTIME);
		if (after - before >= shortest)
			continue;
		shortest = after - before;
		offset = before + shortest / 2 - device;
	}
	return offset;
}

/*
 * Measures again every second, because the clocks drift apart and the wall clock may be set.
 * CLOCK_MONOTONIC_COARSE takes no system call.
 */
uint64_t pib_wallclock_ns(struct pib_context *ctx, struct pib_clock *clock, uint64_t timestamp)
{
	uint64_t second = pib_now(CLOCK_MONOTONIC_COARSE) / PIB_NS_PER_S + 1; /* never 0 */

	if (clock->second != second) {
		clock->offset = pib_measure_offset(ctx);
		clock->second = second;
	}
	return timestamp + clock->offset;
}
