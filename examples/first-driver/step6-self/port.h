/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A port's attributes (manual, 6.4). */
#ifndef PORT_H
#define PORT_H

#include "command.h"

#define PORT_ACTIVE 4 /* PortState (IBA table 146) */

int port_query(struct command_queue *commands, u32 number, struct pib_hca_query_port *port);

/* The LID of an Active port; -ENETDOWN in other states. */
int port_active_lid(struct command_queue *commands, u32 number);

#endif
