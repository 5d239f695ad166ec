// SPDX-License-Identifier: GPL-2.0-or-later
/* Random verbs of libibverbs from several threads, over objects that they share. */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "uverbs_fuzz.h"

#define THREADS 2
#define SLOTS 8 /* objects of a kind */
#define BUFFER_BYTES (1 << 20)
#define PAGES 64 /* mappings begin below this page of the uverbs file */

enum kind { PD, CQ, MR, MW, SRQ, QP, AH, XRCD, DM, CHANNEL, KINDS };

static struct ibv_context *context;
static uint8_t buffer[BUFFER_BYTES] __attribute__((aligned(4096)));
/* A thread that uses an object has taken it from its slot, so that libibverbs frees none twice. */
static _Atomic(void *) slots[KINDS][SLOTS];

static void *take(enum kind kind)
{
	return atomic_exchange(&slots[kind][below(SLOTS)], NULL);
}

static void *create(enum kind kind, struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = below(2) ? srq : NULL,
		.cap = {below(64), below(64), below(4), below(4), below(64)},
		.qp_type = IBV_QPT_RC + below(3)};
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = below(256), .max_sge = below(4)}};
	struct ibv_ah_attr ah = {.dlid = below(8), .port_num = below(3), .is_global = below(2)};
	struct ibv_xrcd_init_attr xrcd = {.fd = -1,
					  .oflags = 0100,
					  .comp_mask = IBV_XRCD_INIT_ATTR_FD |
						       IBV_XRCD_INIT_ATTR_OFLAGS};
	struct ibv_alloc_dm_attr dm = {.length = below(1 << 16)};

	switch (kind) {
	case PD:
		return ibv_alloc_pd(context);
	case CQ:
		return ibv_create_cq(context, below(1024), NULL, NULL, below(2));
	case MR:
		return pd ? ibv_reg_mr(pd, buffer + below(4096), below(BUFFER_BYTES - 4096),
				       (int)below(512))
			  : NULL;
	case MW:
		return pd ? ibv_alloc_mw(pd, 1 + below(2)) : NULL;
	case SRQ:
		return pd ? ibv_create_srq(pd, &srq_init) : NULL;
	case QP:
		return pd && cq ? ibv_create_qp(pd, &init) : NULL;
	case AH:
		return pd ? ibv_create_ah(pd, &ah) : NULL;
	case XRCD:
		return ibv_open_xrcd(context, &xrcd);
	case DM:
		return ibv_alloc_dm(context, &dm);
	case CHANNEL:
		return ibv_create_comp_channel(context);
	default:
		return NULL;
	}
}

static int destroy(enum kind kind, void *object)
{
	switch (kind) {
	case PD:
		return ibv_dealloc_pd(object);
	case CQ:
		return ibv_destroy_cq(object);
	case MR:
		return ibv_dereg_mr(object);
	case MW:
		return ibv_dealloc_mw(object);
	case SRQ:
		return ibv_destroy_srq(object);
	case QP:
		return ibv_destroy_qp(object);
	case AH:
		return ibv_destroy_ah(object);
	case XRCD:
		return ibv_close_xrcd(object);
	case DM:
		return ibv_free_dm(object);
	case CHANNEL:
		return ibv_destroy_comp_channel(object);
	default:
		return -1;
	}
}

static void modify_qp(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (below(4) == 0) {
		ibv_query_qp(qp, &attr, (int)below(1 << 21), &init);
		return;
	}
	for (size_t i = 0; i < sizeof(attr); i++)
		((uint8_t *)&attr)[i] = below(8);
	attr.qp_state = below(IBV_QPS_ERR + 1);
	attr.port_num = 1;
	ibv_modify_qp(qp, &attr, IBV_QP_STATE | (int)below(1 << 21));
}

static void use(enum kind kind, void *object)
{
	struct ibv_srq_attr srq_attr = {.max_wr = below(512), .srq_limit = below(16)};
	union ibv_gid gid = {.raw = {0xff, 0x12}};

	switch (kind) {
	case CQ:
		ibv_resize_cq(object, (int)below(2048));
		break;
	case MR:
		ibv_rereg_mr(object, (int)below(8), NULL, buffer, below(BUFFER_BYTES),
			     (int)below(32));
		break;
	case SRQ:
		ibv_modify_srq(object, &srq_attr, (int)below(4));
		break;
	case QP:
		gid.raw[15] = (uint8_t)below(4);
		if (below(4))
			modify_qp(object);
		else if (below(2))
			ibv_attach_mcast(object, &gid, (uint16_t)(0xc000 + below(4)));
		else
			ibv_detach_mcast(object, &gid, (uint16_t)(0xc000 + below(4)));
		break;
	default:
		break;
	}
}

static void put_back(enum kind kind, void *object)
{
	if (object)
		atomic_store(&slots[kind][below(SLOTS)], object);
}

static void call_of_an_object(void)
{
	enum kind kind = below(KINDS);
	void *object = take(kind);

	if (object && below(2)) {
		use(kind, object);
		put_back(kind, object);
	} else if (object) {
		destroy(kind, object);
	} else {
		void *pd = take(PD), *cq = take(CQ), *srq = take(SRQ);

		put_back(kind, create(kind, pd, cq, srq));
		put_back(PD, pd);
		put_back(CQ, cq);
		put_back(SRQ, srq);
	}
}

static void call_of_the_device(void)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	uint16_t pkey;

	ibv_query_device(context, &attr);
	ibv_query_port(context, (uint8_t)below(4), &port);
	ibv_query_pkey(context, (uint8_t)below(4), (int)below(256), &pkey);
}

static void map_pages(void)
{
	size_t size = (1 + below(3)) * 4096;
	void *pages = mmap(NULL, size, below(2) ? PROT_WRITE : PROT_READ | PROT_WRITE,
			   below(4) ? MAP_SHARED : MAP_PRIVATE, context->cmd_fd,
			   (off_t)below(PAGES) * 4096);

	if (pages == MAP_FAILED)
		return;
	if (!below(4))
		*(volatile uint32_t *)pages = below(1 << 24);
	munmap(pages, size);
}

/* A child that has all files and mappings, and ends while its parent goes on. */
static void fork_once(void)
{
	pid_t child = fork();

	if (!child) {
		for (unsigned i = below(8); i; i--)
			call_of_an_object();
		_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
}

static void *run(void *seed)
{
	set_seed((uint64_t)(uintptr_t)seed);
	set_mutation(1);
	for (;;) {
		uint32_t drawn = below(256);

		if (drawn == 0)
			fork_once();
		else if (drawn < 8)
			map_pages();
		else if (drawn < 16)
			call_of_the_device();
		else
			call_of_an_object();
	}
	return NULL;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (struct ibv_device **device = list; device && *device; device++) {
		if (!strcmp(ibv_get_device_name(*device), name))
			return ibv_open_device(*device);
	}
	return NULL;
}

void call_verbs(const char *device, uint64_t seed)
{
	pthread_t thread;

	context = open_device(device);
	if (!context)
		return;
	for (unsigned i = 1; i < THREADS; i++)
		pthread_create(&thread, NULL, run, (void *)(uintptr_t)(seed + i));
	run((void *)(uintptr_t)seed);
}
