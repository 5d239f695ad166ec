/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The device as ib_core, and through it libibverbs, sees it. */
#ifndef VERBS_H
#define VERBS_H

#include <rdma/ib_verbs.h>

#include "event.h"

/* ib is the first member, because ib_core allocates it. */
struct first {
	struct ib_device ib;
	struct hca hca;
	struct command_queue commands;
	struct event_queue events;
	struct pib_hca_query_device device;
};

struct first *verbs_alloc(void);
int verbs_register(struct first *first);

/* Unregisters the device. After that, no event goes to ib_core. */
void verbs_unregister(struct first *first);

#endif
