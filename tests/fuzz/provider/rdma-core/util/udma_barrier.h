/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The device of the fuzz target runs in the same thread. */
#pragma once

#define udma_to_device_barrier() __asm__ volatile("" ::: "memory")
#define udma_from_device_barrier() __asm__ volatile("" ::: "memory")
