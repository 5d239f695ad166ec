/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Barriers for the compiler only: in the fuzz target the device runs in the provider's thread.
 */
#pragma once

#define udma_to_device_barrier() __asm__ volatile("" ::: "memory")
#define udma_from_device_barrier() __asm__ volatile("" ::: "memory")
