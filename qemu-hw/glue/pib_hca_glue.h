/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of the QEMU device: pib_hca_pci.c is the device as QEMU sees it, pib_hca_dma.c its way to guest
 * memory, pib_hca_link.c its sockets. None of them knows any InfiniBand; that is behind pib_hca_core.h.
 *
 * Threads: everything runs under the BQL, on a vCPU thread (MMIO, config space) or in the main loop (bottom
 * half, timer, sockets). With TCG the wake-up of another thread costs more than the work.
 */
#ifndef PIB_HCA_GLUE_H
#define PIB_HCA_GLUE_H

#include "hw/pci/pci_device.h"
#include "io/channel-socket.h"
#include "pib_hca_core.h"
#include "qom/object.h"

#define TYPE_PIB_HCA "pib-hca"
OBJECT_DECLARE_SIMPLE_TYPE(PibHca, PIB_HCA)

#define PIB_HCA_GLUE_PORTS 4

typedef struct PibHcaConnect PibHcaConnect;

/* One port's connection to the fabric. */
typedef struct PibHcaLink {
    PibHca *hca;
    unsigned port; /* 1.. */
    QIOChannelSocket *channel; /* NULL while not connected */
    PibHcaConnect *connecting; /* NULL when no attempt is under way */
    QEMUTimer *retry;          /* real-time clock */
    unsigned retry_delay_ms;
    int64_t connected_at_ms;
    bool want_write; /* the core waits for room in the socket */
} PibHcaLink;

struct PibHca {
    PCIDevice parent_obj;

    MemoryRegion regs;
    MemoryRegion uar;
    MemoryRegion msix;
    PibHcaCore *core;
    QEMUTimer *timer; /* virtual clock */
    QEMUBH *bh;
    VMChangeStateEntry *vm_state;
    SocketAddress *fabric_address; /* NULL: no fabric, ports stay Down */
    PibHcaLink links[PIB_HCA_GLUE_PORTS];
    uint8_t *rx_buffer;
    uint64_t pending_vectors; /* raised by the core and not sent yet */
    bool paused; /* the VM is stopped: no DMA, no interrupt, no frame is read */
    bool guids_claimed;

    struct {
        char *fabric;
        uint32_t ports;
        uint32_t vectors;
        uint64_t node_guid;
        uint64_t port_guid;
        char *node_description;
        char *link_width;
        char *link_speed;
        uint32_t mtu;
        uint32_t vls;
        uint32_t trace_entries;
        char *qpn_reuse;
        bool inject;
        bool poison_wc;
        bool shuffle_srq;
        bool warnings;
    } prop;
};

/*
 * Every way into the core but MMIO, whose dispatch does the like: between the two the device lives, refuses
 * MMIO from below itself, and collects the interrupts that the core raises. pib_hca_leave() sends them, with
 * the core off the stack, because a message is a write to wherever the guest has pointed the vector: at our own
 * registers, at the configuration space with our FLR bit in it, at the slot's power switch. After it the device
 * may be reset or gone: only return. What pib_hca_enter() returns is for pib_hca_leave().
 */
bool pib_hca_enter(PibHca *hca);
void pib_hca_leave(PibHca *hca, bool was_engaged);

/* pib_hca_dma.c: see host.h. Nothing but RAM that the device may reach is ever touched. */
bool pib_hca_may_master(PibHca *hca); /* in D1..D3hot a function starts no transactions (PCI PM 1.2, 5.4) */
bool pib_hca_dma_read(void *opaque, uint64_t bus_addr, uint8_t *to, size_t length);
bool pib_hca_dma_write(void *opaque, uint64_t bus_addr, const uint8_t *from, size_t length);
bool pib_hca_dma_cmpxchg64(void *opaque, uint64_t bus_addr, uint64_t *expected, uint64_t desired);
void pib_hca_dma_barrier(void *opaque);

/* pib_hca_link.c */
bool pib_hca_links_parse(PibHca *hca, Error **errp); /* the fabric property into fabric_address */
void pib_hca_links_start(PibHca *hca);
void pib_hca_links_stop(PibHca *hca);
void pib_hca_links_update(PibHca *hca); /* after `paused` changed */
size_t pib_hca_link_write(void *opaque, unsigned port, const PibHcaBytes *parts, size_t count);
void pib_hca_link_close(void *opaque, unsigned port);

/* pib_hca_props.c: the user's words into the core's numbers. */
bool pib_hca_props_to_config(PibHca *hca, PibHcaConfig *config, Error **errp);
bool pib_hca_guids_claim(PibHca *hca, const PibHcaConfig *config, Error **errp);
void pib_hca_guids_release(PibHca *hca);
void pib_hca_props_register(DeviceClass *dc);

/* pib_hca_observe.c: properties that are read, and trace events. */
typedef enum PibHcaTraceEvent {
    PIB_HCA_TRACE_MMIO_READ,
    PIB_HCA_TRACE_MMIO_WRITE,
    PIB_HCA_TRACE_INTERRUPT,
    PIB_HCA_TRACE_LINK_IN,
    PIB_HCA_TRACE_LINK_OUT,
    PIB_HCA_TRACE_MESSAGE,
    PIB_HCA_TRACE_COUNT,
} PibHcaTraceEvent;

extern uint16_t pib_hca_trace_on[PIB_HCA_TRACE_COUNT]; /* QEMU counts in it who wants the event */
void pib_hca_trace_print(PibHca *hca, PibHcaTraceEvent event, const char *format, ...)
    G_GNUC_PRINTF(3, 4);
void pib_hca_observe_register(ObjectClass *klass);

/* One load while nobody traces. */
#define PIB_HCA_TRACE(hca, event, ...) \
    do { \
        if (unlikely(pib_hca_trace_on[event])) { \
            pib_hca_trace_print(hca, event, __VA_ARGS__); \
        } \
    } while (0)

#endif /* PIB_HCA_GLUE_H */
