/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The work of the program with its HCA. Each function ends the program at the first wrong byte. */
#ifndef SCENES_H
#define SCENES_H

#include "hca.h"

struct options {
	uint32_t messages;
	uint32_t bytes;		/* in each message; 0: as libibverbs' examples */
};

/* Prints device and port. */
void show(struct hca *hca, const struct options *options);

/* Answer the messages of ibv_rc_pingpong and ibv_ud_pingpong. */
void rc_pingpong(struct hca *hca, const struct options *options);
void ud_pingpong(struct hca *hca, const struct options *options);

/* Writes into the memory of peer.py, and reads from it. */
void rdma(struct hca *hca, const struct options *options);

#endif
