/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ends the program with a message, by exit(), which resets the device. */
#ifndef FAIL_H
#define FAIL_H

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As fail(), with the text of errno after the message. */
_Noreturn void fail_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
