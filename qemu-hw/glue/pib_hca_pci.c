/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The PCI device: a PCI Express endpoint with three BARs, MSI-X and FLR, and
 * the entry points that pass MMIO, timer and bottom half to the core.
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci.h"
#include "hw/pci/pcie.h"
#include "migration/vmstate.h"
#include "pib_hca_glue.h"
#include "pib_hca_hw.h"
#include "pib_hca_qemu.h"
#include "qapi/error.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/timer.h"
#include "system/runstate.h"

#define EXP_CAP_OFFSET 0x80
#define PM_CAP_OFFSET 0x60
#define PM_CAP_VERSION 3 /* PCI PM 1.2 */
#define MSIX_PBA_OFFSET 0x800 /* the table has 64 entries of 16 bytes */
#define MSIX_BAR_SIZE 0x1000
#define UAR_SIZE (PIB_HCA_MAX_UARS * PIB_HCA_UAR_PAGE_SIZE)

QEMU_BUILD_BUG_ON(PIB_HCA_MAX_VECTORS > 64); /* pending_vectors */

/* The devices that are realized, for debuggers: lab/develop/in_gdb_device.py */
static QLIST_HEAD(, PibHca) pib_hca_devices =
    QLIST_HEAD_INITIALIZER(pib_hca_devices);

static uint64_t pib_hca_mmio_read(PibHca *hca, unsigned bar, hwaddr offset,
                                  unsigned size)
{
    uint64_t value;

    pib_hca_lock(hca);
    value = pib_hca_core_mmio_read(hca->core, bar, offset, size);
    pib_hca_unlock(hca);
    if (hca->prop.strict) {
        pib_hca_send_interrupts(hca); /* a load may stop the device */
    }
    PIB_HCA_TRACE(hca, PIB_HCA_TRACE_MMIO_READ,
                  "bar %u offset 0x%" HWADDR_PRIx " size %u value 0x%" PRIx64,
                  bar, offset, size, value);
    return value;
}

/* QEMU's dispatch of MMIO guards against re-entry, as pib_hca_enter() does. */
static void pib_hca_mmio_write(PibHca *hca, unsigned bar, hwaddr offset,
                               uint64_t value, unsigned size)
{
    PIB_HCA_TRACE(hca, PIB_HCA_TRACE_MMIO_WRITE,
                  "bar %u offset 0x%" HWADDR_PRIx " size %u value 0x%" PRIx64,
                  bar, offset, size, value);
    pib_hca_lock(hca);
    pib_hca_core_mmio_write(hca->core, bar, offset, value, size);
    pib_hca_unlock(hca);
    pib_hca_send_interrupts(hca);
}

static uint64_t pib_hca_regs_read(void *opaque, hwaddr offset, unsigned size)
{
    return pib_hca_mmio_read(opaque, PIB_HCA_BAR_REGS, offset, size);
}

static void pib_hca_regs_write(void *opaque, hwaddr offset, uint64_t value,
                               unsigned size)
{
    pib_hca_mmio_write(opaque, PIB_HCA_BAR_REGS, offset, value, size);
}

static uint64_t pib_hca_uar_read(void *opaque, hwaddr offset, unsigned size)
{
    return pib_hca_mmio_read(opaque, PIB_HCA_BAR_UAR, offset, size);
}

static void pib_hca_uar_write(void *opaque, hwaddr offset, uint64_t value,
                              unsigned size)
{
    pib_hca_mmio_write(opaque, PIB_HCA_BAR_UAR, offset, value, size);
}

/*
 * The core handles accesses of every size and alignment (docs/device-spec.md).
 */
#define PIB_HCA_ACCESS \
    {.min_access_size = 1, .max_access_size = 8, .unaligned = true}

static const MemoryRegionOps pib_hca_regs_ops = {
    .read = pib_hca_regs_read,
    .write = pib_hca_regs_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = PIB_HCA_ACCESS,
    .impl = PIB_HCA_ACCESS,
};

static const MemoryRegionOps pib_hca_uar_ops = {
    .read = pib_hca_uar_read,
    .write = pib_hca_uar_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = PIB_HCA_ACCESS,
    .impl = PIB_HCA_ACCESS,
};

static void pib_hca_bh(void *opaque)
{
    PibHca *hca = opaque;

    if (!hca->paused) {
        bool was_engaged = pib_hca_enter(hca);

        pib_hca_core_run(hca->core);
        pib_hca_leave(hca, was_engaged);
    }
}

static void pib_hca_timer(void *opaque)
{
    PibHca *hca = opaque;
    bool was_engaged = pib_hca_enter(hca);

    pib_hca_core_timer(hca->core);
    pib_hca_leave(hca, was_engaged);
}

/* A stopped VM's memory must not change, so frames and work wait meanwhile. */
static void pib_hca_vm_state(void *opaque, bool running, RunState state)
{
    PibHca *hca = opaque;

    pib_hca_lock(hca);
    if (!running) {
        pib_hca_ram_changed(hca);
        /* Set `paused` later: the wait may end a link and write an event. */
        pib_hca_await_switch(hca);
    }
    hca->paused = !running;
    pib_hca_ram_changed(hca);
    if (!running) {
        pib_hca_core_record_flush(hca->core);
    }
    pib_hca_links_update(hca);
    pib_hca_unlock(hca);
    if (running) {
        qemu_bh_schedule(hca->bh);
        pib_hca_threads_wake(hca);
        pib_hca_kicks_resume(hca);
    }
}

/* BAR2 has the UAR pages first and then the device memory. */
static bool pib_hca_init_bar2(PibHca *hca, Error **errp)
{
    uint64_t used = PIB_HCA_DEVICE_MEMORY_OFFSET + hca->prop.device_memory;

    QEMU_BUILD_BUG_ON(PIB_HCA_DEVICE_MEMORY_OFFSET != UAR_SIZE);
    memory_region_init(&hca->bar2, OBJECT(hca), "pib-hca-bar2", pow2ceil(used));
    memory_region_init_io(&hca->uar, OBJECT(hca), &pib_hca_uar_ops, hca,
                          "pib-hca-uar", UAR_SIZE);
    if (hca->prop.device_memory != 0) {
        if (!memory_region_init_ram(&hca->device_memory, OBJECT(hca),
                                    "pib-hca-device-memory",
                                    hca->prop.device_memory, errp)) {
            return false;
        }
        memory_region_add_subregion(&hca->bar2, PIB_HCA_DEVICE_MEMORY_OFFSET,
                                    &hca->device_memory);
    }
    memory_region_add_subregion(&hca->bar2, 0, &hca->uar);
    return true;
}

/*
 * Removes the subregions: each keeps a reference to the device, so that the
 * device would never be freed.
 */
static void pib_hca_empty_bar2(PibHca *hca)
{
    if (memory_region_is_mapped(&hca->device_memory)) {
        memory_region_del_subregion(&hca->bar2, &hca->device_memory);
        /*
         * The RAM block is freed later. Until then, a new device in the same
         * slot would use the same name.
         */
        vmstate_unregister_ram(&hca->device_memory, DEVICE(hca));
    }
    if (memory_region_is_mapped(&hca->uar)) {
        memory_region_del_subregion(&hca->bar2, &hca->uar);
    }
}

static bool pib_hca_init_capabilities(PCIDevice *pci, Error **errp)
{
    if (pci_pm_init(pci, PM_CAP_OFFSET, errp) < 0 ||
        pcie_endpoint_cap_init(pci, EXP_CAP_OFFSET) < 0) {
        return false;
    }
    /*
     * Only D0 and D3hot, which every PCI Express function has. D3hot keeps the
     * state.
     */
    pci_set_word(pci->config + PM_CAP_OFFSET + PCI_PM_PMC, PM_CAP_VERSION);
    pci_set_word(pci->config + PM_CAP_OFFSET + PCI_PM_CTRL,
                 PCI_PM_CTRL_NO_SOFT_RESET);
    pci_set_word(pci->wmask + PM_CAP_OFFSET + PCI_PM_CTRL,
                 PCI_PM_CTRL_STATE_MASK);
    pcie_cap_flr_init(pci);
    return true;
}

static bool pib_hca_init_pci(PCIDevice *pci, Error **errp)
{
    const uint8_t memory64 =
        PCI_BASE_ADDRESS_SPACE_MEMORY | PCI_BASE_ADDRESS_MEM_TYPE_64;
    PibHca *hca = PIB_HCA(pci);

    if (!pci_bus_is_express(pci_get_bus(pci))) {
        error_setg(errp, "pib-hca is a PCI Express device: use -machine q35, "
                         "or a root port");
        return false;
    }
    memory_region_init_io(&hca->regs, OBJECT(hca), &pib_hca_regs_ops, hca,
                          "pib-hca-regs", PIB_HCA_BAR_REGS_SIZE);
    if (!pib_hca_init_bar2(hca, errp)) {
        return false;
    }
    pci_register_bar(pci, PIB_HCA_BAR_REGS, memory64, &hca->regs);
    pci_register_bar(pci, PIB_HCA_BAR_UAR,
                     memory64 | PCI_BASE_ADDRESS_MEM_PREFETCH, &hca->bar2);
    return pib_hca_init_capabilities(pci, errp);
}

static bool pib_hca_init_msix(PCIDevice *pci, Error **errp)
{
    PibHca *hca = PIB_HCA(pci);

    memory_region_init(&hca->msix, OBJECT(hca), "pib-hca-msix", MSIX_BAR_SIZE);
    pci_register_bar(pci, PIB_HCA_BAR_MSIX,
                     PCI_BASE_ADDRESS_SPACE_MEMORY |
                         PCI_BASE_ADDRESS_MEM_TYPE_64,
                     &hca->msix);
    if (msix_init(pci, hca->prop.vectors, &hca->msix, PIB_HCA_BAR_MSIX, 0,
                  &hca->msix, PIB_HCA_BAR_MSIX, MSIX_PBA_OFFSET, 0, errp) < 0) {
        return false;
    }
    for (unsigned i = 0; i < hca->prop.vectors; i++) {
        msix_vector_use(pci, i);
    }
    return true;
}

static void pib_hca_init_parts(PibHca *hca)
{
    hca->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, pib_hca_timer, hca);
    /*
     * Not qemu_bh_new_guarded(): it reads the guard after the bottom half, when
     * the device may have been freed.
     */
    hca->bh = qemu_bh_new(pib_hca_bh, hca);
    hca->paused = !runstate_is_running();
    g_free(hca->path);
    /* Found once, because the search of QEMU's object tree needs the BQL. */
    hca->path = object_get_canonical_path(OBJECT(hca));
    pib_hca_threads_init(hca);
    pib_hca_kicks_init(hca);
    pib_hca_links_init(hca);
}

static bool pib_hca_init_core(PibHca *hca, const PibHcaConfig *config,
                              Error **errp)
{
    char *why = NULL;

    pib_hca_dma_start(hca);
    hca->core = pib_hca_core_create(config, &pib_hca_host_ops, hca, &why);
    if (!hca->core) {
        error_setg(errp, "%s",
                   why ? why : "out of memory: free some, and try again");
        free(why);
        return false;
    }
    return true;
}

static void pib_hca_exit_pci(PibHca *hca)
{
    PCIDevice *pci = PCI_DEVICE(hca);

    if (msix_present(pci)) {
        msix_unuse_all_vectors(pci);
        msix_uninit(pci, &hca->msix, &hca->msix);
    }
    if (pci->exp.exp_cap) {
        pcie_cap_exit(pci);
    }
    pib_hca_empty_bar2(hca);
}

/* Also undoes pib_hca_realize() if it fails after pib_hca_init_parts(). */
static void pib_hca_exit(PCIDevice *pci)
{
    PibHca *hca = PIB_HCA(pci);

    QLIST_SAFE_REMOVE(hca, next);
    pib_hca_links_stop(hca);
    g_clear_pointer(&hca->vm_state, qemu_del_vm_change_state_handler);
    pib_hca_irqfds_stop(hca);
    /* Destroy the core before the parts that it calls. */
    g_clear_pointer(&hca->core, pib_hca_core_destroy);
    pib_hca_record_close(hca);
    pib_hca_kicks_free(hca);
    pib_hca_links_free(hca);
    pib_hca_threads_free(hca);
    pib_hca_dma_stop(hca);
    g_clear_pointer(&hca->bh, qemu_bh_delete);
    g_clear_pointer(&hca->timer, timer_free);
    pib_hca_guids_release(hca);
    pib_hca_exit_pci(hca);
}

static void pib_hca_realize(PCIDevice *pci, Error **errp)
{
    PibHca *hca = PIB_HCA(pci);
    PibHcaConfig config;

    pib_hca_config_init(&config);
    if (!pib_hca_props_to_config(hca, &config, errp) ||
        !pib_hca_guids_claim(hca, &config, errp)) {
        return;
    }
    pib_hca_init_parts(hca);
    if (!pib_hca_links_parse(hca, errp) || !pib_hca_init_pci(pci, errp) ||
        !pib_hca_init_msix(pci, errp) ||
        !pib_hca_record_open(hca, &config, errp) ||
        !pib_hca_init_core(hca, &config, errp)) {
        pib_hca_exit(pci);
        return;
    }
    pib_hca_irqfds_start(hca);
    hca->vm_state = qemu_add_vm_change_state_handler(pib_hca_vm_state, hca);
    pib_hca_links_start(hca);
    QLIST_INSERT_HEAD(&pib_hca_devices, hca, next);
}

static void pib_hca_config_write(PCIDevice *pci, uint32_t address,
                                 uint32_t value, int length)
{
    PibHca *hca = PIB_HCA(pci);
    bool did_dma = pib_hca_may_dma(hca);

    pci_default_write_config(pci, address, value, length);
    /*
     * Bus mastering or power may have been switched off. Taking the lock waits
     * for the end of accesses that a link's thread has begun.
     */
    pib_hca_lock(hca);
    pib_hca_ram_changed(hca);
    if (did_dma && !pib_hca_may_dma(hca)) {
        if (pib_hca_may_master(hca)) {
            pib_hca_core_bus_master_off(hca->core);
        } else {
            pib_hca_core_dma_ended(hca->core);
        }
        pib_hca_await_switch(hca); /* software may reuse the memory next */
    }
    pib_hca_unlock(hca);
    pib_hca_irqfds_update(hca);
    pcie_cap_flr_write_config(pci, address, value, length);
}

/* FLR, bus reset and system reset are the same ("Reset" in device-spec.md). */
static void pib_hca_reset_hold(Object *obj, ResetType type)
{
    PibHca *hca = PIB_HCA(obj);

    if (hca->core) {
        pci_word_test_and_clear_mask(PCI_DEVICE(hca)->config + PM_CAP_OFFSET +
                                         PCI_PM_CTRL,
                                     PCI_PM_CTRL_STATE_MASK);
        qemu_bh_cancel(hca->bh);
        pib_hca_lock(hca);
        pib_hca_ram_changed(hca); /* the function is in D0 again */
        pib_hca_core_reset(hca->core, false);
        if (!current_cpu) {
            /* System reset. Firmware does not look at STATUS.RESETTING. */
            pib_hca_await_switch(hca);
        }
        qatomic_set(&hca->pending_vectors, 0);
        pib_hca_unlock(hca);
    }
}

static const VMStateDescription pib_hca_vmstate = {
    .name = TYPE_PIB_HCA,
    /* Snapshots are refused, because the core cannot save its state yet. */
    .unmigratable = 1,
};

static void pib_hca_class_init(ObjectClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(klass);
    ResettableClass *rc = RESETTABLE_CLASS(klass);

    pc->realize = pib_hca_realize;
    pc->exit = pib_hca_exit;
    pc->config_write = pib_hca_config_write;
    pc->vendor_id = PIB_HCA_PCI_VENDOR_ID;
    pc->device_id = PIB_HCA_PCI_DEVICE_ID;
    pc->revision = PIB_HCA_PCI_REVISION;
    pc->class_id = PIB_HCA_PCI_CLASS >> 8;
    rc->phases.hold = pib_hca_reset_hold;
    dc->desc = "InfiniBand host channel adapter (pib)";
    dc->vmsd = &pib_hca_vmstate;
    set_bit(DEVICE_CATEGORY_NETWORK, dc->categories);
    pib_hca_props_register(dc);
    pib_hca_observe_register(OBJECT_CLASS(klass));
}

PIB_HCA_CLASS_INIT(pib_hca_class_init)

static void pib_hca_instance_init(Object *obj)
{
    pib_hca_lock_init(PIB_HCA(obj));
}

static void pib_hca_instance_finalize(Object *obj)
{
    pib_hca_lock_destroy(PIB_HCA(obj));
    g_free(PIB_HCA(obj)->path);
}

static const TypeInfo pib_hca_types[] = {
    {
        .name = TYPE_PIB_HCA,
        .parent = TYPE_PCI_DEVICE,
        .instance_size = sizeof(PibHca),
        .instance_init = pib_hca_instance_init,
        .instance_finalize = pib_hca_instance_finalize,
        .class_init = PIB_HCA_CLASS_INIT_OF(pib_hca_class_init),
        .interfaces = (InterfaceInfo[]){{INTERFACE_PCIE_DEVICE}, {} },
    },
};

DEFINE_TYPES(pib_hca_types)
