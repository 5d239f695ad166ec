/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifndef __force
#define __force
#endif

static inline bool check_comp_mask(uint64_t given, uint64_t known) {
    return (given & ~known) == 0;
}

static inline unsigned long align(unsigned long value, unsigned long to) {
    return (value + to - 1) & ~(to - 1);
}
