/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads and stores of registers, and barriers (manual, 3 and 8). Registers take accesses of 4 bytes, and doorbells with
 * a counter one store of 8 bytes, so this driver needs a 64-bit processor.
 */
#ifndef IO_H
#define IO_H

#include <endian.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(sizeof(void *) == 8, "a doorbell of 64 bits needs a store of 64 bits");

static inline uint32_t load32(const volatile uint8_t *base, size_t offset)
{
	return le32toh(*(const volatile uint32_t *)(base + offset));
}

static inline void store32(volatile uint8_t *base, size_t offset, uint32_t value)
{
	*(volatile uint32_t *)(base + offset) = htole32(value);
}

static inline void store64(volatile uint8_t *base, size_t offset, uint64_t value)
{
	*(volatile uint64_t *)(base + offset) = htole64(value);
}

/* The device sees stores before the barrier no later than stores after it. Loads before it come before those stores. */
static inline void store_barrier(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}

/* Call this between the load of an entry's owner bit and the loads of its other bytes. */
static inline void load_barrier(void)
{
	atomic_thread_fence(memory_order_acquire);
}

/* The last byte of an entry, which the device writes after all others. */
static inline uint8_t load_owner(const uint8_t *owner)
{
	return *(const volatile uint8_t *)owner;
}

#endif
