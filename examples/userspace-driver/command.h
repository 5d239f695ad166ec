/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command queue (manual, 5), one command at a time. A command that is refused ends the program. */
#ifndef COMMAND_H
#define COMMAND_H

#include "hca.h"

/* Starts the queue. */
void command_open(struct hca *hca);

/* Executes a command and returns its result. object: number or key, or 0. */
uint32_t command(struct hca *hca, enum pib_hca_cmd_opcode opcode, uint32_t object);
uint32_t command_in(struct hca *hca, enum pib_hca_cmd_opcode opcode, uint32_t object, const void *in, uint32_t bytes);
uint32_t command_out(struct hca *hca, enum pib_hca_cmd_opcode opcode, uint32_t object, void *out, uint32_t bytes);

#endif
