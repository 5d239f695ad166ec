// SPDX-License-Identifier: GPL-2.0-or-later
/* Regions and windows of processes: what rdma-core's own tests leave out. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"
#include "loopback.h"

extern struct loopback lo;

#define REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define PAGE 4096

static const struct ibv_qp_cap cap = {
	.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1
};

static void connected_pair(struct qp_pair *pair)
{
	pair_create(&lo, pair, IBV_QPT_RC, cap, NULL);
	pair_connect(&lo, pair);
}

static void *map_pages(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

/* Side 0 writes the first bytes of the loopback buffer; returns the completion status. */
static enum ibv_wc_status write_to(struct qp_pair *pair, uint64_t addr, uint32_t rkey,
				   uint32_t length)
{
	struct ibv_sge sge = sge_at(&lo, 0, length);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	CHECK_EQUAL(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	poll_one(pair->cq[0], &wc);
	return wc.status;
}

static void write_must_arrive(struct qp_pair *pair, uint64_t addr, uint32_t rkey, void *seen)
{
	static uint8_t value;

	memset(lo.buffer, ++value, 64);
	CHECK_EQUAL(write_to(pair, addr, rkey, 64), IBV_WC_SUCCESS);
	CHECK(!memcmp(seen, lo.buffer, 64));
}

static void zero_based_regions_count_from_their_first_byte(void)
{
	uint8_t *memory = map_pages(4 * PAGE);
	struct ibv_mr *mr = ibv_reg_mr(lo.pd, memory + 100, 3 * PAGE, REMOTE | IBV_ACCESS_ZERO_BASED);
	struct qp_pair pair;

	CHECK(mr);
	connected_pair(&pair);
	write_must_arrive(&pair, 0, mr->rkey, memory + 100);
	write_must_arrive(&pair, 3 * PAGE - 64, mr->rkey, memory + 100 + 3 * PAGE - 64);
	CHECK_EQUAL(write_to(&pair, 3 * PAGE - 63, mr->rkey, 64), IBV_WC_REM_ACCESS_ERR);
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	munmap(memory, 4 * PAGE);
}

static void regions_of_pages_of_every_kind(void)
{
	size_t bytes = 6 << 20;
	uint8_t *memory = map_pages(bytes);
	struct qp_pair pair;
	struct ibv_mr *mr;
	size_t offset;

	/* The kernel uses large pages where it can, and small pages before and after them. */
	madvise(memory, bytes, MADV_HUGEPAGE);
	memset(memory, 1, bytes);
	connected_pair(&pair);
	for (offset = 0; offset < 3 * PAGE; offset += PAGE - 1) {
		mr = ibv_reg_mr(lo.pd, memory + offset, bytes - 2 * offset,
				REMOTE | IBV_ACCESS_HUGETLB | IBV_ACCESS_RELAXED_ORDERING);
		CHECK(mr);
		write_must_arrive(&pair, (uintptr_t)memory + offset, mr->rkey, memory + offset);
		write_must_arrive(&pair, (uintptr_t)memory + (2 << 20) - 7, mr->rkey,
				  memory + (2 << 20) - 7);
		write_must_arrive(&pair, (uintptr_t)memory + bytes - offset - 64, mr->rkey,
				  memory + bytes - offset - 64);
		CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	}
	pair_destroy(&pair);
	munmap(memory, bytes);
}

static void reregistered_regions_change_or_stay(void)
{
	uint8_t *first = map_pages(PAGE), *second = map_pages(4 * PAGE);
	struct ibv_mr *mr = ibv_reg_mr(lo.pd, first, PAGE, REMOTE);
	struct qp_pair pair;

	CHECK(mr);
	connected_pair(&pair);
	write_must_arrive(&pair, (uintptr_t)first, mr->rkey, first);
	CHECK_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, second, 4 * PAGE, 0), 0);
	write_must_arrive(&pair, (uintptr_t)second + 3 * PAGE, mr->rkey, second + 3 * PAGE);
	/* An address without memory is refused, and the region stays as it was. */
	CHECK_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)PAGE, PAGE, 0),
		    IBV_REREG_MR_ERR_CMD);
	write_must_arrive(&pair, (uintptr_t)second, mr->rkey, second);
	CHECK_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), 0);
	CHECK_EQUAL(write_to(&pair, (uintptr_t)second, mr->rkey, 64), IBV_WC_REM_ACCESS_ERR);
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	munmap(first, PAGE);
	munmap(second, 4 * PAGE);
}

/* Memory that was pinned for reading only is pinned again when it is to be written. */
static void regions_become_writable(void)
{
	uint8_t *memory = map_pages(PAGE);
	struct ibv_mr *mr;
	struct qp_pair pair;

	mr = ibv_reg_mr(lo.pd, memory, PAGE, 0);
	CHECK(mr);
	memory[0] = 1;
	CHECK_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REMOTE), 0);
	connected_pair(&pair);
	write_must_arrive(&pair, (uintptr_t)memory, mr->rkey, memory);
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	munmap(memory, PAGE);
}

/* Makes a DMA-BUF of four pages of a memfd, and maps the memfd. */
static int make_dmabuf(uint8_t **memory)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = 4 * PAGE };
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	int fd;

	CHECK(device >= 0);
	create.memfd = memfd_create("dmabuf", MFD_ALLOW_SEALING);
	CHECK((int)create.memfd >= 0);
	CHECK_EQUAL(ftruncate(create.memfd, 4 * PAGE), 0);
	CHECK_EQUAL(fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	*memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, create.memfd, 0);
	CHECK(*memory != MAP_FAILED);
	fd = ioctl(device, UDMABUF_CREATE, &create);
	CHECK(fd >= 0);
	close(create.memfd);
	close(device);
	return fd;
}

static void dma_bufs_are_memory(void)
{
	struct qp_pair pair;
	struct ibv_mr *mr;
	uint8_t *memory;
	int fd = make_dmabuf(&memory);

	mr = ibv_reg_dmabuf_mr(lo.pd, PAGE, 2 * PAGE, 0x7000, fd, REMOTE);
	CHECK(mr);
	close(fd);
	connected_pair(&pair);
	write_must_arrive(&pair, 0x7000, mr->rkey, memory + PAGE);
	write_must_arrive(&pair, 0x7000 + 2 * PAGE - 64, mr->rkey, memory + 3 * PAGE - 64);
	CHECK_EQUAL(write_to(&pair, 0x7000 + 2 * PAGE, mr->rkey, 64), IBV_WC_REM_ACCESS_ERR);
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	munmap(memory, 4 * PAGE);
	CHECK(!ibv_reg_dmabuf_mr(lo.pd, 0, PAGE, 0, 0 /* no DMA-BUF */, REMOTE));
}

static struct ibv_mw *bound_window(struct qp_pair *pair, struct ibv_mr *mr)
{
	struct ibv_mw *mw = ibv_alloc_mw(lo.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.wr_id = 7, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = mr, .addr = (uintptr_t)mr->addr + 64, .length = 64,
			       .mw_access_flags = IBV_ACCESS_REMOTE_WRITE },
	};
	struct ibv_wc wc;

	CHECK(mw);
	CHECK_EQUAL(ibv_bind_mw(pair->qp[1], mw, &bind), 0);
	poll_one(pair->cq[1], &wc);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.opcode, IBV_WC_BIND_MW);
	CHECK_EQUAL(wc.wr_id, 7);
	return mw;
}

static void windows_keep_their_region(void)
{
	uint8_t *memory = map_pages(PAGE);
	struct ibv_mr *mr = ibv_reg_mr(lo.pd, memory, PAGE, REMOTE | IBV_ACCESS_MW_BIND);
	struct qp_pair pair;
	struct ibv_mw *mw;

	CHECK(mr);
	connected_pair(&pair);
	mw = bound_window(&pair, mr);
	write_must_arrive(&pair, (uintptr_t)memory + 64, mw->rkey, memory + 64);
	CHECK_EQUAL(ibv_dereg_mr(mr), EBUSY);
	CHECK_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
		    IBV_REREG_MR_ERR_CMD);
	write_must_arrive(&pair, (uintptr_t)memory + 64, mw->rkey, memory + 64);
	CHECK_EQUAL(ibv_dealloc_mw(mw), 0);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	pair_destroy(&pair);
	munmap(memory, PAGE);
}

static void windows_of_type_1_are_bound_by_the_verb(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(lo.pd, IBV_MW_TYPE_1);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW }, *bad;
	struct qp_pair pair;

	CHECK(mw);
	connected_pair(&pair);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info.mr = lo.mr;
	CHECK_EQUAL(ibv_post_send(pair.qp[0], &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_dealloc_mw(mw), 0);
}

/* The kernel cleans up the objects of a process that has ended, in a valid order. */
static void leave_bound_windows(const char *device)
{
	struct qp_pair pair;
	struct ibv_mr *mr;

	if (setjmp(check_failed))
		_exit(1);
	loopback_open(&lo, device);
	mr = ibv_reg_mr(lo.pd, map_pages(PAGE), PAGE, REMOTE | IBV_ACCESS_MW_BIND);
	CHECK(mr);
	connected_pair(&pair);
	bound_window(&pair, mr);
	bound_window(&pair, mr);
	kill(getpid(), SIGKILL);
}

static void bound_windows_are_left_to_the_kernel(void)
{
	int status;
	pid_t child = fork();

	if (!child)
		leave_bound_windows(ibv_get_device_name(lo.context->device));
	CHECK(child > 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	CHECK_EQUAL(WTERMSIG(status), SIGKILL);
}

/* Writes to the child's copy of every page that the device uses, and executes another program. */
static void child_of_traffic(uint8_t *memory)
{
	memset(memory, 0xee, 4 * PAGE);
	memset(lo.buffer, 0xee, BUFFER_BYTES);
	execl("/bin/true", "true", NULL);
	_exit(1);
}

/* The pages stay the parent's, whichever process writes first after the fork. */
static void children_do_not_take_memory_away(void)
{
	uint8_t *memory = map_pages(4 * PAGE);
	struct ibv_mr *mr = ibv_reg_mr(lo.pd, memory, 4 * PAGE, REMOTE);
	struct qp_pair pair;

	CHECK(mr);
	connected_pair(&pair);
	for (int round = 0; round < 20; round++) {
		uint8_t *at = memory + (round % 4) * PAGE + round;
		int status;
		pid_t child = fork();

		if (!child)
			child_of_traffic(memory);
		CHECK(child > 0);
		write_must_arrive(&pair, (uintptr_t)at, mr->rkey, at);
		CHECK_EQUAL(waitpid(child, &status, 0), child);
		CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
		write_must_arrive(&pair, (uintptr_t)at, mr->rkey, at);
	}
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	munmap(memory, 4 * PAGE);
}

/* True if the process has an executable mapping of the context's file. */
static bool is_executable(struct ibv_context *context)
{
	char path[64], file[128] = "", line[512], rights[8], name[128];
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "r");

	CHECK(maps);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", context->cmd_fd);
	CHECK(readlink(path, file, sizeof(file) - 1) > 0);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%*s %7s %*s %*s %*s %127s", rights, name) == 2 &&
		    !strcmp(name, file) && rights[2] == 'x')
			found = true;
	fclose(maps);
	return found;
}

/* A process with READ_IMPLIES_EXEC, for example with an executable stack, maps each readable page as executable. */
static void a_process_whose_pages_are_executable_opens_the_device(void)
{
	int before = personality(0xffffffff);
	struct ibv_context *context;

	CHECK(personality(before | READ_IMPLIES_EXEC) >= 0);
	context = ibv_open_device(lo.context->device);
	CHECK(personality(before) >= 0);
	CHECK(context);
	CHECK(!is_executable(context));
	CHECK_EQUAL(ibv_close_device(context), 0);
}

const struct check memory_checks[] = {
	{ "zero_based_regions_count_from_their_first_byte",
	  zero_based_regions_count_from_their_first_byte },
	{ "regions_of_pages_of_every_kind", regions_of_pages_of_every_kind },
	{ "reregistered_regions_change_or_stay", reregistered_regions_change_or_stay },
	{ "regions_become_writable", regions_become_writable },
	{ "dma_bufs_are_memory", dma_bufs_are_memory },
	{ "windows_keep_their_region", windows_keep_their_region },
	{ "windows_of_type_1_are_bound_by_the_verb", windows_of_type_1_are_bound_by_the_verb },
	{ "children_do_not_take_memory_away", children_do_not_take_memory_away },
	{ "bound_windows_are_left_to_the_kernel", bound_windows_are_left_to_the_kernel },
	{ "a_process_whose_pages_are_executable_opens_the_device",
	  a_process_whose_pages_are_executable_opens_the_device },
	{ NULL, NULL },
};
