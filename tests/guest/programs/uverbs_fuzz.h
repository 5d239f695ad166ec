/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parts of uverbs-fuzz: system calls of libibverbs that are changed on their way to the kernel. */
#ifndef UVERBS_FUZZ_H
#define UVERBS_FUZZ_H

#include <stdatomic.h>
#include <stdint.h>

/* A pseudo-random number below limit, from the state of the calling thread. limit: not 0. */
uint32_t below(uint32_t limit);
/* Sets the state of the calling thread. */
void set_seed(uint64_t seed);

/* Whether the calling thread's system calls on uverbs files are changed. */
void set_mutation(int on);
/* count: where changed system calls are counted, in memory that processes share. */
void count_mutations(atomic_ulong *count);

/* Calls random verbs of a device until the process is killed. Returns only if the device cannot be
 * opened. */
void call_verbs(const char *device, uint64_t seed);

#endif
