/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The provider's queues with a kernel that answers and a device that writes as the input says. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void lying_device_run(const uint8_t* input, size_t length);

/*
 * Tests with an honest device. A thread destroys a QP, or an XRC SRQ, and waits for its events to
 * be acknowledged, while another thread creates one with the same number. Returns NULL, or the
 * fault.
 */
const char* slow_destroy_of_qp(void);
const char* slow_destroy_of_srq(void);
/* As slow_destroy_of_qp(); the thread that creates the QP polls its CQ by start_poll(). */
const char* create_qp_of_polled_cq(void);
/* Two threads reset QPs of the same two CQs, one of which the first thread polls. */
const char* reset_qps_of_polled_cq(void);
/*
 * Rings the doorbell of a QP while another poster has set only the first of two bits. Returns NULL,
 * or the fault.
 */
const char* post_beside_stopped_poster(bool device_is_awake);

#ifdef __cplusplus
}
#endif
