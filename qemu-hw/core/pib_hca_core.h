/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The C interface between QEMU (qemu-hw/glue, C) and the HCA (C++): the functions of
 * device.h, device_links.h and base/host.h, which document them.
 */
#ifndef PIB_HCA_CORE_H
#define PIB_HCA_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PibHcaCore PibHcaCore;

typedef struct PibHcaBytes {
    const uint8_t* data;
    size_t length;
} PibHcaBytes;

/* One direction of a link in shared memory: a RingView of ib/link/shared_ring.h. */
typedef struct PibHcaRing {
    void* control;
    uint8_t* bytes;
    uint32_t size;
} PibHcaRing;

/* A block of guest RAM to share with the switch. */
typedef struct PibHcaRamBlock {
    uint8_t* base;
    uint64_t bytes;
} PibHcaRamBlock;

typedef struct PibHcaHostOps {
    bool (*dma_read)(void* opaque, uint64_t bus_addr, uint8_t* to, size_t length);
    bool (*dma_write)(void* opaque, uint64_t bus_addr, const uint8_t* from, size_t length);
    bool (*dma_cmpxchg64)(void* opaque, uint64_t bus_addr, uint64_t* expected, uint64_t desired);
    uint8_t* (*ram)(void* opaque, uint64_t bus_addr, uint64_t length);
    void (*ram_written)(void* opaque, uint64_t bus_addr, uint64_t length);
    void (*dma_barrier)(void* opaque);
    void (*raise_msix)(void* opaque, unsigned vector);
    unsigned (*vector_state)(void* opaque, unsigned vector); /* enum VectorState; NULL: open */
    int (*vcpu)(void* opaque);                               /* NULL: kNoVcpu */
    uint64_t (*now_ns)(void* opaque);
    uint64_t (*real_ns)(void* opaque);
    void (*set_timer)(void* opaque, uint64_t deadline_ns); /* UINT64_MAX: none */
    void (*kicks)(void* opaque, uint32_t uar, bool wanted);
    void (*wake)(void* opaque);
    void (*link_wake)(void* opaque, unsigned port);
    size_t (*link_write)(void* opaque, unsigned port, const PibHcaBytes* parts, size_t count);
    void (*link_close)(void* opaque, unsigned port);
    void (*link_kick)(void* opaque, unsigned port);
    void (*log)(void* opaque, unsigned level, const char* text); /* level: enum LogLevel */
    /*
     * Appends to the recording; NULL: there is no recording. Returns false if the host cannot
     * append; the host has then told the user why.
     */
    bool (*record)(void* opaque, const uint8_t* bytes, size_t length);
} PibHcaHostOps;

typedef struct PibHcaConfig {
    uint32_t port_count;
    uint32_t vector_count;
    uint64_t node_guid;
    uint64_t port_guids[4];
    const char* node_description;
    uint8_t link_width;
    uint8_t link_speed;
    uint8_t link_speed_ext;
    uint8_t mtu_cap;
    uint8_t vl_cap;
    uint32_t trace_entries;
    bool trace_registers;
    bool trace_dma;
    bool trace_interrupts;
    uint32_t device_memory_pages;
    bool shadow_doorbells;
    bool bursts;
    bool peer_copy;
    bool inject;
    bool poison_wc;
    bool shuffle_srq;
    bool warnings;
    const char* adversary; /* AdversaryPlan::parse(); NULL: none */
    uint8_t strict;        /* enum Strictness: 0 off, 1 on, 2 fatal */
    uint8_t qpn_reuse;     /* enum NumberChoice: 0 round, 1 lowest, 2 random */
    bool record;           /* call PibHcaHostOps.record() */
    bool record_payload;   /* record all payload */
    uint64_t record_limit; /* bytes */
} PibHcaConfig;

/* Sets the defaults of base/config.h. */
void pib_hca_config_init(PibHcaConfig* config);

/*
 * On failure returns NULL and stores one line for the user in *error, which the caller frees:
 * the configuration is impossible, or there is not enough memory.
 */
PibHcaCore* pib_hca_core_create(const PibHcaConfig* config, const PibHcaHostOps* ops, void* opaque,
                                char** error);
void pib_hca_core_destroy(PibHcaCore* core);

uint64_t pib_hca_core_mmio_read(PibHcaCore* core, unsigned bar, uint64_t offset, unsigned size);
void pib_hca_core_mmio_write(PibHcaCore* core, unsigned bar, uint64_t offset, uint64_t value,
                             unsigned size);
void pib_hca_core_reset(PibHcaCore* core, bool cold);
/* The PCI function has left D0. */
void pib_hca_core_dma_ended(PibHcaCore* core);
/* Bus mastering was switched off in D0. */
void pib_hca_core_bus_master_off(PibHcaCore* core);
/* Revokes peer copies, then calls Host::ram_changed(). */
void pib_hca_core_ram_changed(PibHcaCore* core);
void pib_hca_core_kick(PibHcaCore* core, uint32_t uar);
void pib_hca_core_run(PibHcaCore* core);
void pib_hca_core_timer(PibHcaCore* core);
void pib_hca_core_link_connected(PibHcaCore* core, unsigned port, bool can_share);
void pib_hca_core_link_rx(PibHcaCore* core, unsigned port, const uint8_t* data, size_t length);
/* True: bytes of link_rx() wait for pib_hca_core_run(), and the host reads no more until then. */
bool pib_hca_core_link_is_behind(PibHcaCore* core, unsigned port);
void pib_hca_core_link_writable(PibHcaCore* core, unsigned port);
void pib_hca_core_link_closed(PibHcaCore* core, unsigned port);

/* JSON text, which the caller frees; NULL: out of memory. */
char* pib_hca_core_objects(PibHcaCore* core);
char* pib_hca_core_refusals(PibHcaCore* core);
char* pib_hca_core_journal(PibHcaCore* core);
char* pib_hca_core_trace(PibHcaCore* core);
/* Empties the trace; 0 entries end it. False: more than 65536 entries, or out of memory. */
bool pib_hca_core_choose_trace(PibHcaCore* core, uint32_t entries, bool registers, bool interrupts);
char* pib_hca_core_coverage(PibHcaCore* core);
char* pib_hca_core_take_coverage(PibHcaCore* core); /* sets all counts to 0 */
/* Passes the buffered end of the recording to record(). */
void pib_hca_core_record_flush(PibHcaCore* core);
void pib_hca_core_link_shared(PibHcaCore* core, unsigned port, const PibHcaRing* out,
                              const PibHcaRing* in);
bool pib_hca_core_link_poll(PibHcaCore* core, unsigned port);
/* Peer copy. `control`: zeroed memory of pib_hca_core_control_bytes() bytes. */
bool pib_hca_core_link_wants_memory(PibHcaCore* core, unsigned port);
uint64_t pib_hca_core_control_bytes(const PibHcaRamBlock* blocks, size_t count);
void pib_hca_core_link_memory(PibHcaCore* core, unsigned port, uint8_t* control,
                              const PibHcaRamBlock* blocks, size_t count);
void pib_hca_core_stop_copying(PibHcaCore* core);
bool pib_hca_core_copying_stopped(PibHcaCore* core);

#ifdef __cplusplus
}
#endif

#endif /* PIB_HCA_CORE_H */
