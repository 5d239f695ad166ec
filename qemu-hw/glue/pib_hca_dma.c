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

/* In D1..D3hot a function starts no transactions (PCI PM 1.2, 5.4). */
static bool may_master(PCIDevice *pci)
{
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

static bool range_is_ram(AddressSpace *as, hwaddr addr, hwaddr length, bool is_write)
{
    if (addr + length < addr) {
        return false;
    }
    while (length > 0) {
        hwaddr xlat;
        hwaddr part = length;
        MemoryRegion *mr = address_space_translate(as, addr, &xlat, &part, is_write,
                                                   MEMTXATTRS_UNSPECIFIED);

        if (part == 0 || !is_ram(mr, is_write)) {
            return false;
        }
        addr += part;
        length -= part;
    }
    return true;
}

static bool dma(PibHca *hca, uint64_t bus_addr, void *buffer, size_t length, bool is_write)
{
    PCIDevice *pci = PCI_DEVICE(hca);
    AddressSpace *as = pci_get_address_space(pci);

    if (hca->paused || !may_master(pci)) {
        return false;
    }
    RCU_READ_LOCK_GUARD();
    /* The memory map only changes under the BQL, which we hold: the proof is still true for the copy. */
    return range_is_ram(as, bus_addr, length, is_write) &&
           address_space_rw(as, bus_addr, MEMTXATTRS_UNSPECIFIED, buffer, length, is_write) ==
               MEMTX_OK;
}

bool pib_hca_dma_read(void *opaque, uint64_t bus_addr, uint8_t *to, size_t length)
{
    return dma(opaque, bus_addr, to, length, false);
}

bool pib_hca_dma_write(void *opaque, uint64_t bus_addr, const uint8_t *from, size_t length)
{
    return dma(opaque, bus_addr, (void *)from, length, true);
}

bool pib_hca_dma_cmpxchg64(void *opaque, uint64_t bus_addr, uint64_t *expected, uint64_t desired)
{
    PibHca *hca = opaque;
    PCIDevice *pci = PCI_DEVICE(hca);
    AddressSpace *as = pci_get_address_space(pci);
    hwaddr length = sizeof(uint64_t);
    uint64_t *word;

    if (bus_addr % sizeof(uint64_t) != 0 || hca->paused || !may_master(pci)) {
        return false;
    }
    RCU_READ_LOCK_GUARD();
    if (!range_is_ram(as, bus_addr, length, true)) {
        return false;
    }
    word = address_space_map(as, bus_addr, &length, true, MEMTXATTRS_UNSPECIFIED);
    if (!word) {
        return false;
    }
    *expected = qatomic_cmpxchg(word, *expected, desired);
    address_space_unmap(as, word, length, true, sizeof(uint64_t));
    return true;
}

void pib_hca_dma_barrier(void *opaque)
{
    smp_wmb();
}
