/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of the QEMU device. A file calls the files above it in this list:
 *
 *   pib_hca_trace.c      trace events
 *   pib_hca_irqfd.c      interrupts that KVM sends
 *   pib_hca_lock.c       the core's lock, entry into the core, interrupts
 *   pib_hca_dma.c        guest memory
 *   pib_hca_thread.c     a thread for each link in shared memory
 *   pib_hca_kick.c       doorbells by eventfd
 *   pib_hca_peer_copy.c  guest memory that the device shares with the switch
 *   pib_hca_props.c      properties that configure the device
 *   pib_hca_tls.c        TLS on the sockets of the fabric links
 *   pib_hca_fds.c        descriptors from the switch
 *   pib_hca_link.c       sockets of the fabric links
 *   pib_hca_record.c     the file of a recording
 *   pib_hca_host.c       the services that the core calls
 *   pib_hca_observe.c    properties that show what the device does
 *   pib_hca_pci.c        the PCI device
 *
 * These files know no InfiniBand: the core behind pib_hca_core.h does.
 *
 * Threads: vCPU threads handle MMIO and configuration space, the main loop
 * handles bottom halves, timers and sockets, all under the BQL. Each link in
 * shared memory has a thread of its own, which takes the BQL only to send
 * interrupts that have no irqfd, and behind a vIOMMU. The core has one lock,
 * which is taken after the BQL.
 */
#ifndef PIB_HCA_GLUE_H
#define PIB_HCA_GLUE_H

#include "hw/pci/pci_device.h"
#include "io/channel-tls.h"
#include "pib_hca_core.h"
#include "pib_link_memory.h"
#include "qapi/qapi-types-sockets.h"
#include "qemu/queue.h"
#include "qemu/timer.h"
#include "qom/object.h"

#define TYPE_PIB_HCA "pib-hca"
OBJECT_DECLARE_SIMPLE_TYPE(PibHca, PIB_HCA)

#define PIB_HCA_GLUE_PORTS 4

typedef struct PibHcaLock PibHcaLock;
typedef struct PibHcaDma PibHcaDma;
typedef struct PibHcaIrqfds PibHcaIrqfds;
typedef struct PibHcaKicks PibHcaKicks;
typedef struct PibHcaLinks PibHcaLinks;
typedef struct PibHcaPeerCopy PibHcaPeerCopy;
typedef struct PibHcaRecord PibHcaRecord;
typedef struct PibHcaThreads PibHcaThreads;
typedef struct PibHcaTls PibHcaTls;

/* Values of the properties, which pib_hca_props.c describes. */
typedef struct PibHcaProps {
    char *fabric;
    char *tls_creds;
    char *tls_hostname;
    bool plain_tcp;
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
    bool trace_registers;
    bool trace_dma;
    bool trace_interrupts;
    uint64_t device_memory;
    char *qpn_reuse;
    char *strict;
    char *adversary;
    bool inject;
    bool poison_wc;
    bool shuffle_srq;
    bool warnings;
    bool shared_memory;
    bool bursts;
    uint32_t poll_us;
    char *doorbells;
    bool peer_copy;
    char *record;
    bool record_payload;
    uint64_t record_limit;
} PibHcaProps;

struct PibHca {
    PCIDevice parent_obj;
    QLIST_ENTRY(PibHca) next; /* in pib_hca_devices; BQL */

    MemoryRegion regs;
    MemoryRegion uar;
    MemoryRegion device_memory; /* RAM for ibv_alloc_dm() in the guest */
    MemoryRegion bar2;          /* contains uar and device_memory */
    MemoryRegion msix;
    char *path; /* in QEMU's object tree */
    PibHcaProps prop;
    PibHcaCore *core;
    QEMUTimer *timer; /* for pib_hca_core_timer(); virtual clock */
    QEMUBH *bh;       /* for pib_hca_core_run() */
    VMChangeStateEntry *vm_state;
    bool paused; /* the VM is stopped; written with BQL and lock */
    bool guids_claimed;
    uint64_t pending_vectors; /* raised by the core, not yet sent; atomic */
    uint64_t messages_sent;   /* interrupts that QEMU has sent; BQL */
    /* Each of these structures is opaque outside of its file. */
    PibHcaLock *lock;
    PibHcaIrqfds *irqfds; /* NULL: QEMU sends all interrupts */
    PibHcaDma *dma;
    PibHcaThreads *threads;
    PibHcaKicks *kicks;
    PibHcaTls *tls; /* NULL: the links have no TLS */
    PibHcaLinks *links;
    PibHcaRecord *record; /* NULL: the device is not recorded */
};

/* A function in D1 to D3hot starts no transactions (PCI PM 1.2, 5.4). */
static inline bool pib_hca_may_master(PibHca *hca)
{
    PCIDevice *pci = &hca->parent_obj; /* PCI_DEVICE() is slow */
    uint16_t pmcsr;

    if (!pci->pm_cap) {
        return true;
    }
    pmcsr = pci_get_word(pci->config + pci->pm_cap + PCI_PM_CTRL);
    return (pmcsr & PCI_PM_CTRL_STATE_MASK) == 0;
}

static inline bool pib_hca_may_dma(PibHca *hca)
{
    PCIDevice *pci = &hca->parent_obj;

    return pib_hca_may_master(hca) &&
           (pci_get_word(pci->config + PCI_COMMAND) & PCI_COMMAND_MASTER);
}

/* pib_hca_trace.c */
typedef enum PibHcaTraceEvent {
    PIB_HCA_TRACE_MMIO_READ,
    PIB_HCA_TRACE_MMIO_WRITE,
    PIB_HCA_TRACE_INTERRUPT,
    PIB_HCA_TRACE_LINK_IN,
    PIB_HCA_TRACE_LINK_OUT,
    PIB_HCA_TRACE_MESSAGE,
    PIB_HCA_TRACE_COUNT,
} PibHcaTraceEvent;

/* For each event: not 0 while it is enabled (-trace, QMP). */
extern uint16_t pib_hca_trace_on[PIB_HCA_TRACE_COUNT];
void pib_hca_trace_print(PibHca *hca, PibHcaTraceEvent event,
                         const char *format, ...) G_GNUC_PRINTF(3, 4);

/* Prints the event if it is enabled; costs one load while it is not. */
#define PIB_HCA_TRACE(hca, event, ...)                    \
    do {                                                  \
        if (unlikely(pib_hca_trace_on[event])) {          \
            pib_hca_trace_print(hca, event, __VA_ARGS__); \
        }                                                 \
    } while (0)

/* pib_hca_irqfd.c */
void pib_hca_irqfds_start(PibHca *hca); /* no effect without KVM */
void pib_hca_irqfds_stop(PibHca *hca);
/* Call after each write to configuration space. */
void pib_hca_irqfds_update(PibHca *hca);
/* Sends pending interrupts that have an irqfd, on any thread. */
void pib_hca_irqfds_send(PibHca *hca);
/*
 * Counts the vectors that have an irqfd, and the interrupts that irqfds have
 * sent.
 */
void pib_hca_irqfds_count(PibHca *hca, unsigned *irqfds, uint64_t *sent);

/* pib_hca_lock.c */
void pib_hca_lock_init(PibHca *hca);
void pib_hca_lock_destroy(PibHca *hca);
void pib_hca_lock(PibHca *hca);
void pib_hca_unlock(PibHca *hca);
/* Returns whether any thread has the lock: always true if the caller has it. */
bool pib_hca_lock_is_taken(PibHca *hca);
/* Returns whether a thread waits for the lock. */
bool pib_hca_lock_is_wanted(PibHca *hca);
/* Returns the number of waits for the lock, and of sleeps; modulo 2^32. */
void pib_hca_lock_count(PibHca *hca, uint32_t *waits, uint32_t *sleeps);
/*
 * Entry into the core, with the BQL, outside of MMIO. From pib_hca_enter() to
 * pib_hca_leave() the caller has the lock and a reference to the device, and
 * the device refuses MMIO from itself. pib_hca_leave() sends the interrupts
 * that the core has raised. It sends them last, because a message is a write to
 * an address that the guest chooses: a register of this device, its FLR bit,
 * the power switch of its slot. After pib_hca_leave() the device may have been
 * reset or unplugged, so the caller must only return. Pass pib_hca_leave() the
 * result of pib_hca_enter().
 */
bool pib_hca_enter(PibHca *hca);
void pib_hca_leave(PibHca *hca, bool was_engaged);
/* Sends all pending interrupts. Call with the BQL, without the lock. */
void pib_hca_send_interrupts(PibHca *hca);
/* As pib_hca_send_interrupts(), for callers outside of an entry or MMIO. */
void pib_hca_enter_for_interrupts(PibHca *hca);

/* pib_hca_dma.c: host.h documents the services. */
void pib_hca_dma_start(PibHca *hca);
void pib_hca_dma_stop(PibHca *hca);
/*
 * Returns whether a vIOMMU translates the device's accesses. If so, enter the
 * core only with the BQL: the vIOMMU raises an interrupt when the device
 * accesses a page that is not mapped. Call with the lock.
 */
bool pib_hca_dma_is_translated(PibHca *hca);
/*
 * Invalidates the pointers of pib_hca_ram(). Call with the lock after a change
 * of the memory map, the bus master bit, the power state or `paused`.
 */
void pib_hca_ram_changed(PibHca *hca);
/*
 * Waits, after pib_hca_ram_changed() and with the lock, until the switch has
 * stopped copying. A reset by a vCPU does not wait, as the guest polls
 * STATUS.RESETTING.
 */
void pib_hca_await_switch(PibHca *hca);
bool pib_hca_dma_read(void *opaque, uint64_t bus_addr, uint8_t *to,
                      size_t length);
bool pib_hca_dma_write(void *opaque, uint64_t bus_addr, const uint8_t *from,
                       size_t length);
bool pib_hca_dma_cmpxchg64(void *opaque, uint64_t bus_addr, uint64_t *expected,
                           uint64_t desired);
uint8_t *pib_hca_ram(void *opaque, uint64_t bus_addr, uint64_t length);
void pib_hca_ram_written(void *opaque, uint64_t bus_addr, uint64_t length);
void pib_hca_dma_barrier(void *opaque);

/* pib_hca_thread.c */
void pib_hca_threads_init(PibHca *hca);
void pib_hca_threads_free(PibHca *hca);
bool pib_hca_thread_runs(PibHca *hca, unsigned port);
/* Starts a thread that sleeps on the futex `wakes`. Call with the lock. */
void pib_hca_thread_start(PibHca *hca, unsigned port, uint32_t *wakes);
/* Call with the BQL, without the lock. No effect if the port has no thread. */
void pib_hca_thread_stop(PibHca *hca, unsigned port);
/* Wakes all threads; call after `paused` has changed. */
void pib_hca_threads_wake(PibHca *hca);
void pib_hca_wake(void *opaque);
void pib_hca_link_wake(void *opaque, unsigned port);

/* pib_hca_kick.c */
void pib_hca_kicks_init(PibHca *hca);
void pib_hca_kicks_free(PibHca *hca);
/* Handles the kicks that arrived while the VM was stopped. */
void pib_hca_kicks_resume(PibHca *hca);
void pib_hca_kicks(void *opaque, uint32_t uar, bool wanted);

/* pib_hca_peer_copy.c */
/* Returns whether the VM's memory can be shared; warns if not. */
bool pib_hca_peer_copy_possible(void);
/* NULL: the VM has no memory to share, or making control memory failed. */
PibHcaPeerCopy *pib_hca_peer_copy_new(void);
/* Call after the core has closed the link. NULL is allowed. */
void pib_hca_peer_copy_free(PibHcaPeerCopy *shared);
/* Returns the number of descriptors for the switch, which `shared` owns. */
size_t pib_hca_peer_copy_fds(PibHcaPeerCopy *shared, int **fds);
void pib_hca_peer_copy_offer(PibHcaPeerCopy *shared, PibHcaCore *core,
                            unsigned port);

/* pib_hca_tls.c */
/* Checks the TLS properties, and sets hca->tls if they ask for TLS. */
bool pib_hca_tls_open(PibHca *hca, const SocketAddress *address,
                      Error **errp);
void pib_hca_tls_close(PibHca *hca);
/* Returns a channel before its handshake; NULL on error. */
QIOChannelTLS *pib_hca_tls_channel(PibHca *hca, QIOChannel *socket,
                                   Error **errp);

/* pib_hca_fds.c */
/*
 * Makes the kernel, from Linux 6.16 on, refuse descriptors that arrive from now
 * on: the main loop would close them with the BQL, and the last close of a file
 * may block, as that of a socket that lingers does.
 */
void pib_hca_fds_refuse(PibHca *hca, QIOChannel *channel);
/* Maps the memory of WELCOME's descriptors; warns and returns NULL on error. */
PibLinkMemory *pib_hca_fds_map(const int *fds, size_t count);
/* Closes the descriptors that are not -1. */
void pib_hca_fds_close(const int *fds, size_t count);

/* pib_hca_link.c */
void pib_hca_links_init(PibHca *hca);
void pib_hca_links_free(PibHca *hca);
/* Parses the property `fabric`, and checks those for TLS. */
bool pib_hca_links_parse(PibHca *hca, Error **errp);
void pib_hca_links_start(PibHca *hca);
void pib_hca_links_stop(PibHca *hca);
/* Call with the lock after `paused` has changed. */
void pib_hca_links_update(PibHca *hca);
size_t pib_hca_link_write(void *opaque, unsigned port, const PibHcaBytes *parts,
                          size_t count);
void pib_hca_link_close(void *opaque, unsigned port);
void pib_hca_link_kick(void *opaque, unsigned port);

/* pib_hca_record.c */
#define PIB_HCA_RECORD_LIMIT (16 * GiB) /* default */
/* Opens the file that `record` names. Also true if `record` names none. */
bool pib_hca_record_open(PibHca *hca, PibHcaConfig *config, Error **errp);
void pib_hca_record_close(PibHca *hca); /* after pib_hca_core_destroy() */
bool pib_hca_record(void *opaque, const uint8_t *bytes, size_t length);

/* pib_hca_host.c */
extern const PibHcaHostOps pib_hca_host_ops;

/* pib_hca_props.c */
void pib_hca_props_register(DeviceClass *dc);
bool pib_hca_props_to_config(PibHca *hca, PibHcaConfig *config, Error **errp);
/* Fails if another device of this process has one of the GUIDs. */
bool pib_hca_guids_claim(PibHca *hca, const PibHcaConfig *config, Error **errp);
void pib_hca_guids_release(PibHca *hca);
/* NULL with an error if the property `fabric` has no address of a switch. */
SocketAddress *pib_hca_fabric_address(const char *fabric, Error **errp);

/* pib_hca_observe.c */
void pib_hca_observe_register(ObjectClass *klass);

#endif /* PIB_HCA_GLUE_H */
