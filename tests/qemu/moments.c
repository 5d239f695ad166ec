/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * This library, preloaded into QEMU, lengthens two short moments, so that a test can act in them:
 *
 * - After munmap() of a link's shared memory the caller sleeps. The memory becomes unreachable
 *   instead of free: nothing else is mapped there, and every later access ends QEMU.
 * - Before FUTEX_WAIT on a word of a link's shared memory the caller sleeps, if the environment has
 *   PIB_SLOW_FUTEX.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOMENT_US 300000
#define SMALLEST_LINK (256 * 1024)

static long (*real_syscall)(long number, ...);

static void __attribute__((constructor)) find_syscall(void)
{
	*(void **)&real_syscall = dlsym(RTLD_NEXT, "syscall");
}

static bool is_link_memory(const void *address)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	bool found = false;
	char line[512];

	while (maps && !found && fgets(line, sizeof(line), maps))
		found = strstr(line, "/memfd:pib-link") && sscanf(line, "%lx-%lx", &from, &to) == 2 &&
			from <= (unsigned long)address && (unsigned long)address < to;
	if (maps)
		fclose(maps);
	return found;
}

int munmap(void *address, size_t length)
{
	if (!real_syscall)
		find_syscall();
	if (length < SMALLEST_LINK || !is_link_memory(address))
		return real_syscall(SYS_munmap, address, length);
	mprotect(address, length, PROT_NONE);
	usleep(MOMENT_US);
	return 0;
}

/* Passes on six arguments. Those that the caller left out are arbitrary; the kernel ignores them. */
long syscall(long number, ...)
{
	long a, b, c, d, e, f;
	va_list list;

	va_start(list, number);
	a = va_arg(list, long);
	b = va_arg(list, long);
	c = va_arg(list, long);
	d = va_arg(list, long);
	e = va_arg(list, long);
	f = va_arg(list, long);
	va_end(list);
	if (!real_syscall)
		find_syscall();
	if (number == SYS_futex && b == FUTEX_WAIT && getenv("PIB_SLOW_FUTEX") && is_link_memory((void *)a))
		usleep(MOMENT_US);
	return real_syscall(number, a, b, c, d, e, f);
}
