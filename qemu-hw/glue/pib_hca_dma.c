/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory as the device reaches it: through its own PCI address space (bus mastering and a vIOMMU
 * apply), and only after the whole range has been shown to be RAM. The guest chooses the addresses, so an
 * access that could end in another device's registers, or our own, must not start.
 */
#include "qemu/osdep.h"
#include "exec/memory.h"
#include "hw/pci/pci.h"
#include "pib_hca_glue.h"
#include "qemu/rcu.h"

bool pib_hca_may_master(PibHca *hca)
{
    PCIDevice *pci = &hca->parent_obj; /* the cast costs more than all the rest */
    uint16_t pmcsr;

    if (!pci->pm_cap) {
        return true;
    }
    pmcsr = pci_get_word(pci->config + pci->pm_cap + PCI_PM_CTRL);
    return (pmcsr & PCI_PM_CTRL_STATE_MASK) == 0;
}

static bool is_ram(MemoryRegion *mr, bool is_write)
{
    return memory_region_is_ram(mr) && !memory_region_is_ram_device(mr) &&
           !(is_write && (mr->readonly || mr->rom_device));
}

/*
 * The RAM behind the first bytes at `addr`: NULL when they are something else. `length` shrinks to what lies
 * there in one piece, which is a page where a vIOMMU translates. The caller is in an RCU critical section.
 */
static uint8_t *ram_at(AddressSpace *as, hwaddr addr, hwaddr *length, bool is_write,
                       MemoryRegion **mr)
{
    hwaddr xlat;

    *mr = address_space_translate(as, addr, &xlat, length, is_write, MEMTXATTRS_UNSPECIFIED);
    if (*length == 0 || !is_ram(*mr, is_write)) {
        return NULL;
    }
    return (uint8_t *)memory_region_get_ram_ptr(*mr) + xlat;
}

/* The caller's buffer to or from RAM; then what QEMU wants to know: stale translated code, dirty pages. */
static void copy(AddressSpace *as, MemoryRegion *mr, uint8_t *host, uint8_t *buffer, hwaddr length,
                 bool is_write)
{
    if (is_write) {
        memcpy(host, buffer, length);
        memory_region_ref(mr); /* which the unmap gives back */
        address_space_unmap(as, host, length, true, length);
    } else {
        memcpy(buffer, host, length);
    }
}

/*
 * The guest's RAM as a few large pieces, found when the memory map changes and not at each access. What a vIOMMU
 * translates is not among them.
 */
static void ram_begin(MemoryListener *listener)
{
    PibHca *hca = container_of(listener, PibHca, memory_listener);

    hca->staged_count = 0;
    hca->staged_any = false;
}

/* Of the sections of a changed map, QEMU tells the new ones and those that stay alike. */
static void ram_section(MemoryListener *listener, MemoryRegionSection *section)
{
    PibHca *hca = container_of(listener, PibHca, memory_listener);

    hca->staged_any = true;
    if (is_ram(section->mr, true) && !section->readonly &&
        hca->staged_count < PIB_HCA_RAM_PIECES) {
        hca->staged[hca->staged_count++] = *section;
    }
}

static void ram_gone(MemoryListener *listener, MemoryRegionSection *section)
{
    container_of(listener, PibHca, memory_listener)->staged_any = true;
}

static void ram_forget(PibHca *hca)
{
    while (hca->ram_count > 0) {
        address_space_cache_destroy(&hca->ram[--hca->ram_count].cache);
    }
    hca->ram_last = 0;
}

static void ram_commit(MemoryListener *listener)
{
    PibHca *hca = container_of(listener, PibHca, memory_listener);
    AddressSpace *as = pci_get_address_space(PCI_DEVICE(hca));

    if (!hca->staged_any) {
        return; /* another address space has changed */
    }
    pib_hca_lock(hca);
    ram_forget(hca);
    for (unsigned i = 0; i < hca->staged_count; i++) {
        MemoryRegionSection *section = &hca->staged[i];
        PibHcaRam *ram = &hca->ram[hca->ram_count];
        hwaddr start = section->offset_within_address_space;
        int64_t size = address_space_cache_init(&ram->cache, as, start,
                                                int128_get64(section->size), true);

        if (size <= 0) {
            continue;
        }
        if (!ram->cache.ptr) {
            address_space_cache_destroy(&ram->cache);
            continue;
        }
        ram->start = start;
        ram->size = size;
        hca->ram_count++;
    }
    pib_hca_ram_changed(hca);
    pib_hca_unlock(hca);
}

void pib_hca_dma_start(PibHca *hca)
{
    hca->memory_listener = (MemoryListener){
        .name = "pib-hca",
        .begin = ram_begin,
        .region_add = ram_section,
        .region_nop = ram_section,
        .region_del = ram_gone,
        .commit = ram_commit,
    };
    memory_listener_register(&hca->memory_listener, pci_get_address_space(PCI_DEVICE(hca)));
}

void pib_hca_dma_stop(PibHca *hca)
{
    if (hca->memory_listener.name) {
        memory_listener_unregister(&hca->memory_listener);
        hca->memory_listener.name = NULL;
    }
    ram_forget(hca);
}

/* The piece that has all of the range, or NULL. */
static PibHcaRam *find_ram(PibHca *hca, hwaddr addr, hwaddr length)
{
    for (unsigned i = 0; i < hca->ram_count; i++) {
        unsigned at = (hca->ram_last + i) % hca->ram_count;
        PibHcaRam *ram = &hca->ram[at];

        if (addr >= ram->start && length <= ram->size && addr - ram->start <= ram->size - length) {
            hca->ram_last = at;
            return ram;
        }
    }
    return NULL;
}

static void copy_cached(PibHcaRam *ram, hwaddr addr, uint8_t *buffer, hwaddr length, bool is_write)
{
    hwaddr offset = addr - ram->start;

    if (is_write) {
        memcpy(ram->cache.ptr + offset, buffer, length);
        address_space_cache_invalidate(&ram->cache, offset, length);
    } else {
        memcpy(buffer, ram->cache.ptr + offset, length);
    }
}

static bool range_is_ram(AddressSpace *as, hwaddr addr, hwaddr length, bool is_write)
{
    while (length > 0) {
        MemoryRegion *mr;
        hwaddr part = length;

        if (!ram_at(as, addr, &part, is_write, &mr)) {
            return false;
        }
        addr += part;
        length -= part;
    }
    return true;
}

static bool may_reach(PibHca *hca, hwaddr addr, hwaddr length)
{
    return !hca->paused && pib_hca_may_master(hca) && addr + length >= addr;
}

/*
 * All or nothing: what is not in one piece is looked at to its end before anything is touched. Each piece is
 * copied through the very translation that has shown it to be RAM: a guest that changes its vIOMMU's tables
 * meanwhile gets a failed access, not one to somebody's registers.
 */
static bool dma(PibHca *hca, hwaddr addr, uint8_t *buffer, hwaddr length, bool is_write)
{
    AddressSpace *as = pci_get_address_space(&hca->parent_obj);
    PibHcaRam *ram;
    MemoryRegion *mr;
    hwaddr part = length;
    uint8_t *host;

    if (length == 0 || !may_reach(hca, addr, length)) {
        return length == 0;
    }
    ram = find_ram(hca, addr, length);
    if (ram) {
        copy_cached(ram, addr, buffer, length, is_write);
        return true;
    }
    RCU_READ_LOCK_GUARD();
    host = ram_at(as, addr, &part, is_write, &mr);
    if (!host || !range_is_ram(as, addr + part, length - part, is_write)) {
        return false;
    }
    for (;;) {
        copy(as, mr, host, buffer, part, is_write);
        addr += part;
        buffer += part;
        length -= part;
        if (length == 0) {
            return true;
        }
        part = length;
        host = ram_at(as, addr, &part, is_write, &mr);
        if (!host) {
            return false;
        }
    }
}

bool pib_hca_dma_read(void *opaque, uint64_t bus_addr, uint8_t *to, size_t length)
{
    return dma(opaque, bus_addr, to, length, false);
}

bool pib_hca_dma_write(void *opaque, uint64_t bus_addr, const uint8_t *from, size_t length)
{
    return dma(opaque, bus_addr, (uint8_t *)from, length, true);
}

bool pib_hca_dma_cmpxchg64(void *opaque, uint64_t bus_addr, uint64_t *expected, uint64_t desired)
{
    PibHca *hca = opaque;
    AddressSpace *as = pci_get_address_space(&hca->parent_obj);
    hwaddr length = sizeof(uint64_t);
    PibHcaRam *ram;
    MemoryRegion *mr;
    uint8_t *host;

    if (bus_addr % sizeof(uint64_t) != 0 || !may_reach(hca, bus_addr, length)) {
        return false;
    }
    ram = find_ram(hca, bus_addr, length);
    if (ram && (uintptr_t)(ram->cache.ptr + (bus_addr - ram->start)) % sizeof(uint64_t) == 0) {
        host = ram->cache.ptr + (bus_addr - ram->start);
        *expected = qatomic_cmpxchg((uint64_t *)host, *expected, desired);
        address_space_cache_invalidate(&ram->cache, bus_addr - ram->start, length);
        return true;
    }
    RCU_READ_LOCK_GUARD();
    host = ram_at(as, bus_addr, &length, true, &mr);
    if (!host || length < sizeof(uint64_t) || (uintptr_t)host % sizeof(uint64_t) != 0) {
        return false;
    }
    *expected = qatomic_cmpxchg((uint64_t *)host, *expected, desired);
    memory_region_ref(mr);
    address_space_unmap(as, host, length, true, length);
    return true;
}

uint8_t *pib_hca_ram(void *opaque, uint64_t bus_addr, uint64_t length)
{
    PibHca *hca = opaque;
    PibHcaRam *ram;

    if (length == 0 || !may_reach(hca, bus_addr, length)) {
        return NULL;
    }
    ram = find_ram(hca, bus_addr, length);
    return ram ? (uint8_t *)ram->cache.ptr + (bus_addr - ram->start) : NULL;
}

void pib_hca_ram_written(void *opaque, uint64_t bus_addr, uint64_t length)
{
    PibHcaRam *ram = find_ram(opaque, bus_addr, length);

    if (ram) { /* always: the core holds its lock, and no pointer for longer than there is a piece */
        address_space_cache_invalidate(&ram->cache, bus_addr - ram->start, length);
    }
}

void pib_hca_ram_changed(PibHca *hca)
{
    if (hca->core) {
        pib_hca_core_ram_changed(hca->core);
    }
}

void pib_hca_dma_barrier(void *opaque)
{
    smp_wmb();
}
