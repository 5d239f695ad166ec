/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One HCA: bring-up and end (manual, 4), and the state of its command queue and event queue. */
#ifndef HCA_H
#define HCA_H

#include "dma.h"
#include "pib_hca_hw.h"
#include "vfio.h"

/* count: commands issued since ENABLE. */
struct command_queue {
	struct pib_hca_cmd *ring;
	struct pib_hca_cmd_cpl *completions;
	struct dma_block in;
	struct dma_block out;
	uint32_t count;
};

/* consumer: events taken. */
struct event_queue {
	struct pib_hca_eqe *ring;
	uint32_t number;
	uint32_t consumer;
};

struct hca {
	struct vfio vfio;
	struct dma dma;
	struct command_queue commands;
	struct event_queue events;
	uint32_t pd;
};

/*
 * Resets the device, and creates an event queue and a protection domain. The device is reset again before the program
 * ends.
 */
void hca_open(struct hca *hca, const struct function *function);
void hca_close(struct hca *hca);

/*
 * Returns whether the device has written an entry. counter and log_depth give software's pass over the ring
 * (manual, 1).
 */
static inline bool hca_is_new(uint8_t owner, uint32_t counter, unsigned int log_depth)
{
	return (owner & PIB_HCA_OWNER_BIT) == (((counter >> log_depth) & 1) ^ 1);
}

#endif
