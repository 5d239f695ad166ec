/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stores to the UAR page go to a page of ordinary memory. */
#pragma once

#include <stdint.h>

static inline void mmio_write32(void* address, uint32_t value) {
    *(volatile uint32_t*)address = value;
}

static inline void mmio_write64(void* address, uint64_t value) {
    *(volatile uint64_t*)address = value;
}

static inline uint64_t mmio_read64_le(void* address) {
    return *(volatile uint64_t*)address;
}
