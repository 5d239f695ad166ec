/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A hint to the scheduler, for a thread that moves packets: it sleeps most of the time and works
 * for some microseconds when it is woken. With the usual slice, of milliseconds, such a thread may
 * have to wait for a whole slice of a processor that polls; with a short one it is let in at once,
 * and owes nobody more than that.
 */
#ifndef PIB_SHORT_SLICES_H
#define PIB_SHORT_SLICES_H

#ifdef __cplusplus
extern "C" {
#endif

/* For the calling thread. Needs no privilege; before Linux 6.12 it does nothing. */
void pib_ask_for_short_slices(void);

#ifdef __cplusplus
}
#endif

#endif /* PIB_SHORT_SLICES_H */
