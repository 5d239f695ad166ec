/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of the QEMU device: pib_hca_pci.c is the device as QEMU sees it, pib_hca_dma.c its way to guest
 * memory, pib_hca_link.c its sockets, pib_hca_thread.c its threads, pib_hca_irqfd.c its short way to KVM. None of
 * them knows any InfiniBand; that is behind pib_hca_core.h.
 *
 * Threads: MMIO and configuration space on vCPU threads and bottom halves, timer and sockets in the main loop,
 * all under the BQL; and a thread for each link in shared memory, which takes the BQL only to send interrupts that
 * have no irqfd. The core has one lock, taken after the BQL.
 */
#ifndef PIB_HCA_GLUE_H
#define PIB_HCA_GLUE_H

#include "hw/pci/pci_device.h"
#include "io/channel-socket.h"
#include "pib_hca_core.h"
#include "pib_link_memory.h"
#include "qemu/bitops.h"
#include "qemu/thread.h"
#include "qom/object.h"

#define TYPE_PIB_HCA "pib-hca"
OBJECT_DECLARE_SIMPLE_TYPE(PibHca, PIB_HCA)

#define PIB_HCA_GLUE_PORTS 4

typedef struct PibHcaConnect PibHcaConnect;
typedef struct PibHcaThread PibHcaThread;

#define PIB_HCA_RAM_BLOCKS 16

/* What one link has handed to the switch (pib_hca_one_copy.c). */
typedef struct PibHcaOneCopy {
    uint8_t *control;
    uint64_t control_bytes;
    unsigned count; /* of blocks */
    PibHcaRamBlock blocks[PIB_HCA_RAM_BLOCKS];
    MemoryRegion *regions[PIB_HCA_RAM_BLOCKS];
    int fds[1 + PIB_HCA_RAM_BLOCKS]; /* the control memory's, which is ours to close, then the blocks' */
} PibHcaOneCopy;

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
    bool to_close;   /* the core has given the connection up */
    bool no_sharing; /* shared memory has failed once */
    /* Shared memory: changed under the BQL and the lock. */
    PibLinkMemory *memory; /* NULL: frames go through the socket */
    int kick_fd;           /* eventfd that the switch polls */
    uint32_t *wakes;       /* futex that the switch wakes us by */
    PibHcaThread *runner;  /* NULL: the main loop serves the link */
    PibHcaOneCopy *one_copy; /* NULL: payload is copied */
    unsigned fds_to_send;    /* of one_copy, with the bytes that the core writes next */
} PibHcaLink;

/* RAM as the device sees it, in one piece. */
typedef struct PibHcaRam {
    hwaddr start;
    hwaddr size;
    MemoryRegionCache cache;
} PibHcaRam;

#define PIB_HCA_RAM_PIECES 16
#define PIB_HCA_GLUE_UARS 1024

/* The eventfd of a UAR's kicks (pib_hca_kick.c). */
typedef struct PibHcaKick PibHcaKick;
typedef struct PibHcaIrqfds PibHcaIrqfds; /* pib_hca_irqfd.c */

struct PibHca {
    PCIDevice parent_obj;

    MemoryRegion regs;
    MemoryRegion uar;
    MemoryRegion device_memory; /* a guest's ibv_alloc_dm(); reached by its bus address, as all RAM */
    MemoryRegion bar2;          /* both of them */
    MemoryRegion msix;
    PibHcaCore *core;
    QEMUTimer *timer; /* virtual clock */
    QEMUBH *bh;           /* what the core leaves over */
    QEMUBH *close_bh;     /* links with `to_close` */
    QEMUBH *kicks_bh;     /* kicks_wanted has changed */
    /* UARs whose kicks the core wants by eventfd, under the lock; and those that have one, under the BQL. */
    unsigned long kicks_wanted[BITS_TO_LONGS(PIB_HCA_GLUE_UARS)];
    PibHcaKick *kicks[PIB_HCA_GLUE_UARS];
    QemuMutex lock;       /* the core's; BQL first */
    unsigned lock_waiters;
    uint32_t lock_waits;  /* times that somebody found the lock taken; atomic, wraps around */
    uint32_t lock_sleeps; /* of these, times that waiting awake was not enough */
    bool run_wanted; /* pib_hca_core_run() is owed, by a link's thread */
    VMChangeStateEntry *vm_state;
    SocketAddress *fabric_address; /* NULL: no fabric, ports stay Down */
    PibHcaLink links[PIB_HCA_GLUE_PORTS];
    uint8_t *rx_buffer;
    uint64_t pending_vectors; /* raised by the core and not sent yet; atomic */
    PibHcaIrqfds *irqfds;     /* NULL: QEMU sends all interrupts */
    uint64_t messages_sent;   /* by QEMU, masked ones among them; BQL */
    bool paused; /* the VM is stopped: no DMA, no interrupt, no frame is read; BQL and lock */
    MemoryListener memory_listener;
    PibHcaRam ram[PIB_HCA_RAM_PIECES]; /* what is not in here is reached the slow way */
    unsigned ram_count;
    unsigned ram_last; /* where the last access was */
    MemoryRegionSection staged[PIB_HCA_RAM_PIECES];
    unsigned staged_count;
    bool staged_any;
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
        uint64_t device_memory;
        char *qpn_reuse;
        bool inject;
        bool poison_wc;
        bool shuffle_srq;
        bool warnings;
        bool shared_memory;
        bool runs;
        uint32_t poll_us;
        char *doorbells;
        char *zero_copy;
    } prop;
};

/* pib_hca_thread.c */
void pib_hca_lock(PibHca *hca);
void pib_hca_unlock(PibHca *hca);
void pib_hca_wake(void *opaque);         /* Host::wake() */
void pib_hca_threads_wake(PibHca *hca);  /* `paused` has changed */
void pib_hca_thread_start(PibHcaLink *link);
void pib_hca_thread_stop(PibHcaLink *link); /* without the lock; nothing when there is none */

/*
 * Every way into the core but MMIO, whose dispatch does the like: between the two the core is locked, the device lives, refuses
 * MMIO from below itself, and collects the interrupts that the core raises. pib_hca_leave() sends them, with
 * the core off the stack, because a message is a write to wherever the guest has pointed the vector: at our own
 * registers, at the configuration space with our FLR bit in it, at the slot's power switch. After it the device
 * may be reset or gone: only return. What pib_hca_enter() returns is for pib_hca_leave().
 */
bool pib_hca_enter(PibHca *hca);
void pib_hca_leave(PibHca *hca, bool was_engaged);
/* Sends what the core has raised on a thread without the BQL, which the caller has by now. */
void pib_hca_interrupts(PibHca *hca);

/* pib_hca_dma.c: see host.h. Nothing but RAM that the device may reach is ever touched. */
bool pib_hca_may_master(PibHca *hca); /* in D1..D3hot a function starts no transactions (PCI PM 1.2, 5.4) */
void pib_hca_dma_start(PibHca *hca);
void pib_hca_dma_stop(PibHca *hca);
bool pib_hca_dma_read(void *opaque, uint64_t bus_addr, uint8_t *to, size_t length);
bool pib_hca_dma_write(void *opaque, uint64_t bus_addr, const uint8_t *from, size_t length);
bool pib_hca_dma_cmpxchg64(void *opaque, uint64_t bus_addr, uint64_t *expected, uint64_t desired);
uint8_t *pib_hca_ram(void *opaque, uint64_t bus_addr, uint64_t length);
void pib_hca_ram_written(void *opaque, uint64_t bus_addr, uint64_t length);
void pib_hca_ram_changed(PibHca *hca); /* after whatever pib_hca_ram() looks at has changed; with the lock */
void pib_hca_dma_barrier(void *opaque);

/* pib_hca_kick.c: doorbells that an eventfd takes from the guest's processor. */
void pib_hca_kicks(void *opaque, uint32_t uar, bool wanted); /* Host::kicks() */
void pib_hca_kicks_update(void *opaque);                     /* kicks_bh */
void pib_hca_kicks_again(PibHca *hca); /* the VM runs again: what came while it did not */
void pib_hca_kicks_stop(PibHca *hca);

/* pib_hca_irqfd.c: interrupts that KVM sends. */
void pib_hca_irqfds_start(PibHca *hca); /* nothing without KVM */
void pib_hca_irqfds_stop(PibHca *hca);
void pib_hca_irqfds_update(PibHca *hca); /* after configuration space has changed */
void pib_hca_irqfds_send(PibHca *hca);   /* on any thread; what stays pending is QEMU's to send */
/* irqfds: vectors that have one now; sent: interrupts that went by one. */
void pib_hca_irqfds_count(PibHca *hca, unsigned *irqfds, uint64_t *sent);

/* pib_hca_link.c */
bool pib_hca_links_parse(PibHca *hca, Error **errp); /* the fabric property into fabric_address */
void pib_hca_links_start(PibHca *hca);
void pib_hca_links_stop(PibHca *hca);
void pib_hca_links_update(PibHca *hca); /* after `paused` changed */
size_t pib_hca_link_write(void *opaque, unsigned port, const PibHcaBytes *parts, size_t count);
void pib_hca_link_close(void *opaque, unsigned port);
void pib_hca_link_kick(void *opaque, unsigned port);
void pib_hca_links_close(void *opaque); /* close_bh */

/* pib_hca_one_copy.c */
bool pib_hca_one_copy_possible(void); /* says why not */
void pib_hca_one_copy_share(PibHcaLink *link); /* works by copies when it cannot */
void pib_hca_one_copy_drop(PibHcaLink *link);  /* the core has let go of it */

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
