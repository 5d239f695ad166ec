/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Bytes that differ from message to message, and from page to page. peer.py makes the same bytes. */
#ifndef PATTERN_H
#define PATTERN_H

#include "fail.h"

#include <stddef.h>
#include <stdint.h>

static inline uint8_t pattern_byte(size_t i, uint32_t seed)
{
	return (uint8_t)(i * 31 + i / 4096 + seed * 7);
}

static inline void pattern_fill(uint8_t *bytes, size_t count, uint32_t seed)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = pattern_byte(i, seed);
}

static inline void pattern_check(const uint8_t *bytes, size_t count, uint32_t seed, const char *what)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] != pattern_byte(i, seed))
			fail("%s: byte %zu is %#04x instead of %#04x", what, i, bytes[i], pattern_byte(i, seed));
	}
}

#endif
