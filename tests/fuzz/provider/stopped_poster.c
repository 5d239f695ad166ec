/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A thread posts to a QP while another poster has stopped halfway: the other one has set a bit of
 * `rung`, and neither set the bit of `summary` nor kicked. The QPs of both share the bit of `rung`.
 */
#include <config.h>
#include <string.h>

#include "doorbell.h"
#include "lying_device.h"

#define QPN 1000

const char *post_beside_stopped_poster(bool device_is_awake)
{
	struct pib_hca_shadow_page page;

	memset(&page, 0, sizeof(page));
	page.flags = htole64(device_is_awake ? PIB_HCA_SHADOW_AWAKE : 0);
	pib_shadow_set(page.rung, QPN);
	if (pib_shadow_needs_kick(&page, QPN + PIB_HCA_SHADOW_WORDS * 64) == device_is_awake)
		return device_is_awake ? "a kick for a device that is awake" : "no kick";
	if (!pib_shadow_has(&page.summary, QPN / 64))
		return "the device does not find the bit of `rung`";
	return NULL;
}
