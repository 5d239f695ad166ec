// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The server of libibverbs' ping-pong programs. Their client sends first. It has one buffer for both directions, so
 * from then on it sends the bytes that it has received: each message except the first must be one that this side has
 * sent.
 */
#include "scenes.h"

#include "event.h"
#include "exchange.h"
#include "pattern.h"
#include "port.h"

#include <endian.h>
#include <unistd.h>

#define SLOTS 4				/* receives that are posted at any time */
#define GRH_BYTES 40			/* room for the GRH before a datagram's payload */
#define RC_BYTES 4096
#define UD_BYTES 1024
#define QKEY 0x11111111
#define OWN_PSN 0x123456

struct game {
	struct hca *hca;
	struct cq cq;
	struct qp qp;
	struct peer peer;
	struct region out;
	struct region in;		/* SLOTS buffers, each for a message */
	uint32_t bytes;			/* in a message */
	uint32_t headroom;		/* before the payload of a received message */
	uint32_t received;
	uint32_t answered;
	uint32_t sent;			/* answers that have completed */
};

static void prepare(struct game *game, struct hca *hca, enum pib_hca_qp_type type, uint32_t bytes)
{
	*game = (struct game){ .hca = hca, .bytes = bytes, .headroom = type == PIB_HCA_QP_UD ? GRH_BYTES : 0 };
	cq_create(hca, &game->cq);
	qp_create(hca, &game->qp, type, &game->cq);
	region_create(hca, &game->out, bytes, 0);
	region_create(hca, &game->in, SLOTS * (size_t)(game->headroom + bytes), PIB_HCA_ACCESS_LOCAL_WRITE);
}

static void end(struct game *game)
{
	qp_destroy(game->hca, &game->qp);
	region_destroy(game->hca, &game->in);
	region_destroy(game->hca, &game->out);
	cq_destroy(game->hca, &game->cq);
}

/* The buffer of a receive WQE. */
static struct piece slot(const struct game *game, uint32_t counter)
{
	struct piece piece = { .region = &game->in, .bytes = game->headroom + game->bytes };

	piece.offset = counter % SLOTS * (size_t)piece.bytes;
	return piece;
}

static void check_message(const struct game *game, const struct pib_hca_cqe *cqe)
{
	struct piece piece = slot(game, le32toh(cqe->wqe_counter));
	const uint8_t *payload = (const uint8_t *)game->in.block.memory + piece.offset + game->headroom;

	if (le32toh(cqe->byte_count) != piece.bytes)
		fail("message %u has %u bytes instead of %u", game->received, le32toh(cqe->byte_count), piece.bytes);
	if (game->received)
		pattern_check(payload, game->bytes, game->received - 1, "a message that came back");
}

static void answer(struct game *game)
{
	struct piece piece = { .region = &game->out, .bytes = game->bytes };

	pattern_fill(game->out.block.memory, game->bytes, game->answered++);
	if (game->headroom)
		qp_post_datagram(game->hca, &game->qp, piece, &game->peer, QKEY);
	else
		qp_post_send(game->hca, &game->qp, piece);
}

/* The buffer of answers is free when the last answer has completed. */
static void take(struct game *game, const struct pib_hca_cqe *cqe)
{
	qp_completed(&game->qp, cqe);
	if (cqe->opcode & PIB_HCA_CQE_IS_RECV) {
		check_message(game, cqe);
		game->received++;
		qp_post_receive(&game->qp, slot(game, game->qp.receives));
	} else {
		game->sent++;
	}
	if (game->answered < game->received && game->sent == game->answered)
		answer(game);
}

static void play(struct game *game, const struct options *options, int connection, const struct peer *own)
{
	struct pib_hca_cqe cqe;

	for (int i = 0; i < SLOTS; i++)
		qp_post_receive(&game->qp, slot(game, game->qp.receives));
	exchange_answer(connection, own);
	close(connection);
	while (game->sent < options->messages) {
		cq_wait(game->hca, &game->cq, &cqe);
		take(game, &cqe);
	}
	printf("%u messages of %u bytes, and all came back as they were sent\n", game->sent, game->bytes);
}

/*
 * Waits for the end of input. At its end the program resets the device and so its link, which would lose packets that
 * are still in the fabric.
 */
static void wait_for_the_end(struct hca *hca)
{
	char ignored[64];

	printf("end of input ends the program\n");
	do
		event_wait_input(hca, STDIN_FILENO);
	while (read(STDIN_FILENO, ignored, sizeof(ignored)) > 0);
}

void rc_pingpong(struct hca *hca, const struct options *options)
{
	struct peer own = { .lid = port_wait_active(hca), .psn = OWN_PSN };
	int connection = exchange_accept(hca);
	struct game game;

	prepare(&game, hca, PIB_HCA_QP_RC, options->bytes ? options->bytes : RC_BYTES);
	exchange_hear(connection, &game.peer);
	qp_connect_rc(hca, &game.qp, &game.peer, own.psn);
	own.qpn = game.qp.number;
	play(&game, options, connection, &own);
	wait_for_the_end(hca);
	end(&game);
}

void ud_pingpong(struct hca *hca, const struct options *options)
{
	struct peer own = { .lid = port_wait_active(hca), .psn = OWN_PSN };
	int connection = exchange_accept(hca);
	struct game game;

	prepare(&game, hca, PIB_HCA_QP_UD, options->bytes ? options->bytes : UD_BYTES);
	exchange_hear(connection, &game.peer);
	qp_start_ud(hca, &game.qp, QKEY, own.psn);
	own.qpn = game.qp.number;
	play(&game, options, connection, &own);
	wait_for_the_end(hca);
	end(&game);
}
