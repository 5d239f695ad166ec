// SPDX-License-Identifier: GPL-2.0-or-later
#include "hca.h"

#include "command.h"
#include "deadline.h"
#include "event.h"
#include "fail.h"
#include "io.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define RESET_LIMIT_S 30
#define GONE 0xffffffffu		/* registers of an unplugged device */

/* Registers of the device that accesses this process's memory; NULL: there is none. */
static volatile uint8_t *working;

/* Resets the device and returns its STATUS: 0 if the device accesses no memory any more. */
static uint32_t reset(volatile uint8_t *registers)
{
	time_t deadline = deadline_in(RESET_LIMIT_S);
	uint32_t status;

	store32(registers, PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
	while ((status = load32(registers, PIB_HCA_REG_STATUS)) && status != GONE && !deadline_passed(deadline))
		rest();
	return status;
}

/*
 * The kernel frees a process's memory before it closes the function, so the process itself must end the device's
 * accesses.
 */
static void reset_at_exit(void)
{
	if (working)
		reset(working);
	working = NULL;
}

static void reset_at_signal(int number)
{
	reset_at_exit();
	_exit(128 + number);
}

/* The fault then ends the program as it does without a handler: a core dump shows where it was. */
static void reset_at_fault(int number)
{
	reset_at_exit();
	signal(number, SIG_DFL);
	raise(number);	/* the signal comes when this function has returned */
}

static void check_version(const volatile uint8_t *registers)
{
	uint32_t version = load32(registers, PIB_HCA_REG_VERSION);

	if (version >> 16 != PIB_HCA_INTERFACE_MAJOR)
		fail("the device's interface is %u.%u, and this driver knows %u: take the device's hw-interface",
		     version >> 16, version & 0xffff, PIB_HCA_INTERFACE_MAJOR);
}

static void check_reset(volatile uint8_t *registers)
{
	uint32_t status = reset(registers);

	if (status == GONE)
		fail("the device is gone: STATUS reads as all ones. Start the guest anew:  ./pib reboot NODE");
	if (status)
		fail("the reset does not end in %d s: STATUS is %#x. Start the guest anew:  ./pib reboot NODE",
		     RESET_LIMIT_S, status);
}

static void take_care_of_the_end(volatile uint8_t *registers)
{
	/* Signals from a user, a terminal or a closed pipe, which end a process; and signals of faults of this program. */
	static const int ENDS[] = { SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM };
	static const int FAULTS[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV };

	working = registers;
	if (atexit(reset_at_exit))
		fail("atexit() takes no function");
	for (size_t i = 0; i < sizeof(ENDS) / sizeof(ENDS[0]); i++)
		signal(ENDS[i], reset_at_signal);
	for (size_t i = 0; i < sizeof(FAULTS) / sizeof(FAULTS[0]); i++)
		signal(FAULTS[i], reset_at_fault);
}

void hca_open(struct hca *hca, const struct function *function)
{
	vfio_open(&hca->vfio, function);
	check_version(hca->vfio.registers);
	check_reset(hca->vfio.registers);
	take_care_of_the_end(hca->vfio.registers);
	vfio_enable_bus_master(&hca->vfio);
	dma_open(&hca->dma, &hca->vfio);
	command_open(hca);
	event_open(hca);
	hca->pd = command(hca, PIB_HCA_CMD_ALLOC_PD, 0);
}

void hca_close(struct hca *hca)
{
	command(hca, PIB_HCA_CMD_FREE_PD, hca->pd);
	event_close(hca);
	check_reset(hca->vfio.registers);
	working = NULL;
	vfio_close(&hca->vfio);
	dma_close(&hca->dma);
}
