/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The number of bits of a number without its leading zeros. */
static inline int ilog32(unsigned int number) {
    return number ? 32 - __builtin_clz(number) : 0;
}
