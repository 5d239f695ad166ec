// SPDX-License-Identifier: GPL-2.0-or-later
#include "checks.h"

#include <string.h>

jmp_buf check_failed;
const char *only_check;

static int failed_one(const struct check *check)
{
	if (setjmp(check_failed))
		return 1;
	check->run();
	return 0;
}

int run_checks(const struct check *list)
{
	int count = 0;

	for (; list->name; list++) {
		int bad;

		if (only_check && strcmp(only_check, list->name))
			continue;
		bad = failed_one(list);
		printf("%s %s\n", bad ? "not ok" : "ok", list->name);
		fflush(stdout);
		count += bad;
	}
	return count;
}
