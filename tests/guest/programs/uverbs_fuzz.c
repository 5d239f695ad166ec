// SPDX-License-Identifier: GPL-2.0-or-later
/* Processes that call random verbs with changed system calls, and are killed at random moments.
 *
 * usage: uverbs-fuzz DEVICE SECONDS SEED [rebind]
 *
 * With rebind the driver is unbound from the device and bound again from time to time. Prints the
 * number of changed system calls, of processes and of rebinds.
 */
#include "uverbs_fuzz.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 2
#define SHORTEST_MS 20
#define LONGEST_MS 2000
#define REBIND_ONE_IN 16 /* one round of this many unbinds the driver and binds it again */

static pid_t children[PROCESSES];
static unsigned long started, rebinds;

static void start(pid_t *child, const char *device, uint64_t seed)
{
	struct rlimit no_core = {0, 0};

	started++;
	*child = fork();
	if (*child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &no_core);
	if (!freopen("/dev/null", "w", stderr))
		_exit(1);
	call_verbs(device, seed);
	usleep(SHORTEST_MS * 1000); /* the device is not there while the driver is unbound */
	_exit(0);
}

static void stop(pid_t child)
{
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

static void say_to(const char *file, const char *word)
{
	int fd = open(file, O_WRONLY);

	if (fd < 0 || write(fd, word, strlen(word)) < 0)
		perror(file);
	if (fd >= 0)
		close(fd);
}

static void rebind(const char *slot)
{
	say_to("/sys/bus/pci/drivers/pib_hca/unbind", slot);
	usleep(below(LONGEST_MS) * 1000);
	say_to("/sys/bus/pci/drivers/pib_hca/bind", slot);
	rebinds++;
}

/* The PCI address of the device's function; "" if it is not there. */
static const char *slot_of(const char *device)
{
	static char slot[PATH_MAX];
	char link[PATH_MAX];

	snprintf(link, sizeof(link), "/sys/class/infiniband/%s/device", device);
	return realpath(link, slot) ? basename(slot) : "";
}

static void fuzz(const char *device, time_t end, uint64_t seed, const char *slot)
{
	while (time(NULL) < end) {
		for (unsigned i = 0; i < PROCESSES; i++) {
			if (children[i] > 0 && !waitpid(children[i], NULL, WNOHANG))
				continue;
			start(&children[i], device, seed + started * 1000);
		}
		usleep((SHORTEST_MS + below(LONGEST_MS)) * 1000);
		if (slot && !below(REBIND_ONE_IN))
			rebind(slot);
		if (below(4)) {
			unsigned victim = below(PROCESSES);

			stop(children[victim]);
			children[victim] = 0;
		}
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		stop(children[i]);
}

int main(int argc, char **argv)
{
	atomic_ulong *count = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t seed;

	if (argc < 4 || count == MAP_FAILED) {
		fprintf(stderr, "usage: uverbs-fuzz DEVICE SECONDS SEED [rebind]\n");
		return 2;
	}
	seed = strtoull(argv[3], NULL, 0);
	set_seed(seed);
	count_mutations(count);
	fuzz(argv[1], time(NULL) + atoi(argv[2]), seed, argc > 4 ? slot_of(argv[1]) : NULL);
	printf("%lu changed system calls, %lu processes, %lu rebinds\n", *count, started, rebinds);
	return 0;
}
