// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Counters under hw_counters in sysfs and in `rdma statistic`, with the names that tools use. */
#include "pib_hca.h"

static const struct rdma_stat_desc pib_hca_stats[PIB_HCA_COUNTER_COUNT] = {
	[PIB_HCA_COUNTER_DUPLICATE_REQUEST].name = "duplicate_request",
	[PIB_HCA_COUNTER_OUT_OF_SEQUENCE].name = "out_of_sequence",
	[PIB_HCA_COUNTER_RNR_NAK_SENT].name = "rnr_nak_sent",
	[PIB_HCA_COUNTER_RNR_NAK_RETRY_ERR].name = "rnr_nak_retry_err",
	[PIB_HCA_COUNTER_PACKET_SEQ_ERR].name = "packet_seq_err",
	[PIB_HCA_COUNTER_IMPLIED_NAK_SEQ_ERR].name = "implied_nak_seq_err",
	[PIB_HCA_COUNTER_LOCAL_ACK_TIMEOUT_ERR].name = "local_ack_timeout_err",
	[PIB_HCA_COUNTER_RESP_LOCAL_LENGTH_ERROR].name = "resp_local_length_error",
	[PIB_HCA_COUNTER_RESP_REMOTE_ACCESS_ERRORS].name = "resp_remote_access_errors",
	[PIB_HCA_COUNTER_REQ_REMOTE_ACCESS_ERRORS].name = "req_remote_access_errors",
	[PIB_HCA_COUNTER_REQ_REMOTE_INVALID_REQUEST].name = "req_remote_invalid_request",
	[PIB_HCA_COUNTER_REQ_CQE_ERROR].name = "req_cqe_error",
	[PIB_HCA_COUNTER_RESP_CQE_ERROR].name = "resp_cqe_error",
	[PIB_HCA_COUNTER_REQ_CQE_FLUSH_ERROR].name = "req_cqe_flush_error",
	[PIB_HCA_COUNTER_RESP_CQE_FLUSH_ERROR].name = "resp_cqe_flush_error",
	[PIB_HCA_COUNTER_OUT_OF_BUFFER].name = "out_of_buffer",
	[PIB_HCA_COUNTER_RX_DROPPED].name = "rx_dropped",
	[PIB_HCA_COUNTER_TX_PACKETS].name = "tx_packets",
	[PIB_HCA_COUNTER_RX_PACKETS].name = "rx_packets",
	[PIB_HCA_COUNTER_TX_BYTES].name = "tx_bytes",
	[PIB_HCA_COUNTER_RX_BYTES].name = "rx_bytes",
	[PIB_HCA_COUNTER_RX_WRITE_REQUESTS].name = "rx_write_requests",
	[PIB_HCA_COUNTER_RX_READ_REQUESTS].name = "rx_read_requests",
	[PIB_HCA_COUNTER_RX_ATOMIC_REQUESTS].name = "rx_atomic_requests",
	[PIB_HCA_COUNTER_FOREIGN_DOORBELL].name = "foreign_doorbell",
	[PIB_HCA_COUNTER_SEND_DOORBELLS].name = "send_doorbells",
	[PIB_HCA_COUNTER_INTERRUPTS].name = "interrupts",
};

struct rdma_hw_stats *pib_hca_alloc_device_stats(struct ib_device *ibdev)
{
	return rdma_alloc_hw_stats_struct(pib_hca_stats, PIB_HCA_COUNTER_COUNT,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

struct rdma_hw_stats *pib_hca_alloc_port_stats(struct ib_device *ibdev, u32 port)
{
	return rdma_alloc_hw_stats_struct(pib_hca_stats, PIB_HCA_COUNTER_PORT_COUNT,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

int pib_hca_get_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index)
{
	__le64 counters[PIB_HCA_COUNTER_COUNT];
	int i, ret;

	ret = pib_hca_cmd_query(to_pdev(ibdev), PIB_HCA_CMD_QUERY_COUNTERS, port, counters,
				sizeof(counters));
	if (ret)
		return ret;
	for (i = 0; i < stats->num_counters; i++)
		stats->value[i] = le64_to_cpu(counters[i]);
	return stats->num_counters;
}
