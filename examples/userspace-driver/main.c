// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A driver in user space for one HCA. It uses only the kernel's VFIO, which gives a process the function's BARs, its
 * interrupt, and memory for its DMA.
 */
#include "command.h"
#include "fail.h"
#include "io.h"
#include "port.h"
#include "scenes.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_MESSAGES 1000000
#define MOST_BYTES 262144

static const struct {
	const char *name;
	void (*run)(struct hca *hca, const struct options *options);
	const char *text;
} SCENES[] = {
	{ "show", show, "print device and port" },
	{ "rc-pingpong", rc_pingpong, "answer ibv_rc_pingpong -n MESSAGES -s BYTES HOST" },
	{ "ud-pingpong", ud_pingpong, "answer ibv_ud_pingpong -n MESSAGES -s BYTES HOST" },
	{ "rdma", rdma, "write and read the memory of  peer.py HOST" },
};

#define SCENE_COUNT (sizeof(SCENES) / sizeof(SCENES[0]))

void show(struct hca *hca, const struct options *options)
{
	struct pib_hca_query_device device;
	struct pib_hca_query_port port;

	(void)options;
	command_out(hca, PIB_HCA_CMD_QUERY_DEVICE, 0, &device, sizeof(device));
	port_query(hca, &port);
	printf("%.64s, %u ports, %u QPs, %u CQs, %u regions\n", (const char *)device.node_description,
	       device.port_count, le32toh(device.max_qp), le32toh(device.max_cq), le32toh(device.max_mr));
	printf("port %d: PortState %u, LID %u\n", PORT, port.state, le16toh(port.lid));
}

static _Noreturn void usage(void)
{
	fputs("usage: userspace-driver [-n MESSAGES] [-s BYTES] SCENE\n", stderr);
	for (size_t i = 0; i < SCENE_COUNT; i++)
		fprintf(stderr, "  %-12s %s\n", SCENES[i].name, SCENES[i].text);
	exit(2);
}

static uint32_t number(const char *text, unsigned long most)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || !isdigit((unsigned char)text[0]) || *end || value < 1 || value > most)
		fail("%s: expected a number from 1 to %lu", text, most);
	return (uint32_t)value;
}

static struct options parse(int argc, char **argv)
{
	struct options options = { .messages = 1000 };
	int letter;

	while ((letter = getopt(argc, argv, "n:s:")) != -1) {
		if (letter == 'n')
			options.messages = number(optarg, MOST_MESSAGES);
		else if (letter == 's')
			options.bytes = number(optarg, MOST_BYTES);
		else
			usage();
	}
	return options;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	const char *wanted = optind + 1 == argc ? argv[optind] : "";
	struct function function;
	struct hca hca;
	size_t scene = 0;

	while (scene < SCENE_COUNT && strcmp(SCENES[scene].name, wanted))
		scene++;
	if (scene == SCENE_COUNT)
		usage();
	setvbuf(stdout, NULL, _IOLBF, 0);
	function_find(&function);
	hca_open(&hca, &function);
	printf("%s by %s, %s an IOMMU\n", function.address, function.group,
	       function.no_iommu ? "without" : "behind");
	SCENES[scene].run(&hca, &options);
	hca_close(&hca);
	return 0;
}
