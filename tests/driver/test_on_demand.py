# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages that the driver maps for DMA itself, as on kernels from 6.16 on: compat_odp.h with stand-ins for the kernel's
functions. An IOMMU is modelled, which refuses to map a page twice."""

import subprocess

import pytest

from lab.base import paths

DRIVER = paths.ROOT / "guest-driver"
HEADERS = {"rdma/ib_umem_odp.h": """
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef uint64_t u64;
typedef uint64_t dma_addr_t;
#define PAGE_MASK (~4095ul)
struct device;
struct ib_device { struct device *dma_device; };
struct hmm_dma_map { unsigned long *pfn_list; };
struct ib_umem { struct ib_device *ibdev; bool writable; };
struct ib_umem_odp { struct ib_umem umem; struct hmm_dma_map map; int npages; };
""", "linux/pci-p2pdma.h": "struct pci_p2pdma_map_state { int unused; };\n", "linux/hmm.h": """
#define HMM_PFN_VALID (1ul << 63)
#define HMM_PFN_WRITE (1ul << 62)
#define HMM_PFN_ERROR (1ul << 61)
#define HMM_PFN_P2PDMA (1ul << 59)
#define HMM_PFN_P2PDMA_BUS (1ul << 58)
#define HMM_PFN_DMA_MAPPED (1ul << 57)
struct pci_p2pdma_map_state;
static bool mapped;
static inline bool dma_mapping_error(struct device *dev, dma_addr_t dma) { return dma == ~0ul; }
static inline dma_addr_t hmm_dma_map_pfn(struct device *dev, struct hmm_dma_map *map, size_t index,
                                         struct pci_p2pdma_map_state *state)
{
    if (!(map->pfn_list[index] & HMM_PFN_DMA_MAPPED)) {
        if (mapped)
            return ~0ul;
        mapped = true;
        map->pfn_list[index] |= HMM_PFN_DMA_MAPPED;
    }
    return 0x7000;
}
"""}
PROGRAM = """
#define PIB_HCA_ON_DEMAND_READ 1
#define PIB_HCA_ON_DEMAND_WRITE 2
#include "compat_odp.h"
int main(void)
{
    struct ib_device device = {};
    unsigned long page = HMM_PFN_VALID | 42;
    struct ib_umem_odp umem = { .umem = { &device, true }, .map = { &page } };
    u64 entry = 0;

    if (pib_hca_compat_odp_entry(&umem, 0, &entry) || entry != 0x7001 || !mapped)
        return 1;
    STEPS
    if (pib_hca_compat_odp_entry(&umem, 0, &entry) || entry != EXPECTED)
        return 2;
    return umem.npages == 1 && mapped ? 0 : 3;
}
"""
# Events after the page was mapped for reading, then the entry that the driver makes.
STEPS = {"is written later": ("page |= HMM_PFN_WRITE;", "0x7003"),
         "loses its flag": ("page &= ~HMM_PFN_DMA_MAPPED;", "0x7001"),
         "has the flag of the page before": ("mapped = false; umem.npages = 0; entry = 0; "
                                             "pib_hca_compat_odp_settle(&umem, 0, false);", "0x7001"),
         "loses its VMA": ("page = HMM_PFN_ERROR | (page & HMM_PFN_DMA_MAPPED); "
                           "pib_hca_compat_odp_settle(&umem, 0, true);", "0x7001")}


@pytest.mark.parametrize("name", STEPS)
def test_a_page_is_mapped_once_that(tmp_path, name):
    steps, expected = STEPS[name]
    for header, text in HEADERS.items():
        file = tmp_path / header
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    program = tmp_path / "program.c"
    program.write_text(PROGRAM.replace("STEPS", steps).replace("EXPECTED", expected))
    subprocess.run(["gcc", "-std=gnu11", "-Werror", "-I", tmp_path, "-I", DRIVER, "-o", tmp_path / "program", program],
                   check=True)
    assert subprocess.run([tmp_path / "program"], check=False).returncode == 0
