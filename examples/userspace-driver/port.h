/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The HCA's first port (manual, 15). */
#ifndef PORT_H
#define PORT_H

#include "hca.h"

#define PORT 1

void port_query(struct hca *hca, struct pib_hca_query_port *port);

/* Waits until the subnet manager has made the port Active, and returns its LID. */
uint16_t port_wait_active(struct hca *hca);

#endif
