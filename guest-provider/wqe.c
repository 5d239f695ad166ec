// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The operations that a QP has, by its transport service (IBA vol. 1, table 81), and their WQEs. */
#include <config.h>

#include <errno.h>

#include "wqe.h"

#define PIB_RC_DATA_OFFSET sizeof(struct pib_hca_wqe_control)
#define PIB_RDMA_DATA_OFFSET (PIB_RC_DATA_OFFSET + sizeof(struct pib_hca_wqe_rdma))
#define PIB_ATOMIC_DATA_OFFSET (PIB_RC_DATA_OFFSET + sizeof(struct pib_hca_wqe_atomic))
#define PIB_UD_DATA_OFFSET (PIB_RC_DATA_OFFSET + sizeof(struct pib_hca_wqe_ud))

#define PIB_SEND_OP(_opcode, _segment, _offset, _imm, _inline)                        \
	{                                                                             \
		.supported = true, .opcode = PIB_HCA_WQE_##_opcode,                   \
		.segment = PIB_SEGMENT_##_segment, .data_offset = (_offset),          \
		.has_imm = (_imm), .may_inline = (_inline),                           \
	}

#define PIB_RELIABLE_OP(_opcode, _segment, _offset, _inline)                          \
	{                                                                             \
		.supported = true, .opcode = PIB_HCA_WQE_##_opcode,                   \
		.segment = PIB_SEGMENT_##_segment, .data_offset = (_offset),          \
		.may_inline = (_inline), .needs_reliability = true,                   \
	}

#define PIB_KEY_OP(_opcode, _segment)                                                  \
	{                                                                             \
		.supported = true, .opcode = PIB_HCA_WQE_##_opcode,                   \
		.segment = PIB_SEGMENT_##_segment, .no_data = true,                   \
	}

static const struct pib_send_op pib_connected_ops[] = {
	[IBV_WR_SEND] = PIB_SEND_OP(SEND, NONE, PIB_RC_DATA_OFFSET, false, true),
	[IBV_WR_SEND_WITH_IMM] =
		PIB_SEND_OP(SEND_WITH_IMM, NONE, PIB_RC_DATA_OFFSET, true, true),
	[IBV_WR_RDMA_WRITE] =
		PIB_SEND_OP(RDMA_WRITE, RDMA, PIB_RDMA_DATA_OFFSET, false, true),
	[IBV_WR_RDMA_WRITE_WITH_IMM] =
		PIB_SEND_OP(RDMA_WRITE_WITH_IMM, RDMA, PIB_RDMA_DATA_OFFSET, true, true),
	[IBV_WR_RDMA_READ] =
		PIB_RELIABLE_OP(RDMA_READ, RDMA, PIB_RDMA_DATA_OFFSET, false),
	[IBV_WR_ATOMIC_CMP_AND_SWP] =
		PIB_RELIABLE_OP(CMP_SWAP, ATOMIC, PIB_ATOMIC_DATA_OFFSET, false),
	[IBV_WR_ATOMIC_FETCH_AND_ADD] =
		PIB_RELIABLE_OP(FETCH_ADD, ATOMIC, PIB_ATOMIC_DATA_OFFSET, false),
#ifdef PIB_HAVE_ATOMIC_WRITE
	[IBV_WR_ATOMIC_WRITE] =
		PIB_RELIABLE_OP(ATOMIC_WRITE, RDMA, PIB_RDMA_DATA_OFFSET, true),
#endif
#ifdef PIB_HAVE_FLUSH
	[IBV_WR_FLUSH] = {
		.supported = true, .opcode = PIB_HCA_WQE_FLUSH,
		.segment = PIB_SEGMENT_FLUSH, .no_data = true, .needs_reliability = true,
	},
#endif
	[IBV_WR_LOCAL_INV] = PIB_KEY_OP(LOCAL_INV, KEY),
	[IBV_WR_BIND_MW] = PIB_KEY_OP(BIND_MW, BIND),
	[IBV_WR_SEND_WITH_INV] =
		PIB_RELIABLE_OP(SEND_WITH_INV, NONE, PIB_RC_DATA_OFFSET, true),
};

static const struct pib_send_op pib_ud_ops[] = {
	[IBV_WR_SEND] = PIB_SEND_OP(SEND, UD, PIB_UD_DATA_OFFSET, false, true),
	[IBV_WR_SEND_WITH_IMM] =
		PIB_SEND_OP(SEND_WITH_IMM, UD, PIB_UD_DATA_OFFSET, true, true),
};

const struct pib_send_op *pib_find_send_op(enum ibv_qp_type type, enum ibv_wr_opcode opcode)
{
	const struct pib_send_op *ops = type == IBV_QPT_UD ? pib_ud_ops : pib_connected_ops;
	size_t count = type == IBV_QPT_UD ? ARRAY_SIZE(pib_ud_ops) : ARRAY_SIZE(pib_connected_ops);

	if (opcode >= count || !ops[opcode].supported)
		return NULL;
	/* IBA table 81: UC has no operation that needs a response or an acknowledgement. */
	if (type == IBV_QPT_UC && ops[opcode].needs_reliability)
		return NULL;
	return &ops[opcode];
}

#define PIB_SEND_FLAGS                                                                 \
	(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE)

int pib_wqe_put_control(void *wqe, const struct pib_send_op *op, unsigned int send_flags,
			__be32 imm_data)
{
	struct pib_hca_wqe_control *control = wqe;

	if (send_flags & ~PIB_SEND_FLAGS)
		return EINVAL;
	if ((send_flags & IBV_SEND_INLINE) && !op->may_inline)
		return EINVAL;

	/* pib_wqe_set_inline() sets INLINE together with the length. */
	memset(control, 0, sizeof(*control));
	control->opcode = op->opcode;
	control->flags = (send_flags & IBV_SEND_SIGNALED ? PIB_HCA_WQE_SIGNALED : 0) |
			 (send_flags & IBV_SEND_SOLICITED ? PIB_HCA_WQE_SOLICITED : 0) |
			 (send_flags & IBV_SEND_FENCE ? PIB_HCA_WQE_FENCE : 0);
	if (op->has_imm)
		control->imm_data = imm_data;
	return 0;
}
