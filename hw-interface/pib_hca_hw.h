/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The programming interface of the pib-hca device. pib_hca_regs.h has PCI identity, registers and
 * doorbells, pib_hca_cmd.h the command queue; this file has memory, queues and their entries, and
 * the structures of the commands about them. docs/device-spec.md describes the same interface in
 * prose; the two change in one commit, together with the device, the driver and the provider.
 *
 * Everything is little-endian except fields with the remark "wire order": those bytes (GIDs, GUIDs,
 * MADs, immediate data) are copied between memory and packets unchanged. Software writes reserved
 * fields as zero, and the device refuses other values.
 */
#ifndef PIB_HCA_HW_H
#define PIB_HCA_HW_H

#include <linux/types.h>

#include "pib_hca_cmd.h"
#include "pib_hca_regs.h"

/* ---------------------------------------------------------------- buffers -------------------- */
/*
 * A list of pages of guest memory. levels 0: root is the bus address of page_count contiguous pages.
 * levels 1: root is the address of a table page, 512 page addresses. levels 2 and 3: tables of tables.
 * Table pages are 4 KiB and hold little-endian 64-bit bus addresses. The device reads them once,
 * while it executes the command or the REG_MR WQE; tables of an on-demand region, at each access.
 * Pages are 2^log_page_size bytes, aligned to their size, 12 <= log_page_size <= 30.
 */
struct pib_hca_pages {
	__le64 root;
	__le32 page_count;
	__u8 levels;
	__u8 log_page_size;
	__le16 reserved;
};
PIB_HCA_ASSERT_SIZE(pib_hca_pages, 16);

#define PIB_HCA_TABLE_ENTRIES 512
#define PIB_HCA_MAX_TABLE_LEVELS 3
#define PIB_HCA_MIN_LOG_PAGE_SIZE 12
#define PIB_HCA_MAX_LOG_PAGE_SIZE 30

/* First 64 bytes of a QP's buffer. Counters run freely modulo 2^32; entry = counter mod depth. */
struct pib_hca_qp_header {
	__le32 sq_producer; /* written by software */
	__le32 rq_producer; /* written by software */
	__le32 flags;       /* written by the device: PIB_HCA_QP_HEADER_* */
	__le32 reserved[13];
};
PIB_HCA_ASSERT_SIZE(pib_hca_qp_header, 64);
/* The QP is in Error and flushes: software rings PIB_HCA_UAR_RECV after rq_producer moves. */
#define PIB_HCA_QP_HEADER_RECV_NOTIFY (1u << 0)

/* First 64 bytes of a CQ's buffer; the CQEs follow. */
struct pib_hca_cq_header {
	__le32 consumer; /* CQEs consumed, modulo 2^32; written by software */
	__le32 reserved[15];
};
PIB_HCA_ASSERT_SIZE(pib_hca_cq_header, 64);
/* First 64 bytes of a shared receive queue's buffer. */
struct pib_hca_srq_header {
	__le32 producer; /* WQEs posted, modulo 2^32; written by software */
	__le32 reserved[15];
};
PIB_HCA_ASSERT_SIZE(pib_hca_srq_header, 64);
#define PIB_HCA_QUEUE_HEADER_SIZE 64

/* ---------------------------------------------------------------- memory regions ------------- */

/* Access rights; the values of enum ib_access_flags. */
#define PIB_HCA_ACCESS_LOCAL_WRITE (1u << 0)
#define PIB_HCA_ACCESS_REMOTE_WRITE (1u << 1)
#define PIB_HCA_ACCESS_REMOTE_READ (1u << 2)
#define PIB_HCA_ACCESS_REMOTE_ATOMIC (1u << 3)
#define PIB_HCA_ACCESS_MW_BIND (1u << 4)   /* regions: windows may be bound to it */
#define PIB_HCA_ACCESS_ZERO_BASED (1u << 5) /* windows: addresses count from the first byte */
#define PIB_HCA_ACCESS_FLUSH_GLOBAL (1u << 8)
#define PIB_HCA_ACCESS_FLUSH_PERSISTENT (1u << 9)

struct pib_hca_create_mr {
	__le32 pd;
	__le32 access; /* PIB_HCA_ACCESS_*; 0 with PIB_HCA_MR_FAST */
	__le64 iova;   /* address of the first byte in WQEs and RETHs */
	__le64 length; /* bytes */
	struct pib_hca_pages pages; /* PHYSICAL: 0; FAST: 0 except for page_count, the limit */
	__le32 page_offset; /* offset of the first byte in the first page */
	__u8 key;           /* low byte of the key */
	__u8 flags;         /* PIB_HCA_MR_* */
	__u8 reserved[2];
};
PIB_HCA_ASSERT_SIZE(pib_hca_create_mr, 48);
#define PIB_HCA_MR_PHYSICAL (1u << 0) /* addresses are bus addresses: a kernel's DMA MR */
#define PIB_HCA_MR_FAST (1u << 1)     /* Free state, until PIB_HCA_WQE_REG_MR gives it memory */
/*
 * `pages` are tables that software keeps: root, levels, log_page_size 12, page_count 0. An entry is
 * the bus address of a page or table, ORed with the bits below. Software may change it at any time.
 */
#define PIB_HCA_MR_ON_DEMAND (1u << 2)
#define PIB_HCA_MAX_ON_DEMAND_LEVELS 4
#define PIB_HCA_ON_DEMAND_READ (1u << 0)  /* clear: the page, or all below the table, is absent */
#define PIB_HCA_ON_DEMAND_WRITE (1u << 1) /* page: writable */
struct pib_hca_page_fault {
	__le64 addr;   /* first absent byte, in the region's address space */
	__le64 length; /* bytes from there on that the access needs; 0: no further QP waits */
	__le32 key;    /* key of the region */
	__le32 qpn;
	__le32 flags; /* PIB_HCA_PAGE_FAULT_* */
	__le32 reserved;
};
PIB_HCA_ASSERT_SIZE(pib_hca_page_fault, 32);
#define PIB_HCA_PAGE_FAULT_RESPONDER (1u << 0) /* set: the responder waits; clear: the requester */
#define PIB_HCA_PAGE_FAULT_WRITE (1u << 1)
#define PIB_HCA_PAGE_FAULT_REFUSED (1u << 2) /* there will be no page, so the access fails */

struct pib_hca_resume_page_fault {
	__le32 flags; /* PIB_HCA_PAGE_FAULT_RESPONDER, PIB_HCA_PAGE_FAULT_REFUSED */
	__le32 reserved;
};
PIB_HCA_ASSERT_SIZE(pib_hca_resume_page_fault, 8);

/* Fields outside the mask are ignored and stay unchanged; mr.key always applies. */
struct pib_hca_rereg_mr {
	struct pib_hca_create_mr mr; /* flags 0 */
	__le32 mask;                 /* PIB_HCA_REREG_MR_*, not 0 */
	__le32 reserved;
};
PIB_HCA_ASSERT_SIZE(pib_hca_rereg_mr, 56);
/* Values of enum ib_mr_rereg_flags. */
#define PIB_HCA_REREG_MR_TRANSLATION (1u << 0) /* iova, length, pages, page_offset */
#define PIB_HCA_REREG_MR_PD (1u << 1)
#define PIB_HCA_REREG_MR_ACCESS (1u << 2)

struct pib_hca_alloc_mw {
	__le32 pd;
	__u8 type; /* PIB_HCA_MW_TYPE_* */
	__u8 key;  /* low byte of the key */
	__u8 reserved[10];
};
PIB_HCA_ASSERT_SIZE(pib_hca_alloc_mw, 16);
#define PIB_HCA_MW_TYPE_1 1 /* values of enum ib_mw_type */
#define PIB_HCA_MW_TYPE_2 2 /* 2B: bound to a QP */

/* Keys: 31:8 index, 7:0 key byte. */
#define PIB_HCA_KEY_INDEX_SHIFT 8

/* ---------------------------------------------------------------- event queues --------------- */

struct pib_hca_create_eq {
	struct pib_hca_pages pages;
	__le32 vector;   /* MSI-X vector */
	__u8 log_depth;  /* 1..16 */
	__u8 flags;      /* PIB_HCA_EQ_* */
	__u8 reserved[10];
};
PIB_HCA_ASSERT_SIZE(pib_hca_create_eq, 32);
#define PIB_HCA_EQ_ASYNC (1u << 0) /* gets all events that are not completions; at most one EQ */
#define PIB_HCA_MAX_EQ_LOG_DEPTH 16

struct pib_hca_eqe {
	__u8 type; /* PIB_HCA_EVENT_* */
	__u8 port; /* PORT: 1..4 */
	__le16 reserved;
	__le32 number; /* CQN, QPN, SRQN or command id */
	__le32 data;   /* PORT: PIB_HCA_PORT_EVENT_*; CQ_ERROR: syndrome; DEVICE_FATAL: its cause */
	__u8 reserved2[3];
	__u8 owner; /* as in pib_hca_cmd_cpl */
};
PIB_HCA_ASSERT_SIZE(pib_hca_eqe, 16);

enum pib_hca_event {
	PIB_HCA_EVENT_COMPLETION = 0x00,
	PIB_HCA_EVENT_PATH_MIGRATED = 0x01,
	PIB_HCA_EVENT_COMM_ESTABLISHED = 0x02,
	PIB_HCA_EVENT_SQ_DRAINED = 0x03,
	PIB_HCA_EVENT_CQ_ERROR = 0x04,
	PIB_HCA_EVENT_QP_FATAL = 0x05,
	PIB_HCA_EVENT_QP_REQUEST_ERROR = 0x06,
	PIB_HCA_EVENT_QP_ACCESS_ERROR = 0x07,
	PIB_HCA_EVENT_PATH_MIG_FAILED = 0x08,
	PIB_HCA_EVENT_PORT = 0x09,
	PIB_HCA_EVENT_COMMAND = 0x0a, /* number: id of a command that completed */
	PIB_HCA_EVENT_DEVICE_FATAL = 0x0b,
	PIB_HCA_EVENT_SRQ_LIMIT_REACHED = 0x0c,
	PIB_HCA_EVENT_SRQ_ERROR = 0x0d,
	PIB_HCA_EVENT_LAST_WQE_REACHED = 0x0e,
	PIB_HCA_EVENT_PAGE_FAULT = 0x0f, /* PIB_HCA_CMD_QUERY_PAGE_FAULT has a fault to report */
};

/* Several may be set in one event. */
#define PIB_HCA_PORT_EVENT_ACTIVE (1u << 0)
#define PIB_HCA_PORT_EVENT_ERROR (1u << 1) /* the port has left the state Active */
#define PIB_HCA_PORT_EVENT_LID_CHANGE (1u << 2)
#define PIB_HCA_PORT_EVENT_PKEY_CHANGE (1u << 3)
#define PIB_HCA_PORT_EVENT_SM_CHANGE (1u << 4)
#define PIB_HCA_PORT_EVENT_CLIENT_REREGISTER (1u << 5)
#define PIB_HCA_PORT_EVENT_GID_CHANGE (1u << 6)

/* ---------------------------------------------------------------- completion queues ---------- */

struct pib_hca_create_cq {
	struct pib_hca_pages pages; /* header, then 2^log_depth CQEs */
	__le32 eqn;                 /* EQ of its completion events */
	__le32 uar;                 /* UAR page that may arm it */
	__u8 log_depth;             /* 0..22 */
	__u8 reserved[7];
};
PIB_HCA_ASSERT_SIZE(pib_hca_create_cq, 32);
#define PIB_HCA_MAX_CQ_LOG_DEPTH 22

struct pib_hca_resize_cq {
	struct pib_hca_pages pages; /* the new buffer, zeroed */
	__u8 log_depth;
	__u8 reserved[15];
};
PIB_HCA_ASSERT_SIZE(pib_hca_resize_cq, 32);

struct pib_hca_cqe {
	__le32 qpn;       /* the QP, as numbered by CREATE_QP */
	__le32 wqe_counter; /* counter of the WQE in its queue; of an SRQ: the WQE's id */
	__le32 byte_count; /* received, read or atomically exchanged bytes */
	__be32 imm_data;  /* wire order; with PIB_HCA_CQE_FLAG_INVALIDATED the R_Key, an __le32 */
	__le32 src_qp;    /* UD: the sender's QPN */
	__le16 slid;      /* UD */
	__le16 pkey_index; /* GSI */
	__u8 opcode;      /* PIB_HCA_CQE_* */
	__u8 status;      /* PIB_HCA_WC_* */
	__u8 vendor_error; /* more detail, documented in device-spec.md */
	__u8 flags;       /* PIB_HCA_CQE_FLAG_* */
	__u8 sl;          /* UD */
	__u8 dlid_path_bits; /* UD */
	__u8 port;        /* UD: ingress port */
	__u8 reserved;
	__le64 timestamp; /* device clock when the completion was written, nanoseconds */
	__le32 srqn;      /* with PIB_HCA_CQE_FLAG_SRQ: the SRQ that had the WQE */
	__u8 reserved2[19];
	__u8 owner; /* as in pib_hca_cmd_cpl */
};
PIB_HCA_ASSERT_SIZE(pib_hca_cqe, 64);

#define PIB_HCA_CQE_FLAG_GRH (1u << 0) /* the first 40 bytes of the buffer hold a GRH */
#define PIB_HCA_CQE_FLAG_IMM (1u << 1)
#define PIB_HCA_CQE_FLAG_SOLICITED (1u << 2)
#define PIB_HCA_CQE_FLAG_INVALIDATED (1u << 3) /* imm_data is the R_Key that the message invalidated */
#define PIB_HCA_CQE_FLAG_SRQ (1u << 4) /* the WQE belonged to a shared receive queue */

enum pib_hca_cqe_opcode {
	PIB_HCA_CQE_SEND = 0x00,
	PIB_HCA_CQE_RDMA_WRITE = 0x01,
	PIB_HCA_CQE_RDMA_READ = 0x02,
	PIB_HCA_CQE_CMP_SWAP = 0x03,
	PIB_HCA_CQE_FETCH_ADD = 0x04,
	PIB_HCA_CQE_LOCAL_INV = 0x05,
	PIB_HCA_CQE_BIND_MW = 0x06,
	PIB_HCA_CQE_REG_MR = 0x07,
	PIB_HCA_CQE_FLUSH = 0x08,
	PIB_HCA_CQE_ATOMIC_WRITE = 0x09,
	PIB_HCA_CQE_MASKED_CMP_SWAP = 0x0a,
	PIB_HCA_CQE_MASKED_FETCH_ADD = 0x0b,
	PIB_HCA_CQE_RECV = 0x80, /* bit 7: a receive queue's completion */
	PIB_HCA_CQE_RECV_RDMA_WITH_IMM = 0x81,
};
#define PIB_HCA_CQE_IS_RECV 0x80

/* Completion statuses; the values of enum ib_wc_status (IBA vol. 1, 11.6.2). */
enum pib_hca_wc_status {
	PIB_HCA_WC_SUCCESS = 0,
	PIB_HCA_WC_LOC_LEN_ERR = 1,
	PIB_HCA_WC_LOC_QP_OP_ERR = 2,
	PIB_HCA_WC_LOC_PROT_ERR = 4,
	PIB_HCA_WC_WR_FLUSH_ERR = 5,
	PIB_HCA_WC_MW_BIND_ERR = 6,
	PIB_HCA_WC_BAD_RESP_ERR = 7,
	PIB_HCA_WC_LOC_ACCESS_ERR = 8,
	PIB_HCA_WC_REM_INV_REQ_ERR = 9,
	PIB_HCA_WC_REM_ACCESS_ERR = 10,
	PIB_HCA_WC_REM_OP_ERR = 11,
	PIB_HCA_WC_RETRY_EXC_ERR = 12,
	PIB_HCA_WC_RNR_RETRY_EXC_ERR = 13,
	PIB_HCA_WC_REM_ABORT_ERR = 16,
	PIB_HCA_WC_FATAL_ERR = 19,
	PIB_HCA_WC_GENERAL_ERR = 21,
};

/* ---------------------------------------------------------------- shared receive queues ------ */

struct pib_hca_create_srq {
	struct pib_hca_pages pages; /* header, then 2^log_depth WQEs at their offset */
	__le32 pd;
	__le32 flags;  /* PIB_HCA_SRQ_* */
	__le32 offset; /* bytes from the start of the buffer, a multiple of 64, 64..1024 */
	__u8 log_depth;  /* 0..14 */
	__u8 log_stride; /* log2 of the WQE size in bytes, 5..10 */
	__u8 reserved[2];
	__le32 xrcd; /* with PIB_HCA_SRQ_XRC */
	__le32 cq;   /* with PIB_HCA_SRQ_XRC: CQ of its completions */
	__u8 reserved2[8];
};
PIB_HCA_ASSERT_SIZE(pib_hca_create_srq, 48);
#define PIB_HCA_SRQ_PRIVILEGED (1u << 0) /* its WQEs may use the privileged L_Key */
#define PIB_HCA_SRQ_XRC (1u << 1)        /* for XRC target QPs of the domain, not for other QPs */

struct pib_hca_modify_srq {
	__le32 attr_mask; /* PIB_HCA_SRQ_ATTR_* */
	__le32 limit;     /* event when fewer WQEs than this wait; 0: none */
	struct pib_hca_pages pages; /* MAX_WR: the new buffer */
	__u8 log_depth;             /* MAX_WR */
	__u8 reserved[7];
};
PIB_HCA_ASSERT_SIZE(pib_hca_modify_srq, 32);
#define PIB_HCA_SRQ_ATTR_MAX_WR (1u << 0) /* values of enum ib_srq_attr_mask */
#define PIB_HCA_SRQ_ATTR_LIMIT (1u << 1)

struct pib_hca_query_srq {
	__le32 limit;   /* 0: not set, or the limit has been reached */
	__le32 waiting; /* posted WQEs that no message has taken */
	__u8 log_depth;
	__u8 is_error;
	__u8 reserved[6];
};
PIB_HCA_ASSERT_SIZE(pib_hca_query_srq, 16);

/* ---------------------------------------------------------------- queue pairs ---------------- */

enum pib_hca_qp_type {
	PIB_HCA_QP_SMI = 0, /* values of enum ib_qp_type */
	PIB_HCA_QP_GSI = 1,
	PIB_HCA_QP_RC = 2,
	PIB_HCA_QP_UC = 3,
	PIB_HCA_QP_UD = 4,
	PIB_HCA_QP_XRC_INI = 9, /* requester only */
	PIB_HCA_QP_XRC_TGT = 10, /* responder only */
};

/* Special QPs have the fixed numbers 2*(port-1) (SMI) and 2*(port-1)+1 (GSI); on the wire 0 and 1. */
#define PIB_HCA_SPECIAL_QPN(port, is_gsi) (2u * ((port)-1u) + ((is_gsi) ? 1u : 0u))
#define PIB_HCA_FIRST_QPN 0x40

struct pib_hca_create_qp {
	struct pib_hca_pages pages; /* header, then the send and receive queue at their offsets */
	__le32 pd;
	__le32 send_cq;
	__le32 recv_cq;
	__le32 uar;
	__le32 sq_offset; /* bytes from the start of the buffer, multiples of 64, >= 64 */
	__le32 rq_offset;
	__le32 flags; /* PIB_HCA_QP_* */
	__le32 max_inline; /* bytes, <= (1 << log_sq_stride) - 64 */
	__u8 type;  /* enum pib_hca_qp_type */
	__u8 port;  /* SMI and GSI: 1..; otherwise 0 */
	__u8 log_sq_depth; /* 0..14 */
	__u8 log_rq_depth; /* 0..14 */
	__u8 log_sq_stride; /* log2 of the WQE size in bytes, 6..10 */
	__u8 log_rq_stride; /* likewise, 5..10 */
	__u8 reserved[2];
	__le32 srq; /* with PIB_HCA_QP_SRQ */
	__le32 xrcd; /* XRC_TGT */
};
PIB_HCA_ASSERT_SIZE(pib_hca_create_qp, 64);
#define PIB_HCA_QP_SIGNAL_ALL (1u << 0)
#define PIB_HCA_QP_PRIVILEGED (1u << 1) /* may use the privileged L_Key */
#define PIB_HCA_QP_NO_RQ (1u << 2)      /* no receive queue; log_rq_* and rq_offset are 0 */
#define PIB_HCA_QP_NO_SQ (1u << 3)
#define PIB_HCA_QP_SRQ (1u << 4) /* receives from `srq`; requires PIB_HCA_QP_NO_RQ */
#define PIB_HCA_MAX_WQ_LOG_DEPTH 14
#define PIB_HCA_MIN_LOG_SQ_STRIDE 6
#define PIB_HCA_MIN_LOG_RQ_STRIDE 5
#define PIB_HCA_MAX_LOG_WQE_STRIDE 10

enum pib_hca_qp_state { /* values of enum ib_qp_state */
	PIB_HCA_QPS_RESET = 0,
	PIB_HCA_QPS_INIT = 1,
	PIB_HCA_QPS_RTR = 2,
	PIB_HCA_QPS_RTS = 3,
	PIB_HCA_QPS_SQD = 4,
	PIB_HCA_QPS_SQE = 5,
	PIB_HCA_QPS_ERR = 6,
};

/* An address vector (IBA vol. 1, 11.2.2.1). */
struct pib_hca_av {
	__le16 dlid;
	__u8 sl;            /* 0..15 */
	__u8 port;          /* UD: must be the QP's port; RC: 0 */
	__u8 src_path_bits; /* low LMC bits of the source LID */
	__u8 static_rate;   /* 0: port rate, otherwise the encoding of PathRecord:Rate */
	__u8 flags;         /* PIB_HCA_AV_GRH */
	__u8 sgid_index;
	__le32 flow_label; /* 19:0 */
	__u8 traffic_class;
	__u8 hop_limit;
	__u8 reserved[2];
	__u8 dgid[16]; /* wire order */
};
PIB_HCA_ASSERT_SIZE(pib_hca_av, 32);
#define PIB_HCA_AV_GRH (1u << 0)

/* Attributes of MODIFY_QP; the mask bits have the values of enum ib_qp_attr_mask. */
#define PIB_HCA_QP_ATTR_STATE (1u << 0)
#define PIB_HCA_QP_ATTR_CUR_STATE (1u << 1)
#define PIB_HCA_QP_ATTR_EN_SQD_ASYNC_NOTIFY (1u << 2)
#define PIB_HCA_QP_ATTR_ACCESS_FLAGS (1u << 3)
#define PIB_HCA_QP_ATTR_PKEY_INDEX (1u << 4)
#define PIB_HCA_QP_ATTR_PORT (1u << 5)
#define PIB_HCA_QP_ATTR_QKEY (1u << 6)
#define PIB_HCA_QP_ATTR_AV (1u << 7)
#define PIB_HCA_QP_ATTR_PATH_MTU (1u << 8)
#define PIB_HCA_QP_ATTR_TIMEOUT (1u << 9)
#define PIB_HCA_QP_ATTR_RETRY_CNT (1u << 10)
#define PIB_HCA_QP_ATTR_RNR_RETRY (1u << 11)
#define PIB_HCA_QP_ATTR_RQ_PSN (1u << 12)
#define PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC (1u << 13)
#define PIB_HCA_QP_ATTR_ALT_PATH (1u << 14)
#define PIB_HCA_QP_ATTR_MIN_RNR_TIMER (1u << 15)
#define PIB_HCA_QP_ATTR_SQ_PSN (1u << 16)
#define PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC (1u << 17)
#define PIB_HCA_QP_ATTR_PATH_MIG_STATE (1u << 18)
#define PIB_HCA_QP_ATTR_CAP (1u << 19)
#define PIB_HCA_QP_ATTR_DEST_QPN (1u << 20)

/* Path migration states (IBA vol. 1, 17.2.8); values of enum ib_mig_state. */
#define PIB_HCA_MIG_MIGRATED 0
#define PIB_HCA_MIG_REARM 1
#define PIB_HCA_MIG_ARMED 2

struct pib_hca_modify_qp {
	__le32 attr_mask; /* QUERY_QP returns 0 */
	__u8 state;       /* wanted (MODIFY) or present (QUERY) */
	__u8 cur_state;   /* checked only with PIB_HCA_QP_ATTR_CUR_STATE */
	__u8 path_mtu;    /* 1: 256 ... 5: 4096 */
	__u8 path_mig_state; /* 0 migrated, 1 rearm, 2 armed */
	__le32 qkey;
	__le32 rq_psn;
	__le32 sq_psn;
	__le32 dest_qpn;
	__le32 access_flags;
	__le16 pkey_index;
	__le16 alt_pkey_index;
	struct pib_hca_av av;
	struct pib_hca_av alt_av;
	__u8 port;
	__u8 alt_port;
	__u8 timeout;     /* Local ACK Timeout: 4.096 us * 2^n, 0: none */
	__u8 alt_timeout;
	__u8 retry_cnt;   /* 0..7 */
	__u8 rnr_retry;   /* 0..7, 7: for ever */
	__u8 min_rnr_timer; /* 0..31, IBA vol. 1, 9.7.5.2.8 */
	__u8 max_rd_atomic;      /* as requester */
	__u8 max_dest_rd_atomic; /* as responder */
	__u8 en_sqd_async_notify;
	__u8 sq_draining; /* QUERY: state is SQD and the queue has not drained yet */
	__u8 reserved;
	__le32 reserved2[2];
};
PIB_HCA_ASSERT_SIZE(pib_hca_modify_qp, 116);

struct pib_hca_mcast {
	__u8 mgid[16]; /* wire order */
	__le16 mlid;   /* 0xc000..0xfffe */
	__u8 reserved[6];
};
PIB_HCA_ASSERT_SIZE(pib_hca_mcast, 24);

/* ---------------------------------------------------------------- work queue elements -------- */

struct pib_hca_sge {
	__le64 addr;
	__le32 length; /* bytes; 0 is zero bytes */
	__le32 lkey;
};
PIB_HCA_ASSERT_SIZE(pib_hca_sge, 16);

enum pib_hca_wqe_opcode {
	PIB_HCA_WQE_SEND = 0x00,
	PIB_HCA_WQE_SEND_WITH_IMM = 0x01,
	PIB_HCA_WQE_RDMA_WRITE = 0x02,
	PIB_HCA_WQE_RDMA_WRITE_WITH_IMM = 0x03,
	PIB_HCA_WQE_RDMA_READ = 0x04,
	PIB_HCA_WQE_CMP_SWAP = 0x05,
	PIB_HCA_WQE_FETCH_ADD = 0x06,
	PIB_HCA_WQE_SEND_WITH_INV = 0x07,
	PIB_HCA_WQE_LOCAL_INV = 0x08,
	PIB_HCA_WQE_BIND_MW = 0x09,
	PIB_HCA_WQE_REG_MR = 0x0a,
	PIB_HCA_WQE_FLUSH = 0x0b,
	PIB_HCA_WQE_ATOMIC_WRITE = 0x0c,
	PIB_HCA_WQE_MASKED_CMP_SWAP = 0x0d,
	PIB_HCA_WQE_MASKED_FETCH_ADD = 0x0e,
};

#define PIB_HCA_WQE_SIGNALED (1u << 0)
#define PIB_HCA_WQE_SOLICITED (1u << 1)
#define PIB_HCA_WQE_FENCE (1u << 2)
#define PIB_HCA_WQE_INLINE (1u << 3) /* inline_length bytes in place of the SGEs */

/*
 * A send WQE has at most 1 << log_sq_stride bytes: the control segment, then what its opcode needs
 * (rdma, atomic; ud on a datagram QP), then num_sge SGEs or inline data. Sizes, offsets in bytes:
 *   RC SEND               control | data at 16
 *   RC RDMA WRITE, READ   control | rdma 16   | data at 32
 *   RC atomics            control | atomic 48 | SGEs of 8 bytes in all at 64
 *   RC FLUSH              control | flush 32
 *   RC ATOMIC WRITE       control | rdma 16   | 8 bytes of data at 32, inline or of SGEs
 *   RC LOCAL_INV          control | key 16
 *   RC BIND_MW            control | bind 32
 *   RC REG_MR             control | reg 48
 *   UD SEND               control | ud 48     | data at 64
 */
struct pib_hca_wqe_control {
	__u8 opcode;
	__u8 flags;
	__u8 num_sge; /* 0 with PIB_HCA_WQE_INLINE */
	__u8 reserved;
	__be32 imm_data; /* wire order; SEND_WITH_INV: the R_Key, an __le32 */
	__le32 inline_length;
	__le32 srqn; /* XRC_INI: the shared receive queue at the destination; otherwise 0 */
};
PIB_HCA_ASSERT_SIZE(pib_hca_wqe_control, 16);

struct pib_hca_wqe_rdma {
	__le64 remote_addr;
	__le32 rkey;
	__le32 reserved;
};
PIB_HCA_ASSERT_SIZE(pib_hca_wqe_rdma, 16);

struct pib_hca_wqe_atomic {
	__le64 remote_addr;
	__le32 rkey;
	__le32 reserved;
	__le64 swap_or_add;
	__le64 compare;
	/* 0 except in masked atomics; a masked FETCH_ADD uses only compare_mask. */
	__le64 swap_mask;
	__le64 compare_mask;
};
PIB_HCA_ASSERT_SIZE(pib_hca_wqe_atomic, 48);

/* FLUSH (IBA vol. 1, annex A19) */
struct pib_hca_wqe_flush {
	__le64 remote_addr;
	__le32 rkey;
	__le32 length; /* bytes; 0 with PIB_HCA_FLUSH_REGION */
	__u8 placement; /* PIB_HCA_FLUSH_GLOBAL, PIB_HCA_FLUSH_PERSISTENT, or both */
	__u8 level;     /* PIB_HCA_FLUSH_RANGE or PIB_HCA_FLUSH_REGION */
	__u8 reserved[14];
};
PIB_HCA_ASSERT_SIZE(pib_hca_wqe_flush, 32);
/* Values of enum ib_placement_type and enum ib_selectivity_level. */
#define PIB_HCA_FLUSH_GLOBAL (1u << 0)
#define PIB_HCA_FLUSH_PERSISTENT (1u << 1)
#define PIB_HCA_FLUSH_RANGE 0
#define PIB_HCA_FLUSH_REGION 1

/* LOCAL_INV (IBA vol. 1, 10.6.7.3.3) */
struct pib_hca_wqe_key {
	__le32 key;
	__le32 reserved[3];
};
PIB_HCA_ASSERT_SIZE(pib_hca_wqe_key, 16);

/* BIND_MW (IBA vol. 1, 10.6.7.2) */
struct pib_hca_wqe_bind {
	__le32 rkey;   /* the window's index and a new key byte, other than the old one */
	__le32 lkey;   /* L_Key of the region */
	__le32 access; /* PIB_HCA_ACCESS_* */
	__le32 reserved;
	__le64 addr;   /* the window's first byte, in the region's address space */
	__le64 length; /* bytes; 0 unbinds a window of type 1, and the other fields are ignored */
};
PIB_HCA_ASSERT_SIZE(pib_hca_wqe_bind, 32);

/* REG_MR, on QPs with PIB_HCA_QP_PRIVILEGED (IBA vol. 1, 11.4.1.1) */
struct pib_hca_wqe_reg {
	__le32 key; /* the region's index and its new key byte */
	__le32 access;
	__le64 iova;
	__le64 length;
	struct pib_hca_pages pages; /* the device reads its tables when it executes the WQE */
	__le32 page_offset;
	__le32 reserved;
};
PIB_HCA_ASSERT_SIZE(pib_hca_wqe_reg, 48);

struct pib_hca_wqe_ud {
	struct pib_hca_av av;
	__le32 dest_qpn;
	__le32 qkey; /* bit 31 set: use the QP's own Q_Key (IBA vol. 1, 10.2.5) */
	__le16 pkey_index; /* GSI: P_Key to send with; otherwise 0 */
	__u8 reserved[6];
};
PIB_HCA_ASSERT_SIZE(pib_hca_wqe_ud, 48);

struct pib_hca_recv_wqe {
	__le32 num_sge;
	__le32 id; /* SRQ: chosen by software, returned in the CQE; otherwise 0 */
	__le32 reserved[2];
	/* num_sge struct pib_hca_sge follow */
};
PIB_HCA_ASSERT_SIZE(pib_hca_recv_wqe, 16);

#endif /* PIB_HCA_HW_H */
