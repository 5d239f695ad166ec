// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Test: verbs that only the kernel has. At port 1 of the first InfiniBand device, which must be
 * Active, an RC QP connected to itself executes work requests. The kernel's log has "ok NAME" or
 * "not ok NAME: ERROR" of each check.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/scatterlist.h>

#include <rdma/ib_verbs.h>

#define PORT 1
#define DEPTH 16
#define PATIENCE_MS 60000

struct bench {
	struct ib_device *dev;
	struct ib_pd *pd; /* has a region for all memory, by the physical address */
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct ib_mr *mr; /* fast registration of `target` */
	u64 *target; /* a page: remote memory of the requests */
	u64 *local;  /* its second half: what requests return */
	u64 dma;
};

struct request {
	struct ib_cqe cqe;
	enum ib_wc_status status;
	enum ib_wc_opcode opcode;
	bool done;
};

static void request_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct request *request = container_of(wc->wr_cqe, struct request, cqe);

	request->status = wc->status;
	request->opcode = wc->opcode;
	request->done = true;
}

/* Posts a signaled request and waits for its completion, which must have the given opcode. */
static int execute(struct bench *bench, struct ib_send_wr *wr, enum ib_wc_opcode opcode)
{
	struct request request = { .cqe.done = request_done };
	int ret, ms;

	wr->wr_cqe = &request.cqe;
	wr->send_flags |= IB_SEND_SIGNALED;
	ret = ib_post_send(bench->qp, wr, NULL);
	for (ms = 0; !ret && !request.done && ms < PATIENCE_MS; ms++) {
		ib_process_cq_direct(bench->cq, 1);
		usleep_range(1000, 2000);
	}
	if (!ret && !request.done) {
		/* `request` is on the stack: it must complete before this function returns. */
		ib_drain_sq(bench->qp);
		return -ETIMEDOUT;
	}
	if (!ret && (request.status != IB_WC_SUCCESS || request.opcode != opcode))
		ret = -EIO;
	return ret;
}

static int execute_atomic(struct bench *bench, struct ib_atomic_wr *wr, enum ib_wc_opcode opcode,
			  u64 before, u64 after)
{
	struct ib_sge sge = {
		.addr = bench->dma + PAGE_SIZE / 2,
		.length = sizeof(u64),
		.lkey = bench->pd->local_dma_lkey,
	};
	int ret;

	wr->wr.sg_list = &sge;
	wr->wr.num_sge = 1;
	wr->remote_addr = bench->mr->iova;
	wr->rkey = bench->mr->rkey;
	*bench->target = before;
	*bench->local = 0;
	ret = execute(bench, &wr->wr, opcode);
	if (!ret && (*bench->local != before || *bench->target != after))
		ret = -EBADMSG;
	return ret;
}

static int masked_compare_and_swap(struct bench *bench)
{
	struct ib_atomic_wr wr = {
		.wr.opcode = IB_WR_MASKED_ATOMIC_CMP_AND_SWP,
		.compare_add = 0x88,
		.compare_add_mask = 0xff,
		.swap = 0xab00,
		.swap_mask = 0xff00,
	};

	return execute_atomic(bench, &wr, IB_WC_MASKED_COMP_SWAP, 0x1122334455667788,
			      0x112233445566ab88);
}

/* A field of 8 bits wraps around; the bits above it stay. */
static int masked_fetch_and_add(struct bench *bench)
{
	struct ib_atomic_wr wr = {
		.wr.opcode = IB_WR_MASKED_ATOMIC_FETCH_AND_ADD,
		.compare_add = 0x0101,
		.compare_add_mask = 0x80,
	};

	return execute_atomic(bench, &wr, IB_WC_MASKED_FETCH_ADD, 0x55ff, 0x5600);
}

static int write_by_key(struct bench *bench, u64 address, u32 rkey)
{
	struct ib_sge sge = {
		.addr = bench->dma + PAGE_SIZE / 2,
		.length = sizeof(u64),
		.lkey = bench->pd->local_dma_lkey,
	};
	struct ib_rdma_wr wr = {
		.wr = { .opcode = IB_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = address,
		.rkey = rkey,
	};
	int ret;

	*bench->target = 0;
	*bench->local = 0x4711;
	ret = execute(bench, &wr.wr, IB_WC_RDMA_WRITE);
	return !ret && *bench->target != 0x4711 ? -EBADMSG : ret;
}

static int physical_region(struct bench *bench)
{
	return write_by_key(bench, bench->dma, bench->pd->unsafe_global_rkey);
}

/* Registers the page, for the checks that follow. */
static int signaled_registration(struct bench *bench)
{
	struct ib_reg_wr reg = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = bench->mr,
		.key = bench->mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC,
	};
	struct scatterlist list;
	int ret;

	sg_init_one(&list, bench->target, PAGE_SIZE);
	sg_dma_address(&list) = bench->dma;
	sg_dma_len(&list) = PAGE_SIZE;
	ret = ib_map_mr_sg(bench->mr, &list, 1, NULL, PAGE_SIZE);
	if (ret != 1)
		return -EINVAL;
	ret = execute(bench, &reg.wr, IB_WC_REG_MR);
	return ret ?: write_by_key(bench, bench->mr->iova, bench->mr->rkey);
}

static int invalidation(struct bench *bench)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = bench->mr->rkey,
	};

	return execute(bench, &wr, IB_WC_LOCAL_INV);
}

static int connect(struct bench *bench);

/* The rounded size of a WQE has room for an SGE: a caller that asks for none may post an atomic. */
static int atomic_without_sges_asked_for(struct bench *bench)
{
	struct ib_qp_init_attr attr = {
		.send_cq = bench->cq,
		.recv_cq = bench->cq,
		.qp_type = IB_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_recv_sge = 1 },
	};
	struct ib_atomic_wr wr = {
		.wr.opcode = IB_WR_ATOMIC_FETCH_AND_ADD,
		.compare_add = 1,
	};
	struct ib_qp *first = bench->qp;
	int ret;

	bench->qp = ib_create_qp(bench->pd, &attr);
	if (IS_ERR(bench->qp)) {
		ret = PTR_ERR(bench->qp);
	} else {
		ret = attr.cap.max_send_sge ? connect(bench) : -ENOSPC;
		if (!ret)
			ret = execute_atomic(bench, &wr, IB_WC_FETCH_ADD, 1, 2);
		ib_destroy_qp(bench->qp);
	}
	bench->qp = first;
	return ret;
}

/* The shortest WQEs: no inline data, and UC has no longer header than that of an RDMA WRITE. */
static int smallest_queue_pair(struct bench *bench)
{
	struct ib_qp_init_attr attr = {
		.send_cq = bench->cq,
		.recv_cq = bench->cq,
		.qp_type = IB_QPT_UC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ib_qp *qp = ib_create_qp(bench->pd, &attr);

	return IS_ERR(qp) ? PTR_ERR(qp) : ib_destroy_qp(qp);
}

/* Posts receives without data until the SRQ is full; returns how many. */
static int fill(struct ib_srq *srq)
{
	static struct ib_cqe unused;
	struct ib_recv_wr wr = { .wr_cqe = &unused };
	int posted = 0;

	while (posted <= 2 * DEPTH && !ib_post_srq_recv(srq, &wr, NULL))
		posted++;
	return posted;
}

/* A QP takes all receives of a full SRQ, and is destroyed before its receive CQ is polled. Returns how many. */
static int take_all_receives(struct bench *bench, struct ib_srq *srq, struct ib_cq *receives)
{
	struct ib_qp_init_attr attr = {
		.send_cq = bench->cq,
		.recv_cq = receives,
		.srq = srq,
		.qp_type = IB_QPT_RC,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
	};
	struct ib_qp *first = bench->qp;
	int ret, posted = fill(srq), i;

	bench->qp = ib_create_qp(bench->pd, &attr);
	if (IS_ERR(bench->qp)) {
		ret = PTR_ERR(bench->qp);
	} else {
		ret = connect(bench);
		for (i = 0; !ret && i < posted; i++) {
			struct ib_send_wr wr = { .opcode = IB_WR_SEND };

			ret = execute(bench, &wr, IB_WC_SEND);
		}
		ib_destroy_qp(bench->qp);
	}
	bench->qp = first;
	return ret ?: posted;
}

static int destroyed_queue_pair_gives_srq_places_back(struct bench *bench)
{
	struct ib_srq_init_attr attr = {
		.srq_type = IB_SRQT_BASIC,
		.attr = { .max_wr = 4, .max_sge = 1 },
	};
	struct ib_cq *receives = ib_alloc_cq(bench->dev, NULL, 2 * DEPTH, 0, IB_POLL_DIRECT);
	struct ib_srq *srq;
	int ret, round;

	if (IS_ERR(receives))
		return PTR_ERR(receives);
	srq = ib_create_srq(bench->pd, &attr);
	ret = IS_ERR(srq) ? PTR_ERR(srq) : take_all_receives(bench, srq, receives);
	for (round = 0; ret >= 0 && round < 3; round++) {
		int taken = take_all_receives(bench, srq, receives);

		if (taken < 4 || taken != ret)
			ret = taken < 0 ? taken : -ENOSPC;
	}
	if (!IS_ERR(srq))
		ib_destroy_srq(srq);
	ib_free_cq(receives);
	return min(ret, 0);
}

static int qkey_counter_is_reset(struct bench *bench)
{
	struct ib_port_modify none = {};
	struct ib_port_attr attr;
	int ret = ib_modify_port(bench->dev, PORT, IB_PORT_RESET_QKEY_CNTR, &none);

	if (!ret)
		ret = ib_query_port(bench->dev, PORT, &attr);
	return !ret && attr.qkey_viol_cntr ? -EBADMSG : ret;
}

static int system_image_guid_changes(struct bench *bench)
{
	u64 old = be64_to_cpu(bench->dev->attrs.sys_image_guid);
	struct ib_device_modify modify = { .sys_image_guid = old ^ 1 };
	int ret;

	ret = ib_modify_device(bench->dev, IB_DEVICE_MODIFY_SYS_IMAGE_GUID, &modify);
	if (!ret && be64_to_cpu(bench->dev->attrs.sys_image_guid) != (old ^ 1))
		ret = -EBADMSG;
	modify.sys_image_guid = old;
	return ret ?: ib_modify_device(bench->dev, IB_DEVICE_MODIFY_SYS_IMAGE_GUID, &modify);
}

static const struct {
	const char *name;
	int (*check)(struct bench *bench);
} checks[] = {
	{ "physical_region", physical_region },
	{ "signaled_registration", signaled_registration },
	{ "masked_compare_and_swap", masked_compare_and_swap },
	{ "masked_fetch_and_add", masked_fetch_and_add },
	{ "atomic_without_sges_asked_for", atomic_without_sges_asked_for },
	{ "invalidation", invalidation },
	{ "smallest_queue_pair", smallest_queue_pair },
	{ "destroyed_queue_pair_gives_srq_places_back", destroyed_queue_pair_gives_srq_places_back },
	{ "qkey_counter_is_reset", qkey_counter_is_reset },
	{ "system_image_guid_changes", system_image_guid_changes },
};

/* ---------------------------------------------------------------- the bench ------------------ */

static int connect(struct bench *bench)
{
	struct ib_qp_attr init = {
		.qp_state = IB_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC,
	};
	struct ib_qp_attr rtr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = bench->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr.type = RDMA_AH_ATTR_TYPE_IB,
	};
	struct ib_qp_attr rts = {
		.qp_state = IB_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	struct ib_port_attr port;
	int ret = ib_query_port(bench->dev, PORT, &port);

	if (ret)
		return ret;
	rdma_ah_set_port_num(&rtr.ah_attr, PORT);
	rdma_ah_set_dlid(&rtr.ah_attr, port.lid);
	ret = ib_modify_qp(bench->qp, &init, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			   IB_QP_ACCESS_FLAGS);
	if (!ret)
		ret = ib_modify_qp(bench->qp, &rtr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
				   IB_QP_DEST_QPN | IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC |
				   IB_QP_MIN_RNR_TIMER);
	return ret ?: ib_modify_qp(bench->qp, &rts, IB_QP_STATE | IB_QP_SQ_PSN | IB_QP_TIMEOUT |
				   IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_MAX_QP_RD_ATOMIC);
}

static void check_with_queue_pair(struct bench *bench)
{
	struct ib_qp_init_attr attr = {
		.send_cq = bench->cq,
		.recv_cq = bench->cq,
		.qp_type = IB_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	int ret, i;

	bench->qp = ib_create_qp(bench->pd, &attr);
	if (IS_ERR(bench->qp)) {
		pr_err("kernel_verbs: not ok queue_pair: %ld\n", PTR_ERR(bench->qp));
		return;
	}
	ret = connect(bench);
	if (ret)
		pr_err("kernel_verbs: not ok connect: %d\n", ret);
	for (i = 0; !ret && i < ARRAY_SIZE(checks); i++) {
		int result = checks[i].check(bench);

		if (result)
			pr_err("kernel_verbs: not ok %s: %d\n", checks[i].name, result);
		else
			pr_info("kernel_verbs: ok %s\n", checks[i].name);
	}
	ib_destroy_qp(bench->qp);
}

static void check_with_memory(struct bench *bench)
{
	bench->target = (u64 *)get_zeroed_page(GFP_KERNEL);
	if (!bench->target)
		return;
	bench->local = bench->target + PAGE_SIZE / 2 / sizeof(u64);
	bench->dma = ib_dma_map_single(bench->dev, bench->target, PAGE_SIZE, DMA_BIDIRECTIONAL);
	if (!ib_dma_mapping_error(bench->dev, bench->dma)) {
		bench->mr = ib_alloc_mr(bench->pd, IB_MR_TYPE_MEM_REG, 1);
		if (!IS_ERR(bench->mr)) {
			check_with_queue_pair(bench);
			ib_dereg_mr(bench->mr);
		}
		ib_dma_unmap_single(bench->dev, bench->dma, PAGE_SIZE, DMA_BIDIRECTIONAL);
	}
	free_page((unsigned long)bench->target);
}

static int kernel_verbs_add(struct ib_device *dev)
{
	struct bench bench = { .dev = dev };

	bench.pd = ib_alloc_pd(dev, IB_PD_UNSAFE_GLOBAL_RKEY);
	if (IS_ERR(bench.pd))
		return PTR_ERR(bench.pd);
	bench.cq = ib_alloc_cq(dev, NULL, 2 * DEPTH, 0, IB_POLL_DIRECT);
	if (!IS_ERR(bench.cq)) {
		check_with_memory(&bench);
		ib_free_cq(bench.cq);
	}
	ib_dealloc_pd(bench.pd);
	pr_info("kernel_verbs: done\n");
	return 0;
}

static void kernel_verbs_remove(struct ib_device *dev, void *client_data)
{
}

static struct ib_client kernel_verbs_client = {
	.name = "kernel_verbs",
	.add = kernel_verbs_add,
	.remove = kernel_verbs_remove,
};

static int __init kernel_verbs_init(void)
{
	return ib_register_client(&kernel_verbs_client);
}
module_init(kernel_verbs_init);

static void __exit kernel_verbs_exit(void)
{
	ib_unregister_client(&kernel_verbs_client);
}
module_exit(kernel_verbs_exit);

MODULE_DESCRIPTION("Test: verbs that only the kernel has");
MODULE_LICENSE("GPL");
