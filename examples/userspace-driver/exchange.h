/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The TCP connection by which both ends tell each other their QPs. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "qp.h"

#include <stdio.h>

/* Waits for a peer's connection. */
int exchange_accept(void);

/*
 * With ibv_rc_pingpong and ibv_ud_pingpong: fixed texts of LID, QPN, PSN and GID, and a "done". The client speaks
 * first. It sends messages as soon as it has been answered, so receives are posted before that.
 */
void exchange_hear(int connection, struct peer *peer);
void exchange_answer(int connection, const struct peer *own);

/* A line, as printf() and scanf() have it. */
void exchange_say(FILE *connection, const char *format, ...) __attribute__((format(printf, 2, 3)));
void exchange_read(FILE *connection, char *line, size_t room);

#endif
