/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The TCP connection by which both ends tell each other their QPs. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "qp.h"

#include <stdio.h>

/* Waits for a peer's connection. */
int exchange_accept(struct hca *hca);

/*
 * For ibv_rc_pingpong and ibv_ud_pingpong: texts of fixed length with LID, QPN, PSN and GID, and then "done". The
 * client speaks first. It sends messages as soon as it has the answer, so post receives before exchange_answer().
 */
void exchange_hear(int connection, struct peer *peer);
void exchange_answer(int connection, const struct peer *own);

/* Sends a line, formatted as by printf(); receives a line. */
void exchange_say(FILE *connection, const char *format, ...) __attribute__((format(printf, 2, 3)));
void exchange_read(FILE *connection, char *line, size_t room);

#endif
