// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * usage: rdma_write NAME server     waits for one client at the address of NAME, and checks what it writes
 *        rdma_write NAME client     writes pages into the server's memory by RDMA WRITE
 *
 * The server sends the address and key of its buffer in the private data of the connection. The last WRITE has the
 * number of pages as immediate data, which tells the server that all pages are there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64, ATTEMPTS = 100 };

static const char *const PORT = "7471";

struct buffer {
	uint64_t address;       /* all fields in network byte order */
	uint32_t key;
	uint32_t size;
};

static uint8_t pages[PAGES * PAGE];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 31 + i / PAGE);
}

static struct ibv_qp_init_attr queues(void)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = PAGES, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return attr;
}

/* Creates the client's endpoint; with RAI_PASSIVE, the server's, for rdma_listen(). */
static struct rdma_cm_id *endpoint(const char *name, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_qp_init_attr attr = queues();
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(name, PORT, &hints, &info))
		die("rdma_getaddrinfo");
	if (rdma_create_ep(&id, info, NULL, &attr))
		die("rdma_create_ep");
	rdma_freeaddrinfo(info);
	return id;
}

static int serve(const char *name)
{
	struct rdma_cm_id *listener = endpoint(name, RAI_PASSIVE), *id;
	struct rdma_conn_param param = { .responder_resources = 1 };
	struct buffer told;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	size_t i;

	if (rdma_listen(listener, 1))
		die("rdma_listen");
	if (rdma_get_request(listener, &id))
		die("rdma_get_request");
	mr = rdma_reg_write(id, pages, sizeof(pages));
	if (!mr)
		die("rdma_reg_write");
	if (rdma_post_recvv(id, NULL, NULL, 0))
		die("rdma_post_recvv");
	told.address = htobe64((uintptr_t)pages);
	told.key = htonl(mr->rkey);
	told.size = htonl(sizeof(pages));
	param.private_data = &told;
	param.private_data_len = sizeof(told);
	if (rdma_accept(id, &param))
		die("rdma_accept");
	if (rdma_get_recv_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		die("rdma_get_recv_comp");
	if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM || ntohl(wc.imm_data) != PAGES) {
		fprintf(stderr, "server: completion of opcode %d with %u\n", wc.opcode, ntohl(wc.imm_data));
		return 1;
	}
	for (i = 0; i < sizeof(pages); i++) {
		if (pages[i] != pattern(i)) {
			fprintf(stderr, "server: byte %zu is wrong\n", i);
			return 1;
		}
	}
	printf("server: %d pages are as the client has written them\n", PAGES);
	rdma_disconnect(id);
	return 0;
}

/* Connects to the server; tries again while the server does not listen yet. */
static struct rdma_cm_id *connect_to(const char *name)
{
	struct rdma_conn_param param = { .initiator_depth = 1, .retry_count = 7 };
	struct rdma_cm_id *id;
	int attempt, failed = 0;

	for (attempt = 0; attempt < ATTEMPTS; attempt++) {
		id = endpoint(name, 0);
		if (!rdma_connect(id, &param))
			return id;
		failed = errno;
		rdma_destroy_ep(id);
		usleep(500000);
	}
	errno = failed;
	die("rdma_connect");
	return NULL;
}

static int write_pages(const char *name)
{
	struct rdma_cm_id *id = connect_to(name);
	const struct buffer *told = id->event->param.conn.private_data;
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	uint64_t address;
	struct ibv_wc wc;
	size_t i;

	if (id->event->param.conn.private_data_len < sizeof(*told) || ntohl(told->size) != sizeof(pages)) {
		fprintf(stderr, "client: the server has another buffer\n");
		return 1;
	}
	address = be64toh(told->address);
	mr = rdma_reg_msgs(id, pages, sizeof(pages));
	if (!mr)
		die("rdma_reg_msgs");
	for (i = 0; i < sizeof(pages); i++)
		pages[i] = pattern(i);
	for (i = 0; i < PAGES; i++) {
		sge = (struct ibv_sge){ .addr = (uintptr_t)pages + i * PAGE, .length = PAGE, .lkey = mr->lkey };
		wr = (struct ibv_send_wr){ .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };
		wr.wr.rdma.remote_addr = address + i * PAGE;
		wr.wr.rdma.rkey = ntohl(told->key);
		if (i + 1 == PAGES) {
			wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
			wr.imm_data = htonl(PAGES);
		}
		if (ibv_post_send(id->qp, &wr, &bad))
			die("ibv_post_send");
	}
	for (i = 0; i < PAGES; i++) {
		if (rdma_get_send_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "client: WRITE %zu: %s\n", i, ibv_wc_status_str(wc.status));
			return 1;
		}
	}
	printf("client: %d pages written\n", PAGES);
	rdma_disconnect(id);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[2], "server"))
		return serve(argv[1]);
	if (argc == 3 && !strcmp(argv[2], "client"))
		return write_pages(argv[1]);
	fprintf(stderr, "usage: %s NAME server|client\n", argv[0]);
	return 2;
}
