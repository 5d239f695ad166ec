/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Access to guest memory through the device's PCI address space, under the
 * control of bus mastering and a vIOMMU. The guest chooses the addresses, so an
 * access starts only after the whole range has been found to be RAM, and never
 * reaches the registers of a device.
 */
#include "qemu/osdep.h"
#include "hw/pci/pci.h"
#include "pib_hca_glue.h"
#include "pib_hca_qemu.h"
#include "qemu/bswap.h"
#include "qemu/rcu.h"

#define RAM_PIECES 16

/* A contiguous range of bus addresses that is RAM, and its mapping. */
typedef struct PibHcaRam {
    hwaddr start;
    hwaddr size;
    MemoryRegionCache cache;
} PibHcaRam;

/*
 * Guest RAM as a few large pieces, collected when the memory map changes.
 * Memory behind a vIOMMU, and RAM after the first RAM_PIECES pieces, is not
 * among them: accesses to such memory are translated one by one.
 */
struct PibHcaDma {
    PibHca *hca;
    MemoryListener listener;
    PibHcaRam ram[RAM_PIECES]; /* changed with BQL and lock */
    unsigned ram_count;
    unsigned ram_last; /* the piece of the last access */
    bool translated; /* behind a vIOMMU; changed with BQL and lock */
    /* Used by `listener` between begin and commit. */
    MemoryRegionSection staged[RAM_PIECES];
    unsigned staged_count;
    bool staged_iommu;
    bool staged_any; /* the device's address space has changed */
};

static bool pib_hca_is_ram(MemoryRegion *mr, bool is_write)
{
    return memory_region_is_ram(mr) && !memory_region_is_ram_device(mr) &&
           !(is_write && (mr->readonly || mr->rom_device));
}

/*
 * Returns the RAM at `addr`, or NULL. Reduces `length` to the contiguous part,
 * and to a page where a vIOMMU translates. Call under RCU.
 */
static uint8_t *pib_hca_ram_at(AddressSpace *as, hwaddr addr, hwaddr *length,
                               bool is_write, MemoryRegion **mr)
{
    hwaddr xlat;

    *mr = address_space_translate(as, addr, &xlat, length, is_write,
                                  MEMTXATTRS_UNSPECIFIED);
    if (*length == 0 || !pib_hca_is_ram(*mr, is_write)) {
        return NULL;
    }
    return (uint8_t *)memory_region_get_ram_ptr(*mr) + xlat;
}

/*
 * Drivers and programs poll counters, flags and owner bytes in this memory, so
 * an aligned access of 1, 2, 4 or 8 bytes is one load or store.
 */
static void pib_hca_ram_store(uint8_t *ram, const uint8_t *from, hwaddr length)
{
    if (length == 8 && QEMU_PTR_IS_ALIGNED(ram, 8)) {
        qatomic_set__nocheck((uint64_t *)ram, ldq_he_p(from));
    } else if (length == 4 && QEMU_PTR_IS_ALIGNED(ram, 4)) {
        qatomic_set((uint32_t *)ram, (uint32_t)ldl_he_p(from));
    } else if (length == 2 && QEMU_PTR_IS_ALIGNED(ram, 2)) {
        qatomic_set((uint16_t *)ram, (uint16_t)lduw_he_p(from));
    } else if (length == 1) {
        qatomic_set(ram, *from);
    } else {
        memcpy(ram, from, length);
    }
}

static void pib_hca_ram_load(const uint8_t *ram, uint8_t *to, hwaddr length)
{
    if (length == 8 && QEMU_PTR_IS_ALIGNED(ram, 8)) {
        stq_he_p(to, qatomic_read__nocheck((const uint64_t *)ram));
    } else if (length == 4 && QEMU_PTR_IS_ALIGNED(ram, 4)) {
        stl_he_p(to, qatomic_read((const uint32_t *)ram));
    } else if (length == 2 && QEMU_PTR_IS_ALIGNED(ram, 2)) {
        stw_he_p(to, qatomic_read((const uint16_t *)ram));
    } else if (length == 1) {
        *to = qatomic_read(ram);
    } else {
        memcpy(to, ram, length);
    }
}

/* address_space_unmap() invalidates translated code and marks dirty pages. */
static void pib_hca_copy(AddressSpace *as, MemoryRegion *mr, uint8_t *host,
                         uint8_t *buffer, hwaddr length, bool is_write)
{
    if (is_write) {
        pib_hca_ram_store(host, buffer, length);
        memory_region_ref(mr); /* address_space_unmap() unrefs */
        address_space_unmap(as, host, length, true, length);
    } else {
        pib_hca_ram_load(host, buffer, length);
    }
}

static void pib_hca_map_begin(MemoryListener *listener)
{
    PibHcaDma *dma = container_of(listener, PibHcaDma, listener);

    dma->staged_count = 0;
    dma->staged_iommu = false;
    dma->staged_any = false;
}

/*
 * QEMU reports the sections of a new map before it uses the map, so no thread
 * without the BQL accesses memory through the vIOMMU.
 */
static void pib_hca_map_iommu(PibHcaDma *dma)
{
    dma->staged_iommu = true;
    pib_hca_lock(dma->hca);
    dma->translated = true;
    pib_hca_unlock(dma->hca);
}

/* QEMU reports all sections of a changed map, new or not. */
static void pib_hca_map_section(MemoryListener *listener,
                                MemoryRegionSection *section)
{
    PibHcaDma *dma = container_of(listener, PibHcaDma, listener);

    dma->staged_any = true;
    if (memory_region_is_iommu(section->mr)) {
        pib_hca_map_iommu(dma);
    }
    if (pib_hca_is_ram(section->mr, true) && !section->readonly &&
        dma->staged_count < RAM_PIECES) {
        dma->staged[dma->staged_count++] = *section;
    }
}

static void pib_hca_map_removed(MemoryListener *listener,
                                MemoryRegionSection *section)
{
    container_of(listener, PibHcaDma, listener)->staged_any = true;
}

static void pib_hca_forget_ram(PibHcaDma *dma)
{
    while (dma->ram_count > 0) {
        address_space_cache_destroy(&dma->ram[--dma->ram_count].cache);
    }
    dma->ram_last = 0;
}

static void pib_hca_add_ram(PibHcaDma *dma, MemoryRegionSection *section)
{
    PibHcaRam *ram = &dma->ram[dma->ram_count];
    int64_t size;

    ram->start = section->offset_within_address_space;
    size = address_space_cache_init(
        &ram->cache, pci_get_address_space(&dma->hca->parent_obj), ram->start,
        int128_get64(section->size), true);
    if (size <= 0) {
        return;
    }
    if (!ram->cache.ptr) {
        address_space_cache_destroy(&ram->cache);
        return;
    }
    ram->size = size;
    dma->ram_count++;
}

static void pib_hca_map_commit(MemoryListener *listener)
{
    PibHcaDma *dma = container_of(listener, PibHcaDma, listener);

    if (!dma->staged_any) {
        return; /* another address space has changed */
    }
    pib_hca_lock(dma->hca);
    dma->translated = dma->staged_iommu;
    pib_hca_forget_ram(dma);
    for (unsigned i = 0; i < dma->staged_count; i++) {
        pib_hca_add_ram(dma, &dma->staged[i]);
    }
    pib_hca_ram_changed(dma->hca);
    pib_hca_await_switch(dma->hca); /* the memory may be unmapped next */
    pib_hca_unlock(dma->hca);
}

void pib_hca_dma_start(PibHca *hca)
{
    PibHcaDma *dma = g_new0(PibHcaDma, 1);

    hca->dma = dma;
    dma->hca = hca;
    dma->listener = (MemoryListener){
        .name = "pib-hca",
        .begin = pib_hca_map_begin,
        .region_add = pib_hca_map_section,
        .region_nop = pib_hca_map_section,
        .region_del = pib_hca_map_removed,
        .commit = pib_hca_map_commit,
    };
    memory_listener_register(&dma->listener,
                             pci_get_address_space(PCI_DEVICE(hca)));
}

void pib_hca_dma_stop(PibHca *hca)
{
    if (hca->dma) {
        memory_listener_unregister(&hca->dma->listener);
        pib_hca_forget_ram(hca->dma);
        g_clear_pointer(&hca->dma, g_free);
    }
}

bool pib_hca_dma_is_translated(PibHca *hca)
{
    return hca->dma->translated;
}

/* Returns the piece that contains the whole range, or NULL. */
static PibHcaRam *pib_hca_find_ram(PibHcaDma *dma, hwaddr addr, hwaddr length)
{
    for (unsigned i = 0; i < dma->ram_count; i++) {
        unsigned at = (dma->ram_last + i) % dma->ram_count;
        PibHcaRam *ram = &dma->ram[at];

        if (addr >= ram->start && length <= ram->size &&
            addr - ram->start <= ram->size - length) {
            dma->ram_last = at;
            return ram;
        }
    }
    return NULL;
}

static void pib_hca_copy_cached(PibHcaRam *ram, hwaddr addr, uint8_t *buffer,
                                hwaddr length, bool is_write)
{
    hwaddr offset = addr - ram->start;
    uint8_t *host = (uint8_t *)ram->cache.ptr + offset;

    if (is_write) {
        pib_hca_ram_store(host, buffer, length);
        address_space_cache_invalidate(&ram->cache, offset, length);
    } else {
        pib_hca_ram_load(host, buffer, length);
    }
}

static bool pib_hca_range_is_ram(AddressSpace *as, hwaddr addr, hwaddr length,
                                 bool is_write)
{
    while (length > 0) {
        MemoryRegion *mr;
        hwaddr part = length;

        if (!pib_hca_ram_at(as, addr, &part, is_write, &mr)) {
            return false;
        }
        addr += part;
        length -= part;
    }
    return true;
}

static bool pib_hca_may_reach(PibHca *hca, hwaddr addr, hwaddr length)
{
    return !hca->paused && pib_hca_may_master(hca) && addr + length >= addr;
}

/*
 * Accesses nothing unless the whole range is RAM. Each part is translated again
 * before it is copied: if the guest has changed the tables of a vIOMMU so that
 * a part is no longer RAM, the access fails there.
 */
static bool pib_hca_dma_translated(PibHca *hca, hwaddr addr, uint8_t *buffer,
                                   hwaddr length, bool is_write)
{
    AddressSpace *as = pci_get_address_space(&hca->parent_obj);
    MemoryRegion *mr;
    hwaddr part = length;
    uint8_t *host;

    RCU_READ_LOCK_GUARD();
    host = pib_hca_ram_at(as, addr, &part, is_write, &mr);
    if (!host ||
        !pib_hca_range_is_ram(as, addr + part, length - part, is_write)) {
        return false;
    }
    for (;;) {
        pib_hca_copy(as, mr, host, buffer, part, is_write);
        addr += part;
        buffer += part;
        length -= part;
        if (length == 0) {
            return true;
        }
        part = length;
        host = pib_hca_ram_at(as, addr, &part, is_write, &mr);
        if (!host) {
            return false;
        }
    }
}

static bool pib_hca_dma(PibHca *hca, hwaddr addr, uint8_t *buffer,
                        hwaddr length, bool is_write)
{
    PibHcaRam *ram;

    if (length == 0 || !pib_hca_may_reach(hca, addr, length)) {
        return length == 0;
    }
    ram = pib_hca_find_ram(hca->dma, addr, length);
    if (ram) {
        pib_hca_copy_cached(ram, addr, buffer, length, is_write);
        return true;
    }
    return pib_hca_dma_translated(hca, addr, buffer, length, is_write);
}

bool pib_hca_dma_read(void *opaque, uint64_t bus_addr, uint8_t *to,
                      size_t length)
{
    return pib_hca_dma(opaque, bus_addr, to, length, false);
}

bool pib_hca_dma_write(void *opaque, uint64_t bus_addr, const uint8_t *from,
                       size_t length)
{
    return pib_hca_dma(opaque, bus_addr, (uint8_t *)from, length, true);
}

static bool pib_hca_cmpxchg_cached(PibHcaRam *ram, uint64_t bus_addr,
                                   uint64_t *expected, uint64_t desired)
{
    hwaddr offset = bus_addr - ram->start;
    uint64_t *host = (uint64_t *)((uint8_t *)ram->cache.ptr + offset);

    if (!QEMU_PTR_IS_ALIGNED(host, sizeof(*host))) {
        return false;
    }
    *expected = qatomic_cmpxchg__nocheck(host, *expected, desired);
    address_space_cache_invalidate(&ram->cache, offset, sizeof(*host));
    return true;
}

bool pib_hca_dma_cmpxchg64(void *opaque, uint64_t bus_addr, uint64_t *expected,
                           uint64_t desired)
{
    PibHca *hca = opaque;
    AddressSpace *as = pci_get_address_space(&hca->parent_obj);
    hwaddr length = sizeof(uint64_t);
    PibHcaRam *ram;
    MemoryRegion *mr;
    uint8_t *host;

    if (!QEMU_IS_ALIGNED(bus_addr, sizeof(uint64_t)) ||
        !pib_hca_may_reach(hca, bus_addr, length)) {
        return false;
    }
    ram = pib_hca_find_ram(hca->dma, bus_addr, length);
    if (ram && pib_hca_cmpxchg_cached(ram, bus_addr, expected, desired)) {
        return true;
    }
    RCU_READ_LOCK_GUARD();
    host = pib_hca_ram_at(as, bus_addr, &length, true, &mr);
    if (!host || length < sizeof(uint64_t) ||
        !QEMU_PTR_IS_ALIGNED(host, sizeof(uint64_t))) {
        return false;
    }
    *expected = qatomic_cmpxchg__nocheck((uint64_t *)host, *expected, desired);
    memory_region_ref(mr); /* address_space_unmap() unrefs */
    address_space_unmap(as, host, length, true, length);
    return true;
}

uint8_t *pib_hca_ram(void *opaque, uint64_t bus_addr, uint64_t length)
{
    PibHca *hca = opaque;
    PibHcaRam *ram;

    if (length == 0 || !pib_hca_may_reach(hca, bus_addr, length)) {
        return NULL;
    }
    ram = pib_hca_find_ram(hca->dma, bus_addr, length);
    return ram ? (uint8_t *)ram->cache.ptr + (bus_addr - ram->start) : NULL;
}

void pib_hca_ram_written(void *opaque, uint64_t bus_addr, uint64_t length)
{
    PibHca *hca = opaque;
    PibHcaRam *ram = pib_hca_find_ram(hca->dma, bus_addr, length);

    /* Never NULL: pib_hca_ram_changed() has made the core drop old pointers. */
    if (ram) {
        address_space_cache_invalidate(&ram->cache, bus_addr - ram->start,
                                       length);
    }
}

void pib_hca_ram_changed(PibHca *hca)
{
    if (hca->core) {
        pib_hca_core_ram_changed(hca->core);
    }
}

/*
 * The switch ends its copy after at most 64 KiB; the core closes the link of a
 * switch that does not end it within 1 s. The thread has the lock, so it does
 * not sleep; it yields, because the switch may need this processor.
 */
void pib_hca_await_switch(PibHca *hca)
{
    while (hca->core && !pib_hca_core_copying_stopped(hca->core)) {
        sched_yield();
    }
}

/* A release fence (host.h): earlier accesses come before later stores. */
void pib_hca_dma_barrier(void *opaque)
{
    smp_mb_release();
}
