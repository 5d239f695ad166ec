/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The bus interface of the pib-hca device: PCI identity, registers and doorbells. A part of
 * pib_hca_hw.h, which has the conventions.
 */
#ifndef PIB_HCA_REGS_H
#define PIB_HCA_REGS_H

/* ---------------------------------------------------------------- PCI identity and BARs ------ */

/* QEMU uses the vendor number 1234h for devices that exist nowhere else (edu, stdvga). */
#define PIB_HCA_PCI_VENDOR_ID 0x1234
#define PIB_HCA_PCI_DEVICE_ID 0x1b0c
#define PIB_HCA_PCI_CLASS 0x020700 /* network controller, InfiniBand */
#define PIB_HCA_PCI_REVISION 1

#define PIB_HCA_BAR_REGS 0 /* 64-bit memory, 64 KiB: registers */
#define PIB_HCA_BAR_UAR 2  /* 64-bit memory: user access regions, then device memory */
#define PIB_HCA_BAR_MSIX 4 /* 64-bit memory: MSI-X table and pending bits */

#define PIB_HCA_BAR_REGS_SIZE 0x10000
#define PIB_HCA_UAR_PAGE_SIZE 4096
#define PIB_HCA_MAX_UARS 1024 /* the first 4 MiB of BAR2, a 4 KiB page each */
/* Where device memory begins in BAR2: query_device:device_memory_pages pages of 4 KiB. */
#define PIB_HCA_DEVICE_MEMORY_OFFSET 0x400000
#define PIB_HCA_MAX_PORTS 4
#define PIB_HCA_MAX_VECTORS 64

#define PIB_HCA_INTERFACE_MAJOR 1 /* a driver refuses any other */
#define PIB_HCA_INTERFACE_MINOR 5 /* grows when something is added compatibly */

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
#define PIB_HCA_STATUS_FATAL (1u << 1)   /* the device has stopped; only a reset helps */
#define PIB_HCA_STATUS_BAD_ENABLE (1u << 2) /* the last ENABLE was refused: bad ring address or size */
#define PIB_HCA_STATUS_RESETTING (1u << 3)  /* a reset goes on: memory may still be written */

#define PIB_HCA_FATAL_NONE 0
#define PIB_HCA_FATAL_CMDQ_DMA 1      /* command or completion ring not readable or writable memory */
#define PIB_HCA_FATAL_CMDQ_OVERRUN 2  /* doorbell ahead of the ring's depth */
#define PIB_HCA_FATAL_EQ_DMA 3        /* an event queue's memory is no longer guest RAM */
#define PIB_HCA_FATAL_INTERNAL 4      /* inconsistent state, or no memory left on the host */
#define PIB_HCA_FATAL_RULE 5          /* the driver broke a rule, and the device has strict=fatal */

/* ---------------------------------------------------------------- doorbells (BAR2) ----------- */
/*
 * Offsets in a UAR page. A doorbell for an object of another UAR is counted and ignored. Software
 * writes the queue entries, then the header counters (release order), then the doorbell. A 64-bit
 * doorbell is one 8-byte store. UAR 0 belongs to the kernel: it exists always and is neither
 * allocated nor freed.
 */
#define PIB_HCA_UAR_SEND 0x00   /* WO 32: QP number; the device reads sq_producer from the QP header */
#define PIB_HCA_UAR_RECV 0x04   /* WO 32: QP number; only when the QP header asks (RECV_NOTIFY) */
#define PIB_HCA_UAR_CQ_ARM 0x08 /* WO 64: 23:0 CQN, 24 solicited only, 63:32 consumer counter */
#define PIB_HCA_UAR_EQ 0x10     /* WO 64: 23:0 EQN, 24 arm, 63:32 consumer counter; UAR 0 only */
#define PIB_HCA_UAR_KICK 0x20   /* WO 32: any value; the device reads the shadow doorbell page */
#define PIB_HCA_UAR_CLOCK 0x40  /* RO 64: as PIB_HCA_REG_CLOCK */

#define PIB_HCA_DB_NUMBER_MASK 0x00ffffffu
#define PIB_HCA_DB_CQ_SOLICITED (1u << 24)
#define PIB_HCA_DB_EQ_ARM (1u << 24)
#define PIB_HCA_DB_COUNTER_SHIFT 32

#endif /* PIB_HCA_REGS_H */
