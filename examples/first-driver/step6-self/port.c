// SPDX-License-Identifier: GPL-2.0-or-later
#include "port.h"

int port_query(struct command_queue *commands, u32 number, struct pib_hca_query_port *port)
{
	struct command command = {
		.opcode = PIB_HCA_CMD_QUERY_PORT,
		.object = number,
		.out = port,
		.out_length = sizeof(*port),
	};

	return command_execute(commands, &command, NULL);
}

int port_active_lid(struct command_queue *commands, u32 number)
{
	struct pib_hca_query_port port;
	int ret;

	ret = port_query(commands, number, &port);
	if (ret)
		return ret;
	return port.state == PORT_ACTIVE ? le16_to_cpu(port.lid) : -ENETDOWN;
}
