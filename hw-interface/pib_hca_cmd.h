/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The command queue of the pib-hca device: entries, statuses and opcodes, and the structures of
 * commands about device and ports. A part of pib_hca_hw.h, which has the conventions and the
 * structures of commands about objects.
 */
#ifndef PIB_HCA_CMD_H
#define PIB_HCA_CMD_H

#include <linux/types.h>

#ifdef __cplusplus
#define PIB_HCA_ASSERT_SIZE(type, bytes) static_assert(sizeof(struct type) == (bytes), #type)
#else
#define PIB_HCA_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
#endif

/* ---------------------------------------------------------------- command queue -------------- */

struct pib_hca_cmd {
	__le16 opcode;     /* PIB_HCA_CMD_* */
	__le16 id;         /* chosen by software, returned in the completion */
	__le32 object;     /* number or key of the object, port number, or 0 */
	__le64 in_addr;    /* bus address of the input structure, or 0 */
	__le64 out_addr;   /* bus address of the output structure, or 0 */
	__le32 in_length;  /* bytes, at least the length of the command's input, <= 4096 */
	__le32 out_length; /* bytes of room for the output structure, <= 4096 */
	__le32 modifier;   /* per command, otherwise 0 */
	__le32 reserved[7];
};
PIB_HCA_ASSERT_SIZE(pib_hca_cmd, 64);

struct pib_hca_cmd_cpl {
	__le32 result;     /* created object's number, or defined per opcode; refused: the rule */
	__le32 out_length; /* bytes of the output; at most out_length of the command are written */
	__le16 id; /* id of the command */
	__u8 status; /* PIB_HCA_CMD_STATUS_* */
	__u8 reserved[4];
	__u8 owner; /* bit 0: 1 in the first pass over the ring, then 0, and so on; written last */
};
PIB_HCA_ASSERT_SIZE(pib_hca_cmd_cpl, 16);

#define PIB_HCA_CMD_MAX_LENGTH 4096
#define PIB_HCA_CMDQ_MAX_LOG_DEPTH 8
#define PIB_HCA_OWNER_BIT 0x01

enum pib_hca_cmd_status {
	PIB_HCA_CMD_STATUS_OK = 0x00,
	PIB_HCA_CMD_STATUS_BAD_OPCODE = 0x01,    /* unknown or not supported */
	PIB_HCA_CMD_STATUS_BAD_LENGTH = 0x02,    /* in_length or out_length */
	PIB_HCA_CMD_STATUS_BAD_PARAM = 0x03,     /* a field's value is out of range */
	PIB_HCA_CMD_STATUS_BAD_RESERVED = 0x04,  /* a reserved field or flag is not zero */
	PIB_HCA_CMD_STATUS_BAD_RESOURCE = 0x05,  /* a named object does not exist */
	PIB_HCA_CMD_STATUS_BUSY = 0x06,          /* the object is still in use by others */
	PIB_HCA_CMD_STATUS_NO_RESOURCES = 0x07,  /* a limit of QUERY_DEVICE is reached */
	PIB_HCA_CMD_STATUS_BAD_STATE = 0x08,     /* not allowed in the object's state */
	PIB_HCA_CMD_STATUS_BAD_MEMORY = 0x09,    /* an address is not readable or writable guest RAM */
	PIB_HCA_CMD_STATUS_NOT_SUPPORTED = 0x0a, /* known, but this device does not offer it */
	PIB_HCA_CMD_STATUS_FATAL = 0x0b,         /* the device has stopped */
};

enum pib_hca_cmd_opcode {
	PIB_HCA_CMD_NOP = 0x00,
	PIB_HCA_CMD_QUERY_DEVICE = 0x01,  /* out: pib_hca_query_device */
	PIB_HCA_CMD_MODIFY_DEVICE = 0x02, /* in: pib_hca_modify_device */
	PIB_HCA_CMD_QUERY_PORT = 0x03,    /* object: port; out: pib_hca_query_port */
	PIB_HCA_CMD_MODIFY_PORT = 0x04,   /* object: port; in: pib_hca_modify_port */
	PIB_HCA_CMD_QUERY_PKEYS = 0x05,   /* object: port; out: __le16[pkey_table_length] */
	PIB_HCA_CMD_QUERY_GIDS = 0x06,    /* object: port; out: 16 bytes in wire order per entry */
	PIB_HCA_CMD_MAD_IFC = 0x07,       /* object: port; in: pib_hca_mad_ifc; out: the 256-byte MAD */
	PIB_HCA_CMD_QUERY_COUNTERS = 0x08, /* out: __le64[PIB_HCA_COUNTER_COUNT] */
	PIB_HCA_CMD_ALLOC_UAR = 0x10,     /* result: UAR page number */
	PIB_HCA_CMD_FREE_UAR = 0x11,      /* object: UAR */
	PIB_HCA_CMD_ALLOC_PD = 0x12,      /* result: PD number */
	PIB_HCA_CMD_FREE_PD = 0x13,       /* object: PD */
	PIB_HCA_CMD_ALLOC_XRCD = 0x14,    /* result: XRC domain number */
	PIB_HCA_CMD_FREE_XRCD = 0x15,     /* object: XRC domain */
	PIB_HCA_CMD_SET_SHADOW_PAGE = 0x16, /* object: UAR; in: pib_hca_set_shadow_page */
	PIB_HCA_CMD_CREATE_MR = 0x20,     /* in: pib_hca_create_mr; result: L_Key = R_Key */
	PIB_HCA_CMD_DESTROY_MR = 0x21,    /* object: key */
	PIB_HCA_CMD_ALLOC_MW = 0x22,      /* in: pib_hca_alloc_mw; result: R_Key */
	PIB_HCA_CMD_DEALLOC_MW = 0x23,    /* object: R_Key; its key byte is ignored */
	PIB_HCA_CMD_REREG_MR = 0x24,      /* object: key; in: pib_hca_rereg_mr; result: the new key */
	PIB_HCA_CMD_QUERY_PAGE_FAULT = 0x25,  /* out: pib_hca_page_fault */
	PIB_HCA_CMD_RESUME_PAGE_FAULT = 0x26, /* object: QPN; in: pib_hca_resume_page_fault */
	PIB_HCA_CMD_CREATE_EQ = 0x30,     /* in: pib_hca_create_eq; result: EQN */
	PIB_HCA_CMD_DESTROY_EQ = 0x31,    /* object: EQN */
	PIB_HCA_CMD_CREATE_CQ = 0x40,     /* in: pib_hca_create_cq; result: CQN */
	PIB_HCA_CMD_DESTROY_CQ = 0x41,    /* object: CQN */
	PIB_HCA_CMD_RESIZE_CQ = 0x42,     /* object: CQN; in: pib_hca_resize_cq */
	PIB_HCA_CMD_CREATE_SRQ = 0x48,    /* in: pib_hca_create_srq; result: SRQN */
	PIB_HCA_CMD_MODIFY_SRQ = 0x49,    /* object: SRQN; in: pib_hca_modify_srq */
	PIB_HCA_CMD_QUERY_SRQ = 0x4a,     /* object: SRQN; out: pib_hca_query_srq */
	PIB_HCA_CMD_DESTROY_SRQ = 0x4b,   /* object: SRQN */
	PIB_HCA_CMD_CREATE_QP = 0x50,     /* in: pib_hca_create_qp; result: QP number */
	PIB_HCA_CMD_MODIFY_QP = 0x51,     /* object: QPN; in: pib_hca_modify_qp */
	PIB_HCA_CMD_QUERY_QP = 0x52,      /* object: QPN; out: pib_hca_modify_qp */
	PIB_HCA_CMD_DESTROY_QP = 0x53,    /* object: QPN */
	PIB_HCA_CMD_ATTACH_MCAST = 0x58,  /* object: QPN; in: pib_hca_mcast */
	PIB_HCA_CMD_DETACH_MCAST = 0x59,  /* object: QPN; in: pib_hca_mcast */
	PIB_HCA_CMD_QUERY_EQ = 0x60,      /* object: EQN; out: pib_hca_query_eq */
	PIB_HCA_CMD_QUERY_CQ = 0x61,      /* object: CQN; out: pib_hca_query_cq */
	PIB_HCA_CMD_QUERY_KEY = 0x62,     /* object: key; out: pib_hca_query_key */
	PIB_HCA_CMD_QUERY_QP_PROGRESS = 0x63, /* object: QPN; out: pib_hca_query_qp_progress */
	PIB_HCA_CMD_INJECT_EVENT = 0x64,  /* object: number; in: pib_hca_inject_event */
	PIB_HCA_CMD_MODERATE_CQ = 0x65,   /* object: CQN; in: pib_hca_moderate_cq */
	PIB_HCA_CMD_QUERY_REFUSAL = 0x66, /* object: 0 for the last one; out: pib_hca_refusal */
};

/* ---------------------------------------------------------------- device and ports ----------- */

struct pib_hca_query_device {
	__u8 node_guid[8];      /* wire order */
	__u8 sys_image_guid[8]; /* wire order */
	__u8 node_description[64];
	__le64 fw_version; /* major 47:32, minor 31:16, sub-minor 15:0 */
	__le64 max_mr_size;
	__le64 page_size_cap; /* bit n: pages of 2^n bytes */
	__le64 feature_flags; /* PIB_HCA_FEATURE_* */
	__le32 vendor_id;     /* 24-bit OUI */
	__le32 vendor_part_id;
	__le32 hw_version;
	__le32 max_qp;
	__le32 max_qp_wr; /* entries in one send or receive queue */
	__le32 max_sge;   /* per send or receive WQE */
	__le32 max_sge_rd;
	__le32 max_inline_data;
	__le32 max_cq;
	__le32 max_cqe;
	__le32 max_mr;
	__le32 max_pd;
	__le32 max_eq;
	__le32 max_uar;
	__le32 max_mcast_grp;
	__le32 max_mcast_qp_attach;
	__le32 max_total_mcast_qp_attach;
	__le32 max_qp_rd_atom;      /* outstanding READs and atomics per QP as responder */
	__le32 max_qp_init_rd_atom; /* as requester */
	__le32 max_res_rd_atom;
	__le32 max_pkeys;
	__le32 max_msg_size;
	__le32 privileged_lkey; /* L_Key that means bus addresses, for QPs with PIB_HCA_QP_PRIVILEGED */
	__u8 port_count;
	__u8 local_ca_ack_delay;
	__u8 reserved[2];
	__le32 max_mw;             /* windows; they and regions together are at most max_mr */
	__le32 max_fast_reg_pages; /* in one PIB_HCA_MR_FAST region */
	__le32 max_srq;
	__le32 max_srq_wr; /* entries in one shared receive queue */
	__le32 max_srq_sge;
	__le32 max_xrcd;
	__le32 device_memory_pages; /* pages of 4 KiB at PIB_HCA_DEVICE_MEMORY_OFFSET of BAR2; 0: none */
	__le32 reserved2;
};
PIB_HCA_ASSERT_SIZE(pib_hca_query_device, 240);

/* FAST regions, LOCAL_INV, REG_MR and SEND_WITH_INV: the base memory management extensions. */
#define PIB_HCA_FEATURE_MEM_MGT_EXTENSIONS (1ull << 0)
#define PIB_HCA_FEATURE_MW_TYPE_1 (1ull << 1)
#define PIB_HCA_FEATURE_MW_TYPE_2B (1ull << 2)
#define PIB_HCA_FEATURE_FLUSH_GLOBAL (1ull << 3)     /* FLUSH to global visibility */
#define PIB_HCA_FEATURE_FLUSH_PERSISTENT (1ull << 4) /* FLUSH to persistence */
#define PIB_HCA_FEATURE_ATOMIC_WRITE (1ull << 5)
#define PIB_HCA_FEATURE_MASKED_ATOMICS (1ull << 6)
#define PIB_HCA_FEATURE_ON_DEMAND (1ull << 7) /* regions with PIB_HCA_MR_ON_DEMAND */
#define PIB_HCA_FEATURE_INJECT (1ull << 16) /* INJECT_EVENT */
#define PIB_HCA_FEATURE_SHADOW_DOORBELLS (1ull << 18) /* SET_SHADOW_PAGE, UAR_KICK */
#define PIB_HCA_FEATURE_APM (1ull << 17)    /* alternate paths */
#define PIB_HCA_FEATURE_REFUSALS (1ull << 19) /* QUERY_REFUSAL */

struct pib_hca_modify_device {
	__le32 mask; /* PIB_HCA_MODIFY_DEVICE_* */
	__le32 reserved;
	__u8 sys_image_guid[8]; /* wire order */
	__u8 node_description[64];
};
PIB_HCA_ASSERT_SIZE(pib_hca_modify_device, 80);
#define PIB_HCA_MODIFY_DEVICE_SYS_IMAGE_GUID (1u << 0)
#define PIB_HCA_MODIFY_DEVICE_NODE_DESC (1u << 1)

/* Values of state, phys_state, mtu, width and speed are those of PortInfo (IBA vol. 1, table 146). */
struct pib_hca_query_port {
	__u8 port_guid[8]; /* wire order */
	__u8 gid_prefix[8]; /* wire order */
	__le32 capability_mask;
	__le32 max_msg_size;
	__le32 bad_pkey_count;
	__le32 qkey_violation_count;
	__le16 lid;
	__le16 sm_lid;
	__le16 pkey_table_length;
	__le16 gid_table_length;
	__u8 state;
	__u8 phys_state;
	__u8 lmc;
	__u8 sm_sl;
	__u8 max_mtu;
	__u8 active_mtu; /* NeighborMTU */
	__u8 max_vl_count; /* PortInfo:VLCap encoding */
	__u8 init_type_reply;
	__u8 subnet_timeout;
	__u8 active_width;
	__u8 active_speed;     /* LinkSpeedActive: 1 SDR, 2 DDR, 4 QDR */
	__u8 active_speed_ext; /* LinkSpeedExtActive: 0 none, 1 FDR, 2 EDR, 4 HDR, 8 NDR */
	__le16 capability_mask2;
	__u8 reserved[2];
};
PIB_HCA_ASSERT_SIZE(pib_hca_query_port, 56);

struct pib_hca_modify_port {
	__le32 set_capability_mask;   /* bits of PortInfo:CapabilityMask; IsSM, IsDM, IsCM, ... */
	__le32 clear_capability_mask;
	__le32 flags; /* PIB_HCA_MODIFY_PORT_* */
	__le32 reserved;
};
PIB_HCA_ASSERT_SIZE(pib_hca_modify_port, 16);
#define PIB_HCA_MODIFY_PORT_RESET_QKEY_COUNT (1u << 0)

/*
 * Passes a MAD that software has received, or is about to send to this port, to the port's SMA or
 * PMA. result: PIB_HCA_MAD_RESULT_*. The other fields are the receive completion's, for the M_Key
 * and source checks; all zero (and slid 0xffff) for a locally generated MAD.
 */
struct pib_hca_mad_ifc {
	__u8 mad[256]; /* wire order */
	__le32 src_qp;
	__le16 slid;
	__le16 pkey_index;
	__u8 sl;
	__u8 flags; /* PIB_HCA_MAD_IFC_* */
	__u8 reserved[6];
};
PIB_HCA_ASSERT_SIZE(pib_hca_mad_ifc, 272);
#define PIB_HCA_MAD_IFC_IGNORE_MKEY (1u << 0)
#define PIB_HCA_MAD_IFC_IGNORE_BKEY (1u << 1)
#define PIB_HCA_MAD_RESULT_SUCCESS (1u << 0)  /* the SMA or PMA has handled the MAD */
#define PIB_HCA_MAD_RESULT_REPLY (1u << 1)    /* out holds the response */
#define PIB_HCA_MAD_RESULT_CONSUMED (1u << 2) /* the MAD is finished */

/* ---------------------------------------------------------------- counters ------------------- */

/*
 * QUERY_COUNTERS of a port, or of the whole device (object 0): events since reset, by the
 * names that the driver shows in hw_counters.
 */
enum pib_hca_counter {
	PIB_HCA_COUNTER_DUPLICATE_REQUEST,
	PIB_HCA_COUNTER_OUT_OF_SEQUENCE,
	PIB_HCA_COUNTER_RNR_NAK_SENT,
	PIB_HCA_COUNTER_RNR_NAK_RETRY_ERR,
	PIB_HCA_COUNTER_PACKET_SEQ_ERR,
	PIB_HCA_COUNTER_IMPLIED_NAK_SEQ_ERR,
	PIB_HCA_COUNTER_LOCAL_ACK_TIMEOUT_ERR,
	PIB_HCA_COUNTER_RESP_LOCAL_LENGTH_ERROR,
	PIB_HCA_COUNTER_RESP_REMOTE_ACCESS_ERRORS,
	PIB_HCA_COUNTER_REQ_REMOTE_ACCESS_ERRORS,
	PIB_HCA_COUNTER_REQ_REMOTE_INVALID_REQUEST,
	PIB_HCA_COUNTER_REQ_CQE_ERROR,
	PIB_HCA_COUNTER_RESP_CQE_ERROR,
	PIB_HCA_COUNTER_REQ_CQE_FLUSH_ERROR,
	PIB_HCA_COUNTER_RESP_CQE_FLUSH_ERROR,
	PIB_HCA_COUNTER_OUT_OF_BUFFER,
	PIB_HCA_COUNTER_RX_DROPPED,         /* packets dropped silently as the transport demands */
	PIB_HCA_COUNTER_TX_PACKETS,
	PIB_HCA_COUNTER_RX_PACKETS,
	PIB_HCA_COUNTER_TX_BYTES,
	PIB_HCA_COUNTER_RX_BYTES,
	PIB_HCA_COUNTER_RX_WRITE_REQUESTS,  /* messages begun at the responder */
	PIB_HCA_COUNTER_RX_READ_REQUESTS,
	PIB_HCA_COUNTER_RX_ATOMIC_REQUESTS,
	/* counters of the whole device: 0 in queries of a port */
	PIB_HCA_COUNTER_PORT_COUNT,
	PIB_HCA_COUNTER_FOREIGN_DOORBELL = PIB_HCA_COUNTER_PORT_COUNT, /* ignored doorbells (manual 8.2) */
	PIB_HCA_COUNTER_SEND_DOORBELLS,
	PIB_HCA_COUNTER_INTERRUPTS,
	PIB_HCA_COUNTER_COUNT,
};

/* ---------------------------------------------------------------- for tools and testers ------ */

/* Counters count modulo 2^32, as those in the rings' headers do. */
struct pib_hca_query_eq {
	__le32 producer;
	__le32 consumer; /* value of the last doorbell */
	__le32 vector;
	__le32 users; /* CQs that use the EQ */
	__u8 log_depth;
	__u8 flags; /* PIB_HCA_EQ_* */
	__u8 armed;
	__u8 reserved[13];
};
PIB_HCA_ASSERT_SIZE(pib_hca_query_eq, 32);

struct pib_hca_query_cq {
	__le32 producer;
	__le32 consumer; /* value last read from the header, which may be newer */
	__le32 eqn;
	__le32 uar;
	__le32 users; /* send and receive queues of QPs, and SRQs, that complete to the CQ */
	__u8 log_depth;
	__u8 armed; /* PIB_HCA_CQ_ARMED_* */
	__u8 error; /* 1: overrun, or its memory is no longer guest RAM */
	__u8 reserved;
	__le16 moderation_count; /* as MODERATE_CQ has set it */
	__le16 moderation_period; /* likewise, microseconds */
	__u8 reserved2[4];
};
PIB_HCA_ASSERT_SIZE(pib_hca_query_cq, 32);

/*
 * MODERATE_CQ: the device delays an event until this many completions are written or this time is
 * over; both 0: no delay.
 */
struct pib_hca_moderate_cq {
	__le16 count;  /* completions; 0: no such limit */
	__le16 period; /* microseconds; 0: no such limit */
	__u8 reserved[4];
};
PIB_HCA_ASSERT_SIZE(pib_hca_moderate_cq, 8);
#define PIB_HCA_CQ_ARMED_NONE 0
#define PIB_HCA_CQ_ARMED_SOLICITED 1
#define PIB_HCA_CQ_ARMED_NEXT 2

struct pib_hca_query_key {
	__le32 key; /* the present one, key byte included */
	__le32 pd;
	__le64 addr; /* iova of a region; start of a bound window */
	__le64 length;
	__le32 access; /* PIB_HCA_ACCESS_* */
	__u8 kind;     /* PIB_HCA_KEY_* */
	__u8 valid;    /* region: not in the Free state; window: bound */
	__u8 reserved[10];
};
PIB_HCA_ASSERT_SIZE(pib_hca_query_key, 40);
#define PIB_HCA_KEY_REGION 0
#define PIB_HCA_KEY_PHYSICAL 1
#define PIB_HCA_KEY_FAST 2
#define PIB_HCA_KEY_WINDOW_1 3
#define PIB_HCA_KEY_WINDOW_2 4
#define PIB_HCA_KEY_ON_DEMAND 5

struct pib_hca_query_qp_progress {
	__le32 sq_producer;
	__le32 sq_consumer; /* WQEs copied by the device; in_window of them have not completed */
	__le32 rq_producer;
	__le32 rq_consumer;
	__le32 una;      /* oldest PSN that is not acknowledged */
	__le32 sent_end; /* first PSN that was never sent */
	__le32 next_psn; /* first PSN without a WQE */
	__le32 expected_psn;
	__le32 msn;
	__le32 in_window;
	__u8 retries_left;
	__u8 rnr_retries_left;
	__u8 rd_outstanding; /* READs and atomics */
	__u8 timer;          /* PIB_HCA_QP_TIMER_* */
	__le32 reserved[5];
};
PIB_HCA_ASSERT_SIZE(pib_hca_query_qp_progress, 64);
#define PIB_HCA_QP_TIMER_NONE 0
#define PIB_HCA_QP_TIMER_ACK 1
#define PIB_HCA_QP_TIMER_RNR 2

struct pib_hca_inject_event {
	__u8 type; /* PIB_HCA_EVENT_*, not COMPLETION and not COMMAND */
	__u8 port; /* PORT: 1..; else 0 */
	__le16 reserved;
	__le32 data; /* PORT: PIB_HCA_PORT_EVENT_*; else 0 */
};
PIB_HCA_ASSERT_SIZE(pib_hca_inject_event, 8);

/*
 * QUERY_REFUSAL: the reason for one of the last refusals. Rules have numbers in
 * docs/device-spec.md: section 23:16, subsection 15:8, rule 7:0. Offsets are in bytes.
 */
struct pib_hca_refusal {
	__le64 number; /* counts from power-on, from 1; 0: the device has kept no such refusal */
	__le64 time;   /* device clock, nanoseconds */
	__le64 value;  /* value of the field; 0 if the rule is about no field */
	__le64 limit;  /* most or least value, the permitted bits, or the last value in `text` */
	__le32 rule;
	__le32 object; /* COMMAND: its object; ACCESS: offset in BAR; MISUSE: number; else QPN */
	__le16 opcode; /* COMMAND: PIB_HCA_CMD_* */
	__le16 id;     /* COMMAND: its id */
	__le16 offset; /* offset of the field in its structure */
	__u8 kind;      /* PIB_HCA_REFUSAL_* */
	__u8 structure; /* PIB_HCA_REFUSAL_IN_*: the structure that has the field */
	__u8 status;    /* COMMAND: PIB_HCA_CMD_STATUS_*; WQE, PACKET: PIB_HCA_WC_* */
	__u8 bar;       /* ACCESS: its BAR */
	__u8 reserved[2];
	__le32 counter; /* WQE: its counter in its queue; of an SRQ: its id */
	__u8 reserved2[8];
	__u8 text[256]; /* the refusal in words, ASCII, ends with a zero byte */
};
PIB_HCA_ASSERT_SIZE(pib_hca_refusal, 320);
#define PIB_HCA_RULE_SECTION_SHIFT 16
#define PIB_HCA_RULE_SUBSECTION_SHIFT 8
#define PIB_HCA_REFUSALS_KEPT 64 /* number of refusals that the device remembers */
#define PIB_HCA_REFUSAL_COMMAND 1
#define PIB_HCA_REFUSAL_ACCESS 2 /* a store or load, which the device has ignored */
#define PIB_HCA_REFUSAL_MISUSE 3 /* a broken rule that only a strict device checks */
#define PIB_HCA_REFUSAL_SEND_WQE 4 /* the WQE completes with an error */
#define PIB_HCA_REFUSAL_RECV_WQE 5
#define PIB_HCA_REFUSAL_PACKET 6 /* a QP has refused a request of its peer */
#define PIB_HCA_REFUSAL_IN_NONE 0
#define PIB_HCA_REFUSAL_IN_ENTRY 1 /* pib_hca_cmd */
#define PIB_HCA_REFUSAL_IN_INPUT 2 /* the command's input structure */
#define PIB_HCA_REFUSAL_IN_WQE 3

/* ---------------------------------------------------------------- shadow doorbell pages ------ */
/*
 * A page in which software marks the QPs whose sq_producer has moved, instead of a doorbell with
 * their number. Software sets bits and the device clears them, atomically; the rest of the page is
 * reserved and 0. docs/device-spec.md, "Kicks", has the order of the accesses.
 */
#define PIB_HCA_SHADOW_WORDS 64
struct pib_hca_shadow_page {
	__le64 summary; /* bit w: rung[w] has new bits; software sets it after them */
	__le64 flags;   /* written by the device: PIB_HCA_SHADOW_* */
	__le64 reserved[6];
	__le64 rung[PIB_HCA_SHADOW_WORDS]; /* bit QPN mod 4096 */
};
PIB_HCA_ASSERT_SIZE(pib_hca_shadow_page, 576);
#define PIB_HCA_SHADOW_AWAKE (1ull << 0) /* the device reads the page again: no kick needed */

struct pib_hca_set_shadow_page {
	__le64 addr; /* bus address of a zeroed page of 4 KiB; 0: remove the page */
};
PIB_HCA_ASSERT_SIZE(pib_hca_set_shadow_page, 8);

#endif /* PIB_HCA_CMD_H */
