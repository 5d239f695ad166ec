// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Messages of 2^31 bytes, the limit of a message (IBA 9.7.2), and of one byte more, which is a
 * local length error. The memory is one MiB of a file, mapped repeatedly. The last page of each side
 * is a separate page, which shows whether the last bytes of a message arrived.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checks.h"
#include "loopback.h"

#define LONGEST (1ull << 31)
#define CHUNK (1u << 20)
#define PAGE 4096u
#define IMMEDIATE 0x01020304

static struct loopback lo;

struct region {
	uint8_t *bytes; /* LONGEST bytes, and a page for one more byte */
	struct ibv_mr *mr;
};

static struct region source, target;

static int make_file(size_t length)
{
	int fd = memfd_create("large", 0);

	CHECK(fd >= 0);
	CHECK_EQUAL(ftruncate(fd, length), 0);
	return fd;
}

static void map_over(uint8_t *at, size_t length, int fd)
{
	CHECK(mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == at);
}

static void make_region(struct region *region)
{
	int chunk = make_file(CHUNK), last = make_file(PAGE);

	region->bytes = mmap(NULL, LONGEST + PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(region->bytes != MAP_FAILED);
	for (uint64_t at = 0; at < LONGEST; at += CHUNK)
		map_over(region->bytes + at, CHUNK, chunk);
	map_over(region->bytes + LONGEST - PAGE, PAGE, last);
	close(chunk);
	close(last);
	region->mr = ibv_reg_mr(lo.pd, region->bytes, LONGEST + PAGE,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ);
	CHECK(region->mr);
}

static void fill(struct region *region, unsigned int seed)
{
	srand(seed);
	for (uint32_t i = 0; i < CHUNK; i++)
		region->bytes[i] = rand() >> 8;
	for (uint32_t i = 0; i < PAGE; i++)
		region->bytes[LONGEST - PAGE + i] = rand() >> 8;
}

static void must_be_equal(void)
{
	/* A region repeats one chunk up to its last page, so one chunk and that page are compared. */
	CHECK_EQUAL(memcmp(source.bytes, target.bytes, CHUNK), 0);
	CHECK_EQUAL(memcmp(source.bytes + LONGEST - PAGE, target.bytes + LONGEST - PAGE, PAGE), 0);
}

static int post_receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)target.bytes, .length = LONGEST, .lkey = target.mr->lkey
	};
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

/* A READ fetches the source into the target; each other request sends the source to the target. */
static int post_request(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t more)
{
	int reads = opcode == IBV_WR_RDMA_READ;
	const struct region *local = reads ? &target : &source;
	const struct region *remote = reads ? &source : &target;
	struct ibv_sge sges[2] = {
		{ .addr = (uintptr_t)local->bytes, .length = LONGEST, .lkey = local->mr->lkey },
		{ .addr = (uintptr_t)local->bytes + LONGEST, .length = more,
		  .lkey = local->mr->lkey },
	};
	struct ibv_send_wr wr = {
		.opcode = opcode, .sg_list = sges, .num_sge = more ? 2 : 1,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = IMMEDIATE,
		.wr.rdma = { .remote_addr = (uintptr_t)remote->bytes, .rkey = remote->mr->rkey },
	}, *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static void connected_pair(struct qp_pair *pair)
{
	const struct ibv_qp_cap cap = {
		.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 1
	};

	pair_create(&lo, pair, IBV_QPT_RC, cap, NULL);
	pair_connect(&lo, pair);
}

static void longest_arrives(enum ibv_wr_opcode opcode, unsigned int seed)
{
	struct qp_pair pair;
	struct ibv_wc wc;

	fill(&source, seed);
	connected_pair(&pair);
	CHECK_EQUAL(post_receive(pair.qp[1]), 0);
	CHECK_EQUAL(post_request(pair.qp[0], opcode, 0), 0);
	poll_one(pair.cq[0], &wc);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	if (opcode != IBV_WR_RDMA_READ) {
		poll_one(pair.cq[1], &wc);
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.byte_len, LONGEST);
		CHECK_EQUAL(wc.imm_data, IMMEDIATE);
	}
	must_be_equal();
	pair_destroy(&pair);
}

static void one_more_is_refused(enum ibv_wr_opcode opcode)
{
	struct qp_pair pair;
	struct ibv_wc wc;

	connected_pair(&pair);
	CHECK_EQUAL(post_receive(pair.qp[1]), 0);
	CHECK_EQUAL(post_request(pair.qp[0], opcode, 1), 0);
	poll_one(pair.cq[0], &wc);
	CHECK_EQUAL(wc.status, IBV_WC_LOC_LEN_ERR);
	CHECK_EQUAL(ibv_poll_cq(pair.cq[1], 1, &wc), 0);
	pair_destroy(&pair);
}

static void longest_send(void) { longest_arrives(IBV_WR_SEND_WITH_IMM, 1); }
static void longest_write(void) { longest_arrives(IBV_WR_RDMA_WRITE_WITH_IMM, 2); }
static void longest_read(void) { longest_arrives(IBV_WR_RDMA_READ, 3); }
static void too_long_send(void) { one_more_is_refused(IBV_WR_SEND_WITH_IMM); }
static void too_long_write(void) { one_more_is_refused(IBV_WR_RDMA_WRITE_WITH_IMM); }
static void too_long_read(void) { one_more_is_refused(IBV_WR_RDMA_READ); }

static const struct check checks[] = {
	{ "longest_send", longest_send },     { "longest_write", longest_write },
	{ "longest_read", longest_read },     { "too_long_send", too_long_send },
	{ "too_long_write", too_long_write }, { "too_long_read", too_long_read },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	if (setjmp(check_failed))
		return 2;
	CHECK_EQUAL(argc, 2);
	loopback_open(&lo, argv[1]);
	CHECK_EQUAL(lo.port.max_msg_sz, LONGEST);
	make_region(&source);
	make_region(&target);
	return run_checks(checks) ? 1 : 0;
}
