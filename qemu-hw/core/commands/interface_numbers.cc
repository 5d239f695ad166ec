// SPDX-License-Identifier: GPL-2.0-or-later
// Checks at compile time that the core's numbers are those of the register interface, so that casts
// translate between them.
#include "base/access.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/event.h"
#include "base/qp_kinds.h"
#include "base/status.h"
#include "memory/on_demand.h"
#include "memory/page_list.h"
#include "memory/registration.h"
#include "pib_hca_hw.h"
#include "port/hca_sma.h"
#include "qp/qp_attributes.h"
#include "qp/qp_create.h"
#include "queues/completion.h"
#include "queues/queue_header.h"
#include "queues/work_queue.h"
#include "queues/wqe.h"

namespace pib::hca {
namespace {

template <typename A, typename B>
consteval bool same(A ours, B theirs) {
    return static_cast<uint64_t>(ours) == static_cast<uint64_t>(theirs);
}

// Statuses.
static_assert(same(CmdStatus::kOk, PIB_HCA_CMD_STATUS_OK));
static_assert(same(CmdStatus::kBadOpcode, PIB_HCA_CMD_STATUS_BAD_OPCODE));
static_assert(same(CmdStatus::kBadLength, PIB_HCA_CMD_STATUS_BAD_LENGTH));
static_assert(same(CmdStatus::kBadParam, PIB_HCA_CMD_STATUS_BAD_PARAM));
static_assert(same(CmdStatus::kBadReserved, PIB_HCA_CMD_STATUS_BAD_RESERVED));
static_assert(same(CmdStatus::kBadResource, PIB_HCA_CMD_STATUS_BAD_RESOURCE));
static_assert(same(CmdStatus::kBusy, PIB_HCA_CMD_STATUS_BUSY));
static_assert(same(CmdStatus::kNoResources, PIB_HCA_CMD_STATUS_NO_RESOURCES));
static_assert(same(CmdStatus::kBadState, PIB_HCA_CMD_STATUS_BAD_STATE));
static_assert(same(CmdStatus::kBadMemory, PIB_HCA_CMD_STATUS_BAD_MEMORY));
static_assert(same(CmdStatus::kNotSupported, PIB_HCA_CMD_STATUS_NOT_SUPPORTED));
static_assert(same(CmdStatus::kFatal, PIB_HCA_CMD_STATUS_FATAL));
static_assert(same(WcStatus::kSuccess, PIB_HCA_WC_SUCCESS));
static_assert(same(WcStatus::kLocLenErr, PIB_HCA_WC_LOC_LEN_ERR));
static_assert(same(WcStatus::kLocQpOpErr, PIB_HCA_WC_LOC_QP_OP_ERR));
static_assert(same(WcStatus::kLocProtErr, PIB_HCA_WC_LOC_PROT_ERR));
static_assert(same(WcStatus::kWrFlushErr, PIB_HCA_WC_WR_FLUSH_ERR));
static_assert(same(WcStatus::kMwBindErr, PIB_HCA_WC_MW_BIND_ERR));
static_assert(same(WcStatus::kBadRespErr, PIB_HCA_WC_BAD_RESP_ERR));
static_assert(same(WcStatus::kRemInvReqErr, PIB_HCA_WC_REM_INV_REQ_ERR));
static_assert(same(WcStatus::kRemAccessErr, PIB_HCA_WC_REM_ACCESS_ERR));
static_assert(same(WcStatus::kRemOpErr, PIB_HCA_WC_REM_OP_ERR));
static_assert(same(WcStatus::kRetryExcErr, PIB_HCA_WC_RETRY_EXC_ERR));
static_assert(same(WcStatus::kRnrRetryExcErr, PIB_HCA_WC_RNR_RETRY_EXC_ERR));
static_assert(same(WcStatus::kGeneralErr, PIB_HCA_WC_GENERAL_ERR));

// Events.
static_assert(same(Event::kCompletion, PIB_HCA_EVENT_COMPLETION));
static_assert(same(Event::kPathMigrated, PIB_HCA_EVENT_PATH_MIGRATED));
static_assert(same(Event::kCommEstablished, PIB_HCA_EVENT_COMM_ESTABLISHED));
static_assert(same(Event::kSqDrained, PIB_HCA_EVENT_SQ_DRAINED));
static_assert(same(Event::kCqError, PIB_HCA_EVENT_CQ_ERROR));
static_assert(same(Event::kQpFatal, PIB_HCA_EVENT_QP_FATAL));
static_assert(same(Event::kQpRequestError, PIB_HCA_EVENT_QP_REQUEST_ERROR));
static_assert(same(Event::kQpAccessError, PIB_HCA_EVENT_QP_ACCESS_ERROR));
static_assert(same(Event::kPathMigFailed, PIB_HCA_EVENT_PATH_MIG_FAILED));
static_assert(same(Event::kPort, PIB_HCA_EVENT_PORT));
static_assert(same(Event::kCommand, PIB_HCA_EVENT_COMMAND));
static_assert(same(Event::kDeviceFatal, PIB_HCA_EVENT_DEVICE_FATAL));
static_assert(same(Event::kSrqLimitReached, PIB_HCA_EVENT_SRQ_LIMIT_REACHED));
static_assert(same(Event::kSrqError, PIB_HCA_EVENT_SRQ_ERROR));
static_assert(same(Event::kLastWqeReached, PIB_HCA_EVENT_LAST_WQE_REACHED));
static_assert(same(Event::kPageFault, PIB_HCA_EVENT_PAGE_FAULT));
static_assert(same(port_event::kActive, PIB_HCA_PORT_EVENT_ACTIVE));
static_assert(same(port_event::kError, PIB_HCA_PORT_EVENT_ERROR));
static_assert(same(port_event::kLidChange, PIB_HCA_PORT_EVENT_LID_CHANGE));
static_assert(same(port_event::kPkeyChange, PIB_HCA_PORT_EVENT_PKEY_CHANGE));
static_assert(same(port_event::kSmChange, PIB_HCA_PORT_EVENT_SM_CHANGE));
static_assert(same(port_event::kClientReregister, PIB_HCA_PORT_EVENT_CLIENT_REREGISTER));
static_assert(same(port_event::kGidChange, PIB_HCA_PORT_EVENT_GID_CHANGE));

// Counters.
static_assert(same(HcaCounter::kDuplicateRequest, PIB_HCA_COUNTER_DUPLICATE_REQUEST));
static_assert(same(HcaCounter::kOutOfSequence, PIB_HCA_COUNTER_OUT_OF_SEQUENCE));
static_assert(same(HcaCounter::kRnrNakSent, PIB_HCA_COUNTER_RNR_NAK_SENT));
static_assert(same(HcaCounter::kRnrNakRetryErr, PIB_HCA_COUNTER_RNR_NAK_RETRY_ERR));
static_assert(same(HcaCounter::kPacketSeqErr, PIB_HCA_COUNTER_PACKET_SEQ_ERR));
static_assert(same(HcaCounter::kImpliedNakSeqErr, PIB_HCA_COUNTER_IMPLIED_NAK_SEQ_ERR));
static_assert(same(HcaCounter::kLocalAckTimeoutErr, PIB_HCA_COUNTER_LOCAL_ACK_TIMEOUT_ERR));
static_assert(same(HcaCounter::kRespLocalLengthError, PIB_HCA_COUNTER_RESP_LOCAL_LENGTH_ERROR));
static_assert(same(HcaCounter::kRespRemoteAccessErrors, PIB_HCA_COUNTER_RESP_REMOTE_ACCESS_ERRORS));
static_assert(same(HcaCounter::kReqRemoteAccessErrors, PIB_HCA_COUNTER_REQ_REMOTE_ACCESS_ERRORS));
static_assert(same(HcaCounter::kReqRemoteInvalidRequest,
                   PIB_HCA_COUNTER_REQ_REMOTE_INVALID_REQUEST));
static_assert(same(HcaCounter::kReqCqeError, PIB_HCA_COUNTER_REQ_CQE_ERROR));
static_assert(same(HcaCounter::kRespCqeError, PIB_HCA_COUNTER_RESP_CQE_ERROR));
static_assert(same(HcaCounter::kReqCqeFlushError, PIB_HCA_COUNTER_REQ_CQE_FLUSH_ERROR));
static_assert(same(HcaCounter::kRespCqeFlushError, PIB_HCA_COUNTER_RESP_CQE_FLUSH_ERROR));
static_assert(same(HcaCounter::kOutOfBuffer, PIB_HCA_COUNTER_OUT_OF_BUFFER));
static_assert(same(HcaCounter::kRxDropped, PIB_HCA_COUNTER_RX_DROPPED));
static_assert(same(HcaCounter::kTxPackets, PIB_HCA_COUNTER_TX_PACKETS));
static_assert(same(HcaCounter::kRxPackets, PIB_HCA_COUNTER_RX_PACKETS));
static_assert(same(HcaCounter::kTxBytes, PIB_HCA_COUNTER_TX_BYTES));
static_assert(same(HcaCounter::kRxBytes, PIB_HCA_COUNTER_RX_BYTES));
static_assert(same(HcaCounter::kRxWriteRequests, PIB_HCA_COUNTER_RX_WRITE_REQUESTS));
static_assert(same(HcaCounter::kRxReadRequests, PIB_HCA_COUNTER_RX_READ_REQUESTS));
static_assert(same(HcaCounter::kRxAtomicRequests, PIB_HCA_COUNTER_RX_ATOMIC_REQUESTS));
static_assert(same(HcaCounter::kForeignDoorbell, PIB_HCA_COUNTER_FOREIGN_DOORBELL));
static_assert(same(HcaCounter::kSendDoorbells, PIB_HCA_COUNTER_SEND_DOORBELLS));
static_assert(same(HcaCounter::kInterrupts, PIB_HCA_COUNTER_INTERRUPTS));

// Memory.
static_assert(same(access::kLocalWrite, PIB_HCA_ACCESS_LOCAL_WRITE));
static_assert(same(access::kRemoteWrite, PIB_HCA_ACCESS_REMOTE_WRITE));
static_assert(same(access::kRemoteRead, PIB_HCA_ACCESS_REMOTE_READ));
static_assert(same(access::kRemoteAtomic, PIB_HCA_ACCESS_REMOTE_ATOMIC));
static_assert(same(access::kMwBind, PIB_HCA_ACCESS_MW_BIND));
static_assert(same(access::kZeroBased, PIB_HCA_ACCESS_ZERO_BASED));
static_assert(same(access::kFlushGlobal, PIB_HCA_ACCESS_FLUSH_GLOBAL));
static_assert(same(access::kFlushPersistent, PIB_HCA_ACCESS_FLUSH_PERSISTENT));
static_assert(same(region_flag::kPhysical, PIB_HCA_MR_PHYSICAL));
static_assert(same(region_flag::kFast, PIB_HCA_MR_FAST));
static_assert(same(region_flag::kOnDemand, PIB_HCA_MR_ON_DEMAND));
static_assert(same(rereg_mask::kTranslation, PIB_HCA_REREG_MR_TRANSLATION));
static_assert(same(rereg_mask::kPd, PIB_HCA_REREG_MR_PD));
static_assert(same(rereg_mask::kAccess, PIB_HCA_REREG_MR_ACCESS));

// Queue pairs.
static_assert(same(QpType::kSmi, PIB_HCA_QP_SMI));
static_assert(same(QpType::kGsi, PIB_HCA_QP_GSI));
static_assert(same(QpType::kRc, PIB_HCA_QP_RC));
static_assert(same(QpType::kUc, PIB_HCA_QP_UC));
static_assert(same(QpType::kUd, PIB_HCA_QP_UD));
static_assert(same(QpType::kXrcIni, PIB_HCA_QP_XRC_INI));
static_assert(same(QpType::kXrcTgt, PIB_HCA_QP_XRC_TGT));
static_assert(same(QpState::kReset, PIB_HCA_QPS_RESET));
static_assert(same(QpState::kInit, PIB_HCA_QPS_INIT));
static_assert(same(QpState::kRtr, PIB_HCA_QPS_RTR));
static_assert(same(QpState::kRts, PIB_HCA_QPS_RTS));
static_assert(same(QpState::kSqd, PIB_HCA_QPS_SQD));
static_assert(same(QpState::kSqe, PIB_HCA_QPS_SQE));
static_assert(same(QpState::kErr, PIB_HCA_QPS_ERR));
static_assert(same(qp_flag::kSignalAll, PIB_HCA_QP_SIGNAL_ALL));
static_assert(same(qp_flag::kPrivileged, PIB_HCA_QP_PRIVILEGED));
static_assert(same(qp_flag::kNoRq, PIB_HCA_QP_NO_RQ));
static_assert(same(qp_flag::kNoSq, PIB_HCA_QP_NO_SQ));
static_assert(same(qp_flag::kSrq, PIB_HCA_QP_SRQ));
static_assert(same(PathMigration::kMigrated, PIB_HCA_MIG_MIGRATED));
static_assert(same(PathMigration::kRearm, PIB_HCA_MIG_REARM));
static_assert(same(PathMigration::kArmed, PIB_HCA_MIG_ARMED));
static_assert(same(qp_attr::kState, PIB_HCA_QP_ATTR_STATE));
static_assert(same(qp_attr::kCurState, PIB_HCA_QP_ATTR_CUR_STATE));
static_assert(same(qp_attr::kEnSqdAsyncNotify, PIB_HCA_QP_ATTR_EN_SQD_ASYNC_NOTIFY));
static_assert(same(qp_attr::kAccessFlags, PIB_HCA_QP_ATTR_ACCESS_FLAGS));
static_assert(same(qp_attr::kPkeyIndex, PIB_HCA_QP_ATTR_PKEY_INDEX));
static_assert(same(qp_attr::kPort, PIB_HCA_QP_ATTR_PORT));
static_assert(same(qp_attr::kQkey, PIB_HCA_QP_ATTR_QKEY));
static_assert(same(qp_attr::kAv, PIB_HCA_QP_ATTR_AV));
static_assert(same(qp_attr::kPathMtu, PIB_HCA_QP_ATTR_PATH_MTU));
static_assert(same(qp_attr::kTimeout, PIB_HCA_QP_ATTR_TIMEOUT));
static_assert(same(qp_attr::kRetryCnt, PIB_HCA_QP_ATTR_RETRY_CNT));
static_assert(same(qp_attr::kRnrRetry, PIB_HCA_QP_ATTR_RNR_RETRY));
static_assert(same(qp_attr::kRqPsn, PIB_HCA_QP_ATTR_RQ_PSN));
static_assert(same(qp_attr::kMaxQpRdAtomic, PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC));
static_assert(same(qp_attr::kAltPath, PIB_HCA_QP_ATTR_ALT_PATH));
static_assert(same(qp_attr::kMinRnrTimer, PIB_HCA_QP_ATTR_MIN_RNR_TIMER));
static_assert(same(qp_attr::kSqPsn, PIB_HCA_QP_ATTR_SQ_PSN));
static_assert(same(qp_attr::kMaxDestRdAtomic, PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC));
static_assert(same(qp_attr::kPathMigState, PIB_HCA_QP_ATTR_PATH_MIG_STATE));
static_assert(same(qp_attr::kCap, PIB_HCA_QP_ATTR_CAP));
static_assert(same(qp_attr::kDestQpn, PIB_HCA_QP_ATTR_DEST_QPN));

// Work requests and completions.
static_assert(same(SendOpcode::kSend, PIB_HCA_WQE_SEND));
static_assert(same(SendOpcode::kSendWithImm, PIB_HCA_WQE_SEND_WITH_IMM));
static_assert(same(SendOpcode::kRdmaWrite, PIB_HCA_WQE_RDMA_WRITE));
static_assert(same(SendOpcode::kRdmaWriteWithImm, PIB_HCA_WQE_RDMA_WRITE_WITH_IMM));
static_assert(same(SendOpcode::kRdmaRead, PIB_HCA_WQE_RDMA_READ));
static_assert(same(SendOpcode::kCmpSwap, PIB_HCA_WQE_CMP_SWAP));
static_assert(same(SendOpcode::kFetchAdd, PIB_HCA_WQE_FETCH_ADD));
static_assert(same(SendOpcode::kSendWithInv, PIB_HCA_WQE_SEND_WITH_INV));
static_assert(same(SendOpcode::kLocalInv, PIB_HCA_WQE_LOCAL_INV));
static_assert(same(SendOpcode::kBindMw, PIB_HCA_WQE_BIND_MW));
static_assert(same(SendOpcode::kRegMr, PIB_HCA_WQE_REG_MR));
static_assert(same(SendOpcode::kFlush, PIB_HCA_WQE_FLUSH));
static_assert(same(SendOpcode::kAtomicWrite, PIB_HCA_WQE_ATOMIC_WRITE));
static_assert(same(SendOpcode::kMaskedCmpSwap, PIB_HCA_WQE_MASKED_CMP_SWAP));
static_assert(same(SendOpcode::kMaskedFetchAdd, PIB_HCA_WQE_MASKED_FETCH_ADD));
static_assert(same(send_flag::kSignaled, PIB_HCA_WQE_SIGNALED));
static_assert(same(send_flag::kSolicited, PIB_HCA_WQE_SOLICITED));
static_assert(same(send_flag::kFence, PIB_HCA_WQE_FENCE));
static_assert(same(CompletionOpcode::kSend, PIB_HCA_CQE_SEND));
static_assert(same(CompletionOpcode::kRdmaWrite, PIB_HCA_CQE_RDMA_WRITE));
static_assert(same(CompletionOpcode::kRdmaRead, PIB_HCA_CQE_RDMA_READ));
static_assert(same(CompletionOpcode::kCmpSwap, PIB_HCA_CQE_CMP_SWAP));
static_assert(same(CompletionOpcode::kFetchAdd, PIB_HCA_CQE_FETCH_ADD));
static_assert(same(CompletionOpcode::kLocalInv, PIB_HCA_CQE_LOCAL_INV));
static_assert(same(CompletionOpcode::kBindMw, PIB_HCA_CQE_BIND_MW));
static_assert(same(CompletionOpcode::kRegMr, PIB_HCA_CQE_REG_MR));
static_assert(same(CompletionOpcode::kFlush, PIB_HCA_CQE_FLUSH));
static_assert(same(CompletionOpcode::kAtomicWrite, PIB_HCA_CQE_ATOMIC_WRITE));
static_assert(same(CompletionOpcode::kMaskedCmpSwap, PIB_HCA_CQE_MASKED_CMP_SWAP));
static_assert(same(CompletionOpcode::kMaskedFetchAdd, PIB_HCA_CQE_MASKED_FETCH_ADD));
static_assert(same(CompletionOpcode::kRecv, PIB_HCA_CQE_RECV));
static_assert(same(CompletionOpcode::kRecvRdmaWithImm, PIB_HCA_CQE_RECV_RDMA_WITH_IMM));
static_assert(same(completion_flag::kGrh, PIB_HCA_CQE_FLAG_GRH));
static_assert(same(completion_flag::kImm, PIB_HCA_CQE_FLAG_IMM));
static_assert(same(completion_flag::kSolicited, PIB_HCA_CQE_FLAG_SOLICITED));
static_assert(same(completion_flag::kInvalidated, PIB_HCA_CQE_FLAG_INVALIDATED));
static_assert(same(completion_flag::kSrq, PIB_HCA_CQE_FLAG_SRQ));

// Limits and identities.
static_assert(same(kCounters, PIB_HCA_COUNTER_COUNT));
static_assert(same(kMaxPorts, PIB_HCA_MAX_PORTS));
static_assert(same(kMaxVectors, PIB_HCA_MAX_VECTORS));
static_assert(same(kFirstQpn, PIB_HCA_FIRST_QPN));
static_assert(same(special_qpn(2, true), PIB_HCA_SPECIAL_QPN(2, true)));
static_assert(same(special_qpn(4, false), PIB_HCA_SPECIAL_QPN(4, false)));
static_assert(same(kTableEntries, PIB_HCA_TABLE_ENTRIES));
static_assert(same(kMinLogPageSize, PIB_HCA_MIN_LOG_PAGE_SIZE));
static_assert(same(kMaxLogPageSize, PIB_HCA_MAX_LOG_PAGE_SIZE));
static_assert(same(kMaxTableLevels, PIB_HCA_MAX_TABLE_LEVELS));
static_assert(same(kMaxOnDemandLevels, PIB_HCA_MAX_ON_DEMAND_LEVELS));
static_assert(same(kOnDemandRead, PIB_HCA_ON_DEMAND_READ));
static_assert(same(kOnDemandWrite, PIB_HCA_ON_DEMAND_WRITE));
static_assert(same(kKeyIndexShift, PIB_HCA_KEY_INDEX_SHIFT));
static_assert(same(kWindowType1, PIB_HCA_MW_TYPE_1));
static_assert(same(kWindowType2, PIB_HCA_MW_TYPE_2));
static_assert(same(kMaxWqLogDepth, PIB_HCA_MAX_WQ_LOG_DEPTH));
static_assert(same(kMaxLogWqeStride, PIB_HCA_MAX_LOG_WQE_STRIDE));
static_assert(same(kMinLogSqStride, PIB_HCA_MIN_LOG_SQ_STRIDE));
static_assert(same(kMinLogRqStride, PIB_HCA_MIN_LOG_RQ_STRIDE));
static_assert(same(kQueueHeaderBytes, PIB_HCA_QUEUE_HEADER_SIZE));
static_assert(same(kDeviceId, PIB_HCA_PCI_DEVICE_ID));
static_assert(same(kHardwareRevision, PIB_HCA_PCI_REVISION));

}  // namespace
}  // namespace pib::hca
