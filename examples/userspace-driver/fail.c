// SPDX-License-Identifier: GPL-2.0-or-later
#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const char *format, va_list values)
{
	fputs("userspace-driver: ", stderr);
	vfprintf(stderr, format, values);
}

void fail(const char *format, ...)
{
	va_list values;

	va_start(values, format);
	say(format, values);
	va_end(values);
	fputc('\n', stderr);
	exit(1);
}

void fail_errno(const char *format, ...)
{
	int error = errno;
	va_list values;

	va_start(values, format);
	say(format, values);
	va_end(values);
	fprintf(stderr, ": %s\n", strerror(error));
	exit(1);
}
