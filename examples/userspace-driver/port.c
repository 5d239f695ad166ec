// SPDX-License-Identifier: GPL-2.0-or-later
#include "port.h"

#include "command.h"
#include "deadline.h"
#include "event.h"
#include "fail.h"

#include <endian.h>

#define ACTIVE 4		/* PortState (IBA table 146) */
#define LIMIT_S 300
#define LOOK_MS 1000

void port_query(struct hca *hca, struct pib_hca_query_port *port)
{
	command_out(hca, PIB_HCA_CMD_QUERY_PORT, PORT, port, sizeof(*port));
}

uint16_t port_wait_active(struct hca *hca)
{
	time_t deadline = deadline_in(LIMIT_S);
	struct pib_hca_query_port port;

	for (port_query(hca, &port); port.state != ACTIVE; port_query(hca, &port)) {
		if (deadline_passed(deadline))
			fail("the port is in state %u after %d s: does a subnet manager run?", port.state, LIMIT_S);
		event_wait(hca, LOOK_MS);
	}
	return le16toh(port.lid);
}
