/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The provider's queues with a kernel that answers and a device that writes as the input says. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void lying_device_run(const uint8_t* input, size_t length);

#ifdef __cplusplus
}
#endif
