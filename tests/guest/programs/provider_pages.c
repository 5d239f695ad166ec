// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages of a process: which are pinned, for which access, mapped, or taken from device memory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "checks.h"
#include "loopback.h"

extern struct loopback lo;

#define PAGE 4096
#define WRITABLE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* KiB of memory of this process that the kernel has pinned. */
static long pinned_kib(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[128];
	long found = -1;

	CHECK(status);
	while (fgets(line, sizeof(line), status))
		sscanf(line, "VmPin: %ld", &found);
	fclose(status);
	CHECK(found >= 0);
	return found;
}

/* The ring of 8,192 CQEs is pinned, and the ring of one page before it no longer. */
static void resized_cqs_pin_their_new_ring(void)
{
	enum { MANY = 8192, CQE_BYTES = 64 };
	long before = pinned_kib(), small, large;
	struct ibv_cq *cq = ibv_create_cq(lo.context, 16, NULL, NULL, 0);

	CHECK(cq);
	small = pinned_kib() - before;
	CHECK(small > 0);
	CHECK_EQUAL(ibv_resize_cq(cq, MANY), 0);
	large = pinned_kib() - before;
	CHECK(large >= MANY * CQE_BYTES / 1024);
	CHECK_EQUAL(ibv_resize_cq(cq, 16), 0);
	CHECK_EQUAL(pinned_kib() - before, small);
	CHECK_EQUAL(ibv_destroy_cq(cq), 0);
	CHECK_EQUAL(pinned_kib(), before);
}

/* A region that has become writable is registered for writing later as well, which read-only memory does not permit. */
static void reregistered_regions_keep_their_access(void)
{
	uint8_t *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *constant = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	CHECK(memory != MAP_FAILED && constant != MAP_FAILED);
	mr = ibv_reg_mr(lo.pd, memory, PAGE, 0);
	CHECK(mr);
	CHECK_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, constant, PAGE, 0), 0);
	CHECK_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, PAGE, 0), 0);
	CHECK_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, WRITABLE), 0);
	CHECK_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, constant, PAGE, 0),
		    IBV_REREG_MR_ERR_CMD);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	munmap(memory, PAGE);
	munmap(constant, PAGE);
}

/* Number of mappings of the context's device file in this process. */
static int mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int found = 0;

	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		found += strstr(line, "/infiniband/") != NULL;
	fclose(maps);
	return found;
}

static void closed_contexts_leave_no_mapping(void)
{
	int before = mappings();
	struct ibv_context *context = ibv_open_device(lo.context->device);

	CHECK(context);
	CHECK(mappings() > before);
	CHECK_EQUAL(ibv_close_device(context), 0);
	CHECK_EQUAL(mappings(), before);
}

static struct ibv_dm *device_memory(size_t bytes)
{
	struct ibv_alloc_dm_attr attr = { .length = bytes };
	struct ibv_dm *dm = ibv_alloc_dm(lo.context, &attr);

	CHECK(dm);
	return dm;
}

/* Device memory that was freed is given out again, without the data of its former owner. */
static void device_memory_begins_with_zeros(void)
{
	uint8_t data[2 * PAGE], zeros[2 * PAGE] = {};

	for (int round = 0; round < 3; round++) {
		struct ibv_dm *dm = device_memory(sizeof(data));

		memset(data, 0xa5, sizeof(data));
		CHECK_EQUAL(ibv_memcpy_from_dm(data, dm, 0, sizeof(data)), 0);
		CHECK(!memcmp(data, zeros, sizeof(data)));
		memset(data, 0xee, sizeof(data));
		CHECK_EQUAL(ibv_memcpy_to_dm(dm, 0, data, sizeof(data)), 0);
		CHECK_EQUAL(ibv_free_dm(dm), 0);
	}
}

/* The key of a region is valid only in its protection domain. */
static void prefetches_are_of_the_own_domain(void)
{
	uint8_t *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_pd *other = ibv_alloc_pd(lo.context);
	struct ibv_sge sge;
	struct ibv_mr *mr;

	CHECK(memory != MAP_FAILED && other);
	mr = ibv_reg_mr(lo.pd, memory, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	CHECK(mr);
	sge = (struct ibv_sge){ .addr = (uintptr_t)memory, .length = PAGE, .lkey = mr->lkey };
	CHECK_EQUAL(ibv_advise_mr(other, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				  IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), EPERM);
	CHECK_EQUAL(ibv_advise_mr(lo.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				  IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), 0);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	CHECK_EQUAL(ibv_dealloc_pd(other), 0);
	munmap(memory, PAGE);
}

const struct check page_checks[] = {
	{ "resized_cqs_pin_their_new_ring", resized_cqs_pin_their_new_ring },
	{ "reregistered_regions_keep_their_access", reregistered_regions_keep_their_access },
	{ "closed_contexts_leave_no_mapping", closed_contexts_leave_no_mapping },
	{ "device_memory_begins_with_zeros", device_memory_begins_with_zeros },
	{ "prefetches_are_of_the_own_domain", prefetches_are_of_the_own_domain },
	{ NULL, NULL },
};
