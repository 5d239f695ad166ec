// SPDX-License-Identifier: GPL-2.0-or-later
#include "exchange.h"

#include "event.h"
#include "fail.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TCP_PORT 18515			/* the port of libibverbs' examples */

/* Lengths of texts, with their NUL. */
#define TEXT_BYTES sizeof("0000:000000:000000:00000000000000000000000000000000")
#define NO_GID "00000000000000000000000000000000"
#define DONE_BYTES sizeof("done")
#define LINE_BYTES 128

static int listener(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(TCP_PORT) };
	int one = 1, made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (made < 0)
		fail_errno("socket()");
	if (setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)))
		fail_errno("setsockopt()");
	if (bind(made, (struct sockaddr *)&any, sizeof(any)) || listen(made, 1))
		fail_errno("TCP port %d", TCP_PORT);
	return made;
}

int exchange_accept(struct hca *hca)
{
	int made = listener(), connection;

	printf("waiting for a peer at TCP port %d\n", TCP_PORT);
	event_wait_input(hca, made);
	connection = accept(made, NULL, NULL);
	if (connection < 0)
		fail_errno("accept()");
	close(made);
	return connection;
}

static void receive_all(int connection, char *text, size_t bytes)
{
	if (recv(connection, text, bytes, MSG_WAITALL) != (ssize_t)bytes)
		fail("the peer has closed its connection too early: read what it has printed");
}

void exchange_hear(int connection, struct peer *peer)
{
	unsigned int lid, qpn, psn;
	char text[TEXT_BYTES];

	receive_all(connection, text, sizeof(text));
	text[sizeof(text) - 1] = 0;
	if (sscanf(text, "%4x:%6x:%6x:", &lid, &qpn, &psn) != 3 || !lid)
		fail("the peer says \"%s\", which is not a LID:QPN:PSN:GID", text);
	*peer = (struct peer){ .lid = (uint16_t)lid, .qpn = qpn, .psn = psn };
}

void exchange_answer(int connection, const struct peer *own)
{
	char text[TEXT_BYTES], done[DONE_BYTES];

	snprintf(text, sizeof(text), "%04x:%06x:%06x:" NO_GID, own->lid, own->qpn & 0xffffff, own->psn & 0xffffff);
	if (send(connection, text, sizeof(text), MSG_NOSIGNAL) != sizeof(text))
		fail_errno("answer to the peer");
	receive_all(connection, done, sizeof(done));
}

void exchange_say(FILE *connection, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list values;
	int bytes;

	va_start(values, format);
	bytes = vsnprintf(line, sizeof(line), format, values);
	va_end(values);
	if (bytes < 0 || bytes >= LINE_BYTES)
		fail("a line for the peer is longer than %d bytes", LINE_BYTES - 1);
	/* The stream is for reading. A write to it would end the program by SIGPIPE if the peer has gone. */
	if (send(fileno(connection), line, (size_t)bytes, MSG_NOSIGNAL) != bytes)
		fail_errno("answer to the peer");
}

void exchange_read(FILE *connection, char *line, size_t room)
{
	if (!fgets(line, (int)room, connection))
		fail("the peer has closed its connection too early: read what it has printed");
	line[strcspn(line, "\n")] = 0;
}
