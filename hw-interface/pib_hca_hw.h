/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The programming interface of the pib-hca device: PCI identity, registers, doorbells, commands,
 * queues and their entries. docs/device-spec.md is the same interface in prose; the two change in
 * one commit, together with the device, the driver and the provider.
 *
 * Everything is little-endian except where a field says "wire order": those bytes (GIDs, GUIDs,
 * MADs, immediate data) are copied between memory and packets as they stand. Reserved fields are
 * written as zero by software and refused by the device when they are not.
 */
#ifndef PIB_HCA_HW_H
#define PIB_HCA_HW_H

#include <linux/types.h>

#ifdef __cplusplus
#define PIB_HCA_ASSERT_SIZE(type, bytes) static_assert(sizeof(struct type) == (bytes), #type)
#else
#define PIB_HCA_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
#endif

/* ---------------------------------------------------------------- PCI identity and BARs ------ */

/* 1234h is the vendor number QEMU uses for devices that exist nowhere else (edu, stdvga). */
#define PIB_HCA_PCI_VENDOR_ID 0x1234
#define PIB_HCA_PCI_DEVICE_ID 0x1b0c
#define PIB_HCA_PCI_CLASS 0x020700 /* network controller, InfiniBand */
#define PIB_HCA_PCI_REVISION 1

#define PIB_HCA_BAR_REGS 0 /* 64-bit memory, 64 KiB: registers */
#define PIB_HCA_BAR_UAR 2  /* 64-bit memory, one 4 KiB page per user access region */
#define PIB_HCA_BAR_MSIX 4 /* 64-bit memory: MSI-X table and pending bits */

#define PIB_HCA_BAR_REGS_SIZE 0x10000
#define PIB_HCA_UAR_PAGE_SIZE 4096
#define PIB_HCA_MAX_UARS 1024 /* BAR2 is 4 MiB */
#define PIB_HCA_MAX_PORTS 4
#define PIB_HCA_MAX_VECTORS 64

#define PIB_HCA_INTERFACE_MAJOR 1 /* a driver refuses any other */
#define PIB_HCA_INTERFACE_MINOR 0 /* grows when something is added compatibly */

/* ---------------------------------------------------------------- registers (BAR0) ----------- */
/*
 * Access is by naturally aligned 4-byte loads and stores; a 64-bit register may also be accessed by
 * one 8-byte access. Any other access, and any hole, reads as zero and ignores writes.
 */
#define PIB_HCA_REG_VERSION 0x000         /* RO 32: major 31:16, minor 15:0 */
#define PIB_HCA_REG_CONTROL 0x004         /* RW 32: PIB_HCA_CONTROL_* */
#define PIB_HCA_REG_STATUS 0x008          /* RO 32: PIB_HCA_STATUS_* */
#define PIB_HCA_REG_FATAL_CAUSE 0x00c     /* RO 32: PIB_HCA_FATAL_*, zero unless STATUS.FATAL */
#define PIB_HCA_REG_PORT_COUNT 0x010      /* RO 32: ports, 1..PIB_HCA_MAX_PORTS */
#define PIB_HCA_REG_VECTOR_COUNT 0x014    /* RO 32: MSI-X vectors, 1..PIB_HCA_MAX_VECTORS */
#define PIB_HCA_REG_UAR_COUNT 0x018       /* RO 32: UAR pages in BAR2 */
#define PIB_HCA_REG_SCRATCH 0x01c         /* RW 32: no effect; for bring-up of a driver */
#define PIB_HCA_REG_CMDQ_BASE 0x020       /* RW 64: bus address of the command ring, 4 KiB aligned */
#define PIB_HCA_REG_CMDQ_CPL_BASE 0x028   /* RW 64: command completion ring, 4 KiB aligned */
#define PIB_HCA_REG_CMDQ_LOG_DEPTH 0x030  /* RW 32: log2 of entries in both rings, 0..8 */
#define PIB_HCA_REG_CMDQ_DOORBELL 0x034   /* WO 32: producer counter of the command ring */
#define PIB_HCA_REG_CMDQ_CONSUMED 0x038   /* RO 32: commands completed since ENABLE */
#define PIB_HCA_REG_TEST_IRQ 0x03c        /* WO 32: raises the MSI-X vector with this number */
#define PIB_HCA_REG_CLOCK 0x040           /* RO 64: device clock, nanoseconds since power-on */
#define PIB_HCA_REG_NODE_GUID 0x048       /* RO 64: node GUID as a number (high byte first in GUID) */

#define PIB_HCA_CONTROL_ENABLE (1u << 0) /* 0->1 starts the command queue; 1->0 resets the device */
#define PIB_HCA_CONTROL_RESET (1u << 1)  /* write 1: reset, as FLR does; reads as 0 */

#define PIB_HCA_STATUS_ENABLED (1u << 0) /* the command queue runs */
#define PIB_HCA_STATUS_FATAL (1u << 1)   /* stopped; only a reset helps */
#define PIB_HCA_STATUS_BAD_ENABLE (1u << 2) /* the last ENABLE was refused: bad ring address or size */

#define PIB_HCA_FATAL_NONE 0
#define PIB_HCA_FATAL_CMDQ_DMA 1      /* command or completion ring not readable or writable memory */
#define PIB_HCA_FATAL_CMDQ_OVERRUN 2  /* doorbell ahead of the ring's depth */
#define PIB_HCA_FATAL_EQ_DMA 3        /* an event queue's memory vanished */
#define PIB_HCA_FATAL_INTERNAL 4      /* the device found its own state inconsistent */
#define PIB_HCA_FATAL_EQ_OVERRUN 5    /* the async event queue was not drained */

/* ---------------------------------------------------------------- doorbells (BAR2) ----------- */
/*
 * Offsets in a UAR page. A doorbell for an object that belongs to another UAR is ignored (and
 * counted). Software writes the queue entries, then the header counters (release order), then rings.
 * A 64-bit doorbell is one 8-byte store. UAR 0 is the kernel's: always there, not allocated, not freed.
 */
#define PIB_HCA_UAR_SEND 0x00   /* WO 32: QP number; the device reads sq_producer from the QP header */
#define PIB_HCA_UAR_RECV 0x04   /* WO 32: QP number; only when the QP header asks (RECV_NOTIFY) */
#define PIB_HCA_UAR_CQ_ARM 0x08 /* WO 64: 23:0 CQN, 24 solicited only, 63:32 consumer counter */
#define PIB_HCA_UAR_EQ 0x10     /* WO 64: 23:0 EQN, 24 arm, 63:32 consumer counter; UAR 0 only */
#define PIB_HCA_UAR_SRQ 0x18    /* WO 32: SRQ number; reserved in this version */
#define PIB_HCA_UAR_CLOCK 0x40  /* RO 64: as PIB_HCA_REG_CLOCK */

#define PIB_HCA_DB_NUMBER_MASK 0x00ffffffu
#define PIB_HCA_DB_CQ_SOLICITED (1u << 24)
#define PIB_HCA_DB_EQ_ARM (1u << 24)
#define PIB_HCA_DB_COUNTER_SHIFT 32

/* ---------------------------------------------------------------- buffers -------------------- */
/*
 * A list of pages of guest memory. levels 0: root is the bus address of page_count contiguous pages.
 * levels 1: root is the address of a table page, 512 page addresses. levels 2 and 3: tables of tables.
 * Table pages are 4 KiB, hold little-endian 64-bit bus addresses and are read once, while the command
 * executes. Pages are 2^log_page_size bytes, aligned to their size, 12 <= log_page_size <= 30.
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
/* The device wants PIB_HCA_UAR_RECV after rq_producer moves: the QP is in Error and must flush. */
#define PIB_HCA_QP_HEADER_RECV_NOTIFY (1u << 0)

/* First 64 bytes of a CQ's buffer; the CQEs follow. */
struct pib_hca_cq_header {
	__le32 consumer; /* CQEs consumed, modulo 2^32; written by software */
	__le32 reserved[15];
};
PIB_HCA_ASSERT_SIZE(pib_hca_cq_header, 64);
#define PIB_HCA_QUEUE_HEADER_SIZE 64

/* ---------------------------------------------------------------- command queue -------------- */

struct pib_hca_cmd {
	__le16 opcode;     /* PIB_HCA_CMD_* */
	__le16 id;         /* chosen by software, returned in the completion */
	__le32 object;     /* number or key of the object, port number, or 0 */
	__le64 in_addr;    /* bus address of the input structure, or 0 */
	__le64 out_addr;   /* bus address of the output structure, or 0 */
	__le32 in_length;  /* bytes, exactly what the command takes, <= 4096 */
	__le32 out_length; /* bytes, at least what the command returns, <= 4096 */
	__le32 modifier;   /* per command, otherwise 0 */
	__le32 reserved[7];
};
PIB_HCA_ASSERT_SIZE(pib_hca_cmd, 64);

struct pib_hca_cmd_cpl {
	__le32 result;     /* number of the created object, or per command */
	__le32 out_length; /* bytes written to out_addr */
	__le16 id;
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
	PIB_HCA_CMD_CREATE_MR = 0x20,     /* in: pib_hca_create_mr; result: L_Key = R_Key */
	PIB_HCA_CMD_DESTROY_MR = 0x21,    /* object: key */
	PIB_HCA_CMD_ALLOC_MW = 0x22,      /* in: pib_hca_alloc_mw; result: R_Key */
	PIB_HCA_CMD_DEALLOC_MW = 0x23,    /* object: R_Key; its key byte is not looked at */
	PIB_HCA_CMD_CREATE_EQ = 0x30,     /* in: pib_hca_create_eq; result: EQN */
	PIB_HCA_CMD_DESTROY_EQ = 0x31,    /* object: EQN */
	PIB_HCA_CMD_CREATE_CQ = 0x40,     /* in: pib_hca_create_cq; result: CQN */
	PIB_HCA_CMD_DESTROY_CQ = 0x41,    /* object: CQN */
	PIB_HCA_CMD_CREATE_QP = 0x50,     /* in: pib_hca_create_qp; result: QP number */
	PIB_HCA_CMD_MODIFY_QP = 0x51,     /* object: QPN; in: pib_hca_modify_qp */
	PIB_HCA_CMD_QUERY_QP = 0x52,      /* object: QPN; out: pib_hca_modify_qp */
	PIB_HCA_CMD_DESTROY_QP = 0x53,    /* object: QPN */
	PIB_HCA_CMD_ATTACH_MCAST = 0x58,  /* object: QPN; in: pib_hca_mcast */
	PIB_HCA_CMD_DETACH_MCAST = 0x59,  /* object: QPN; in: pib_hca_mcast */
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
	__le32 max_fast_reg_pages; /* of one PIB_HCA_MR_FAST region */
	__le32 reserved2[6];
};
PIB_HCA_ASSERT_SIZE(pib_hca_query_device, 240);

/* FAST regions, LOCAL_INV, REG_MR and SEND_WITH_INV: the base memory management extensions. */
#define PIB_HCA_FEATURE_MEM_MGT_EXTENSIONS (1ull << 0)
#define PIB_HCA_FEATURE_MW_TYPE_1 (1ull << 1)
#define PIB_HCA_FEATURE_MW_TYPE_2B (1ull << 2)

struct pib_hca_modify_device {
	__le32 mask; /* PIB_HCA_MODIFY_DEVICE_* */
	__le32 reserved;
	__u8 sys_image_guid[8]; /* wire order */
	__u8 node_description[64];
};
PIB_HCA_ASSERT_SIZE(pib_hca_modify_device, 80);
#define PIB_HCA_MODIFY_DEVICE_SYS_IMAGE_GUID (1u << 0)
#define PIB_HCA_MODIFY_DEVICE_NODE_DESC (1u << 1)

/* Values of state, phys_state, mtu, width and speed are those of PortInfo (IBA vol. 1, table 155). */
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
 * Hands a MAD that software received or is about to send to itself to the port's SMA or PMA.
 * result: PIB_HCA_MAD_RESULT_*. The other fields are the receive completion's, for the M_Key and
 * source checks; all zero (and slid 0xffff) for a locally generated MAD.
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
#define PIB_HCA_MAD_RESULT_SUCCESS (1u << 0)  /* the MAD was looked at */
#define PIB_HCA_MAD_RESULT_REPLY (1u << 1)    /* out holds the response */
#define PIB_HCA_MAD_RESULT_CONSUMED (1u << 2) /* nothing more to do */

/* ---------------------------------------------------------------- memory regions ------------- */

/* Access rights; the values of enum ib_access_flags. */
#define PIB_HCA_ACCESS_LOCAL_WRITE (1u << 0)
#define PIB_HCA_ACCESS_REMOTE_WRITE (1u << 1)
#define PIB_HCA_ACCESS_REMOTE_READ (1u << 2)
#define PIB_HCA_ACCESS_REMOTE_ATOMIC (1u << 3)
#define PIB_HCA_ACCESS_MW_BIND (1u << 4)   /* regions: windows may be bound to it */
#define PIB_HCA_ACCESS_ZERO_BASED (1u << 5) /* windows: addresses count from its first byte */

struct pib_hca_create_mr {
	__le32 pd;
	__le32 access; /* 0 with PIB_HCA_MR_FAST */
	__le64 iova;   /* address of the first byte in WQEs and RETHs */
	__le64 length; /* bytes */
	/* 0 with PIB_HCA_MR_PHYSICAL; with PIB_HCA_MR_FAST only page_count is not, the most there may be */
	struct pib_hca_pages pages;
	__le32 page_offset; /* of the first byte in the first page */
	__u8 key;           /* low byte of the key */
	__u8 flags;         /* PIB_HCA_MR_* */
	__u8 reserved[2];
};
PIB_HCA_ASSERT_SIZE(pib_hca_create_mr, 48);
#define PIB_HCA_MR_PHYSICAL (1u << 0) /* addresses are bus addresses: a kernel's DMA MR */
#define PIB_HCA_MR_FAST (1u << 1)     /* free until PIB_HCA_WQE_REG_MR gives it memory */

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
	__u8 port; /* port events: 1..4 */
	__le16 reserved;
	__le32 number; /* CQN, QPN or command id */
	__le32 data;   /* port events: PIB_HCA_PORT_EVENT_*; CQ and QP errors: syndrome */
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
};

/* Several may be set in one event. */
#define PIB_HCA_PORT_EVENT_ACTIVE (1u << 0)
#define PIB_HCA_PORT_EVENT_ERROR (1u << 1) /* left Active */
#define PIB_HCA_PORT_EVENT_LID_CHANGE (1u << 2)
#define PIB_HCA_PORT_EVENT_PKEY_CHANGE (1u << 3)
#define PIB_HCA_PORT_EVENT_SM_CHANGE (1u << 4)
#define PIB_HCA_PORT_EVENT_CLIENT_REREGISTER (1u << 5)
#define PIB_HCA_PORT_EVENT_GID_CHANGE (1u << 6)

/* ---------------------------------------------------------------- completion queues ---------- */

struct pib_hca_create_cq {
	struct pib_hca_pages pages; /* header, then 2^log_depth CQEs */
	__le32 eqn;                 /* where its completion events go */
	__le32 uar;                 /* the UAR page that may arm it */
	__u8 log_depth;             /* 0..22 */
	__u8 reserved[7];
};
PIB_HCA_ASSERT_SIZE(pib_hca_create_cq, 32);
#define PIB_HCA_MAX_CQ_LOG_DEPTH 22

struct pib_hca_cqe {
	__le32 qpn;       /* the QP, as numbered by CREATE_QP */
	__le32 wqe_counter; /* counter of the WQE in its send or receive queue */
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
	__u8 port;        /* UD: the port it came in */
	__u8 reserved;
	__le64 timestamp; /* device clock when the completion was written */
	__u8 reserved2[23];
	__u8 owner; /* as in pib_hca_cmd_cpl */
};
PIB_HCA_ASSERT_SIZE(pib_hca_cqe, 64);

#define PIB_HCA_CQE_FLAG_GRH (1u << 0) /* the first 40 bytes of the buffer hold a GRH */
#define PIB_HCA_CQE_FLAG_IMM (1u << 1)
#define PIB_HCA_CQE_FLAG_SOLICITED (1u << 2)
#define PIB_HCA_CQE_FLAG_INVALIDATED (1u << 3) /* imm_data is the R_Key that the message invalidated */

enum pib_hca_cqe_opcode {
	PIB_HCA_CQE_SEND = 0x00,
	PIB_HCA_CQE_RDMA_WRITE = 0x01,
	PIB_HCA_CQE_RDMA_READ = 0x02,
	PIB_HCA_CQE_CMP_SWAP = 0x03,
	PIB_HCA_CQE_FETCH_ADD = 0x04,
	PIB_HCA_CQE_LOCAL_INV = 0x05,
	PIB_HCA_CQE_BIND_MW = 0x06,
	PIB_HCA_CQE_REG_MR = 0x07,
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

/* ---------------------------------------------------------------- queue pairs ---------------- */

enum pib_hca_qp_type {
	PIB_HCA_QP_SMI = 0, /* values of enum ib_qp_type */
	PIB_HCA_QP_GSI = 1,
	PIB_HCA_QP_RC = 2,
	PIB_HCA_QP_UC = 3,
	PIB_HCA_QP_UD = 4,
};

/* Special QPs have the fixed numbers 2*(port-1) (SMI) and 2*(port-1)+1 (GSI); on the wire 0 and 1. */
#define PIB_HCA_SPECIAL_QPN(port, is_gsi) (2u * ((port)-1u) + ((is_gsi) ? 1u : 0u))
#define PIB_HCA_FIRST_QPN 0x40

struct pib_hca_create_qp {
	struct pib_hca_pages pages; /* header, then the two queues at their offsets */
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
	__u8 log_sq_stride; /* WQE size, 6..10 */
	__u8 log_rq_stride; /* 5..10 */
	__u8 reserved[10];
};
PIB_HCA_ASSERT_SIZE(pib_hca_create_qp, 64);
#define PIB_HCA_QP_SIGNAL_ALL (1u << 0)
#define PIB_HCA_QP_PRIVILEGED (1u << 1) /* may use the privileged L_Key */
#define PIB_HCA_QP_NO_RQ (1u << 2)      /* no receive queue; log_rq_* and rq_offset are 0 */
#define PIB_HCA_QP_NO_SQ (1u << 3)
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

struct pib_hca_modify_qp {
	__le32 attr_mask; /* QUERY_QP returns 0 */
	__u8 state;       /* wanted (MODIFY) or present (QUERY) */
	__u8 cur_state;   /* only looked at with PIB_HCA_QP_ATTR_CUR_STATE */
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
	__u8 min_rnr_timer; /* 0..31, IBA vol. 1 table 45 */
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
};

#define PIB_HCA_WQE_SIGNALED (1u << 0)
#define PIB_HCA_WQE_SOLICITED (1u << 1)
#define PIB_HCA_WQE_FENCE (1u << 2)
#define PIB_HCA_WQE_INLINE (1u << 3) /* inline_length bytes stand where the SGEs would */

/*
 * A send WQE is the control segment, then what its opcode needs (rdma, atomic; ud on a datagram QP),
 * then num_sge SGEs or the inline data. It must fit in 1 << log_sq_stride bytes.
 *   RC SEND               control | data at 16
 *   RC RDMA WRITE, READ   control | rdma 16   | data at 32
 *   RC atomics            control | atomic 48 | one SGE of 8 bytes at 64
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
	__le32 reserved2;
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
	__le64 reserved2[2]; /* masks of the extended atomics */
};
PIB_HCA_ASSERT_SIZE(pib_hca_wqe_atomic, 48);

/* LOCAL_INV (IBA vol. 1, 10.6.7.3.3) */
struct pib_hca_wqe_key {
	__le32 key;
	__le32 reserved[3];
};
PIB_HCA_ASSERT_SIZE(pib_hca_wqe_key, 16);

/* BIND_MW (IBA vol. 1, 10.6.7.2) */
struct pib_hca_wqe_bind {
	__le32 rkey;   /* the window's index and its new key byte, which is another than before */
	__le32 lkey;   /* the region's */
	__le32 access; /* PIB_HCA_ACCESS_* */
	__le32 reserved;
	__le64 addr;   /* of its first byte, in the region's address space */
	__le64 length; /* bytes; 0 unbinds a window of type 1, nothing else is looked at then */
};
PIB_HCA_ASSERT_SIZE(pib_hca_wqe_bind, 32);

/* REG_MR, on QPs with PIB_HCA_QP_PRIVILEGED (IBA vol. 1, 11.4.1.1) */
struct pib_hca_wqe_reg {
	__le32 key; /* the region's index and its new key byte */
	__le32 access;
	__le64 iova;
	__le64 length;
	struct pib_hca_pages pages; /* its tables are read when the WQE is executed */
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
	__le32 reserved[3];
	/* num_sge struct pib_hca_sge follow */
};
PIB_HCA_ASSERT_SIZE(pib_hca_recv_wqe, 16);

/* ---------------------------------------------------------------- counters ------------------- */

/* QUERY_COUNTERS: events since reset, the names that rdma-core's tools know. */
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
	PIB_HCA_COUNTER_FOREIGN_DOORBELL,   /* doorbells for an object of another UAR or of none */
	PIB_HCA_COUNTER_SEND_DOORBELLS,
	PIB_HCA_COUNTER_INTERRUPTS,
	PIB_HCA_COUNTER_TX_PACKETS,
	PIB_HCA_COUNTER_RX_PACKETS,
	PIB_HCA_COUNTER_TX_BYTES,
	PIB_HCA_COUNTER_RX_BYTES,
	PIB_HCA_COUNTER_COUNT,
};

#endif /* PIB_HCA_HW_H */
