/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A failed CHECK() prints its place and ends the running check; run_checks() runs the next one. */
#ifndef CHECKS_H
#define CHECKS_H

#include <setjmp.h>
#include <stdio.h>

struct check {
	const char *name;
	void (*run)(void);
};

extern jmp_buf check_failed;
/* The name of the only check that run_checks() runs; NULL: it runs all. */
extern const char *only_check;

#define CHECK(condition)                                                               \
	do {                                                                           \
		if (!(condition)) {                                                    \
			printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);         \
			longjmp(check_failed, 1);                                      \
		}                                                                      \
	} while (0)

#define CHECK_EQUAL(got, wanted)                                                       \
	do {                                                                           \
		long long got_ = (long long)(got), wanted_ = (long long)(wanted);      \
		if (got_ != wanted_) {                                                 \
			printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__,    \
			       #got, got_, wanted_);                                   \
			longjmp(check_failed, 1);                                      \
		}                                                                      \
	} while (0)

/* Runs a list of checks, which ends with a NULL name, and prints the result of each; returns the
 * number of failed checks. */
int run_checks(const struct check *list);

extern const struct check datagram_checks[];
extern const struct check memory_checks[];
extern const struct check thread_checks[];
extern const struct check srq_checks[];
extern const struct check path_checks[];
extern const struct check domain_checks[];
extern const struct check page_checks[];

#endif
