/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scheduler hint for a thread that moves packets: such a thread sleeps most
 * of the time and works for some microseconds after each wake-up. With the
 * usual time slice of milliseconds it may wait for a whole slice of a thread
 * that polls. With a short slice it runs at once.
 */
#ifndef PIB_SHORT_SLICES_H
#define PIB_SHORT_SLICES_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Applies to the calling thread. Needs no privilege; has no effect before Linux
 * 6.12.
 */
void pib_ask_for_short_slices(void);

#ifdef __cplusplus
}
#endif

#endif /* PIB_SHORT_SLICES_H */
