// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * RDMA WRITE and READ. peer.py says where its memory is: this side writes the first half and reads the second half. The
 * peer's processor takes no part in either, so this side then asks the peer to check the written half.
 */
#include "scenes.h"

#include "exchange.h"
#include "pattern.h"
#include "port.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

#define BYTES 65536u
#define WRITTEN_SEED 1
#define READ_SEED 2
#define OWN_PSN 0x234567
#define LINE 128

struct target {
	struct peer peer;
	uint64_t address;
	uint32_t rkey;
	uint32_t bytes;		/* in a half of its memory */
};

static void hear_target(FILE *connection, struct target *target, uint32_t bytes)
{
	unsigned int lid, qpn, psn, rkey;
	uint64_t address;
	char line[LINE];

	exchange_read(connection, line, sizeof(line));
	if (sscanf(line, "%x %x %x %x %" SCNx64, &lid, &qpn, &psn, &rkey, &address) != 5)
		fail("the peer says \"%s\", which is not a LID QPN PSN R_KEY ADDRESS", line);
	*target = (struct target){
		.peer = { .lid = (uint16_t)lid, .qpn = qpn, .psn = psn },
		.address = address,
		.rkey = rkey,
		.bytes = bytes,
	};
}

static void do_one(struct hca *hca, struct cq *cq, struct qp *qp)
{
	struct pib_hca_cqe cqe;

	cq_wait(hca, cq, &cqe);
	qp_completed(qp, &cqe);
}

static void write_and_read(struct hca *hca, struct cq *cq, struct qp *qp, const struct target *target)
{
	struct piece piece = { .bytes = target->bytes };
	struct region region;

	region_create(hca, &region, target->bytes, PIB_HCA_ACCESS_LOCAL_WRITE);
	piece.region = &region;
	pattern_fill(region.block.memory, target->bytes, WRITTEN_SEED);
	qp_post_rdma(hca, qp, PIB_HCA_WQE_RDMA_WRITE, piece, target->address, target->rkey);
	do_one(hca, cq, qp);
	memset(region.block.memory, 0, target->bytes);
	qp_post_rdma(hca, qp, PIB_HCA_WQE_RDMA_READ, piece, target->address + target->bytes, target->rkey);
	do_one(hca, cq, qp);
	pattern_check(region.block.memory, target->bytes, READ_SEED, "what was read");
	region_destroy(hca, &region);
}

static void ask_for_the_written_half(FILE *connection)
{
	char line[LINE];

	exchange_say(connection, "check %u\n", WRITTEN_SEED);
	exchange_read(connection, line, sizeof(line));
	if (strcmp(line, "right"))
		fail("the peer says of the written data: %s", line);
}

void rdma(struct hca *hca, const struct options *options)
{
	uint32_t bytes = options->bytes ? options->bytes : BYTES;
	uint16_t lid = port_wait_active(hca);
	FILE *connection = fdopen(exchange_accept(hca), "r");
	struct target target;
	struct cq cq;
	struct qp qp;

	if (!connection)
		fail_errno("fdopen()");
	cq_create(hca, &cq);
	qp_create(hca, &qp, PIB_HCA_QP_RC, &cq);
	exchange_say(connection, "%x %x %x %x %x\n", lid, qp.number, OWN_PSN, bytes, READ_SEED);
	hear_target(connection, &target, bytes);
	qp_connect_rc(hca, &qp, &target.peer, OWN_PSN);
	write_and_read(hca, &cq, &qp, &target);
	ask_for_the_written_half(connection);
	fclose(connection);
	qp_destroy(hca, &qp);
	cq_destroy(hca, &cq);
	printf("%u bytes written and %u bytes read, all of them right\n", bytes, bytes);
}
