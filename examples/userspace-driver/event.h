/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The event queue (manual, 9): one for all events, at MSI-X vector 0. */
#ifndef EVENT_H
#define EVENT_H

#include "hca.h"

void event_open(struct hca *hca);

/*
 * Waits for an interrupt, for at most the given time, and takes all new events. The caller then looks at the queue or
 * port that it waits for. An error of a queue or of the device ends the program.
 */
void event_wait(struct hca *hca, int milliseconds);

/*
 * Waits until a file has input, and takes events meanwhile: a user may type for longer than the 60 s that the device
 * gives a driver to take events (manual, 9).
 */
void event_wait_input(struct hca *hca, int file);

void event_close(struct hca *hca);

#endif
