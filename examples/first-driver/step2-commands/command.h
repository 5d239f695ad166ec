/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command queue (manual, 5): one command at a time, its completion polled. */
#ifndef COMMAND_H
#define COMMAND_H

#include <linux/mutex.h>

#include "hca.h"

/*
 * count: commands since ENABLE. broken: a command has not completed, or has not destroyed its
 * object, so the device is stopped.
 */
struct command_queue {
	struct hca *hca;
	struct mutex lock; /* one command at a time */
	void *memory; /* both rings, and the structures of a command */
	dma_addr_t bus;
	u32 count;
	bool broken;
};

/* object: number or key. in, out: structures, or NULL. */
struct command {
	u16 opcode;
	u32 object;
	const void *in;
	u32 in_length;
	void *out;
	u32 out_length;
};

int command_open(struct command_queue *queue, struct hca *hca);

/* Call this after hca_stop(). */
void command_close(struct command_queue *queue);

/* Executes a command, and may sleep. result: the completion's result; may be NULL. */
int command_execute(struct command_queue *queue, const struct command *command, u32 *result);

/*
 * Executes a command that destroys an object. If it fails, this function stops the device, so that
 * the caller may free the object's memory in any case.
 */
void command_destroy(struct command_queue *queue, u16 opcode, u32 object);

#endif
