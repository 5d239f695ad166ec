/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pib-hca as QEMU sees it: a PCI Express endpoint with three BARs, MSI-X and FLR, and the entry points that
 * carry MMIO, time and bottom halves to the core.
 */
#include "qemu/osdep.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci.h"
#include "hw/pci/pcie.h"
#include "migration/vmstate.h"
#include "pib_hca_glue.h"
#include "pib_hca_hw.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "qemu/log.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/timer.h"
#include "system/runstate.h"

#define EXP_CAP_OFFSET 0x80
#define PM_CAP_OFFSET 0x60
#define PM_CAP_VERSION 3 /* PCI PM 1.2 */
#define MSIX_PBA_OFFSET 0x800 /* behind 64 table entries of 16 bytes, with room to spare */
#define MSIX_BAR_SIZE 0x1000
#define UAR_SIZE (PIB_HCA_MAX_UARS * PIB_HCA_UAR_PAGE_SIZE)

QEMU_BUILD_BUG_ON(PIB_HCA_MAX_VECTORS > 64); /* pending_vectors */

static void send_interrupts(PibHca *hca)
{
    PCIDevice *pci = PCI_DEVICE(hca);

    pib_hca_irqfds_send(hca);
    while (qatomic_read(&hca->pending_vectors) != 0) {
        unsigned vector = ctz64(qatomic_read(&hca->pending_vectors));

        qatomic_and(&hca->pending_vectors, ~BIT_ULL(vector));
        if (msix_enabled(pci) && pib_hca_may_master(hca)) {
            PIB_HCA_TRACE(hca, PIB_HCA_TRACE_INTERRUPT, "vector %u", vector);
            hca->messages_sent++;
            msix_notify(pci, vector);
        }
    }
}

bool pib_hca_enter(PibHca *hca)
{
    bool was_engaged = DEVICE(hca)->mem_reentrancy_guard.engaged_in_io;

    object_ref(OBJECT(hca));
    DEVICE(hca)->mem_reentrancy_guard.engaged_in_io = true;
    pib_hca_lock(hca);
    return was_engaged;
}

void pib_hca_leave(PibHca *hca, bool was_engaged)
{
    pib_hca_unlock(hca);
    send_interrupts(hca);
    DEVICE(hca)->mem_reentrancy_guard.engaged_in_io = was_engaged;
    object_unref(OBJECT(hca));
}

void pib_hca_interrupts(PibHca *hca)
{
    bool was_engaged = pib_hca_enter(hca);

    pib_hca_leave(hca, was_engaged);
}

static uint64_t mmio_read(PibHca *hca, unsigned bar, hwaddr offset, unsigned size)
{
    uint64_t value;

    pib_hca_lock(hca);
    value = pib_hca_core_mmio_read(hca->core, bar, offset, size);
    pib_hca_unlock(hca);
    PIB_HCA_TRACE(hca, PIB_HCA_TRACE_MMIO_READ, "bar %u offset 0x%" HWADDR_PRIx " size %u value 0x%" PRIx64,
                  bar, offset, size, value);
    return value;
}

static void mmio_write(PibHca *hca, unsigned bar, hwaddr offset, uint64_t value, unsigned size)
{
    PIB_HCA_TRACE(hca, PIB_HCA_TRACE_MMIO_WRITE, "bar %u offset 0x%" HWADDR_PRIx " size %u value 0x%" PRIx64,
                  bar, offset, size, value);
    pib_hca_lock(hca);
    pib_hca_core_mmio_write(hca->core, bar, offset, value, size);
    pib_hca_unlock(hca);
    send_interrupts(hca);
}

static uint64_t pib_hca_regs_read(void *opaque, hwaddr offset, unsigned size)
{
    return mmio_read(opaque, PIB_HCA_BAR_REGS, offset, size);
}

static void pib_hca_regs_write(void *opaque, hwaddr offset, uint64_t value, unsigned size)
{
    mmio_write(opaque, PIB_HCA_BAR_REGS, offset, value, size);
}

static uint64_t pib_hca_uar_read(void *opaque, hwaddr offset, unsigned size)
{
    return mmio_read(opaque, PIB_HCA_BAR_UAR, offset, size);
}

static void pib_hca_uar_write(void *opaque, hwaddr offset, uint64_t value, unsigned size)
{
    mmio_write(opaque, PIB_HCA_BAR_UAR, offset, value, size);
}

/* Every size and alignment reaches the core: what an access does is the device manual's to say. */
#define PIB_HCA_ACCESS {.min_access_size = 1, .max_access_size = 8, .unaligned = true}

static const MemoryRegionOps regs_ops = {
    .read = pib_hca_regs_read,
    .write = pib_hca_regs_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = PIB_HCA_ACCESS,
    .impl = PIB_HCA_ACCESS,
};

static const MemoryRegionOps uar_ops = {
    .read = pib_hca_uar_read,
    .write = pib_hca_uar_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = PIB_HCA_ACCESS,
    .impl = PIB_HCA_ACCESS,
};

static void host_raise_msix(void *opaque, unsigned vector)
{
    PibHca *hca = opaque;

    if (vector < hca->prop.vectors) {
        qatomic_or(&hca->pending_vectors, BIT_ULL(vector));
    }
}

static uint64_t host_now_ns(void *opaque)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static uint64_t host_real_ns(void *opaque)
{
    return get_clock();
}

/* The switch may need this processor. */
static void host_relax(void *opaque)
{
    g_usleep(20);
}

static void host_set_timer(void *opaque, uint64_t deadline_ns)
{
    PibHca *hca = opaque;

    if (deadline_ns > INT64_MAX) {
        timer_del(hca->timer);
    } else {
        timer_mod_ns(hca->timer, deadline_ns);
    }
}

static void host_log(void *opaque, unsigned level, const char *text)
{
    PibHca *hca = opaque;
    g_autofree char *path = object_get_canonical_path(OBJECT(hca));

    PIB_HCA_TRACE(hca, PIB_HCA_TRACE_MESSAGE, "%s", text);
    switch (level) {
    case 0: /* LogLevel::kGuestError */
        qemu_log_mask(LOG_GUEST_ERROR, "%s: %s\n", path, text);
        break;
    case 1: /* LogLevel::kWarning */
        warn_report("%s: %s", path, text);
        break;
    default:
        qemu_log_mask(LOG_TRACE, "%s: %s\n", path, text);
        break;
    }
}

static const PibHcaHostOps host_ops = {
    .dma_read = pib_hca_dma_read,
    .dma_write = pib_hca_dma_write,
    .dma_cmpxchg64 = pib_hca_dma_cmpxchg64,
    .ram = pib_hca_ram,
    .ram_written = pib_hca_ram_written,
    .dma_barrier = pib_hca_dma_barrier,
    .raise_msix = host_raise_msix,
    .now_ns = host_now_ns,
    .real_ns = host_real_ns,
    .relax = host_relax,
    .set_timer = host_set_timer,
    .kicks = pib_hca_kicks,
    .wake = pib_hca_wake,
    .link_write = pib_hca_link_write,
    .link_close = pib_hca_link_close,
    .link_kick = pib_hca_link_kick,
    .log = host_log,
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

/* While the VM is stopped its memory is not ours to change: frames wait in the socket, work in the core. */
static void pib_hca_vm_state(void *opaque, bool running, RunState state)
{
    PibHca *hca = opaque;

    pib_hca_lock(hca);
    hca->paused = !running;
    pib_hca_ram_changed(hca);
    pib_hca_unlock(hca);
    pib_hca_links_update(hca);
    if (running) {
        qemu_bh_schedule(hca->bh);
        pib_hca_threads_wake(hca);
        pib_hca_kicks_again(hca);
    }
}

/* BAR2: doorbells, and the device's own memory behind them. A BAR's size is a power of two. */
static bool pib_hca_init_bar2(PibHca *hca, Error **errp)
{
    uint64_t used = PIB_HCA_DEVICE_MEMORY_OFFSET + hca->prop.device_memory;

    QEMU_BUILD_BUG_ON(PIB_HCA_DEVICE_MEMORY_OFFSET != UAR_SIZE);
    memory_region_init(&hca->bar2, OBJECT(hca), "pib-hca-bar2", pow2ceil(used));
    memory_region_init_io(&hca->uar, OBJECT(hca), &uar_ops, hca, "pib-hca-uar", UAR_SIZE);
    if (hca->prop.device_memory != 0) {
        if (!memory_region_init_ram(&hca->device_memory, OBJECT(hca), "pib-hca-device-memory",
                                    hca->prop.device_memory, errp)) {
            return false;
        }
        memory_region_add_subregion(&hca->bar2, PIB_HCA_DEVICE_MEMORY_OFFSET, &hca->device_memory);
    }
    memory_region_add_subregion(&hca->bar2, 0, &hca->uar);
    return true;
}

/* What is in BAR2 counts as a reference to the device, which would never be freed. */
static void pib_hca_empty_bar2(PibHca *hca)
{
    if (memory_region_is_mapped(&hca->device_memory)) {
        memory_region_del_subregion(&hca->bar2, &hca->device_memory);
        /* The RAM goes some time later; a device that is plugged in here meanwhile has the same name for its own. */
        vmstate_unregister_ram(&hca->device_memory, DEVICE(hca));
    }
    if (memory_region_is_mapped(&hca->uar)) {
        memory_region_del_subregion(&hca->bar2, &hca->uar);
    }
}

static bool pib_hca_init_pci(PCIDevice *pci, Error **errp)
{
    PibHca *hca = PIB_HCA(pci);

    if (!pci_bus_is_express(pci_get_bus(pci))) {
        error_setg(errp, "pib-hca is a PCI Express device: use -machine q35, or a root port");
        return false;
    }
    memory_region_init_io(&hca->regs, OBJECT(hca), &regs_ops, hca, "pib-hca-regs",
                          PIB_HCA_BAR_REGS_SIZE);
    if (!pib_hca_init_bar2(hca, errp)) {
        return false;
    }
    pci_register_bar(pci, PIB_HCA_BAR_REGS,
                     PCI_BASE_ADDRESS_SPACE_MEMORY | PCI_BASE_ADDRESS_MEM_TYPE_64, &hca->regs);
    pci_register_bar(pci, PIB_HCA_BAR_UAR,
                     PCI_BASE_ADDRESS_SPACE_MEMORY | PCI_BASE_ADDRESS_MEM_TYPE_64 |
                         PCI_BASE_ADDRESS_MEM_PREFETCH,
                     &hca->bar2);
    if (pci_pm_init(pci, PM_CAP_OFFSET, errp) < 0 ||
        pcie_endpoint_cap_init(pci, EXP_CAP_OFFSET) < 0) {
        return false;
    }
    /* D0 and D3hot, as every PCI Express function has; what it knows outlives D3hot. */
    pci_set_word(pci->config + PM_CAP_OFFSET + PCI_PM_PMC, PM_CAP_VERSION);
    pci_set_word(pci->config + PM_CAP_OFFSET + PCI_PM_CTRL, PCI_PM_CTRL_NO_SOFT_RESET);
    pci_set_word(pci->wmask + PM_CAP_OFFSET + PCI_PM_CTRL, PCI_PM_CTRL_STATE_MASK);
    pcie_cap_flr_init(pci);
    return true;
}

static bool pib_hca_init_msix(PCIDevice *pci, Error **errp)
{
    PibHca *hca = PIB_HCA(pci);

    memory_region_init(&hca->msix, OBJECT(hca), "pib-hca-msix", MSIX_BAR_SIZE);
    pci_register_bar(pci, PIB_HCA_BAR_MSIX,
                     PCI_BASE_ADDRESS_SPACE_MEMORY | PCI_BASE_ADDRESS_MEM_TYPE_64, &hca->msix);
    if (msix_init(pci, hca->prop.vectors, &hca->msix, PIB_HCA_BAR_MSIX, 0, &hca->msix,
                  PIB_HCA_BAR_MSIX, MSIX_PBA_OFFSET, 0, errp) < 0) {
        return false;
    }
    for (unsigned i = 0; i < hca->prop.vectors; i++) {
        msix_vector_use(pci, i);
    }
    return true;
}

static bool pib_hca_init_core(PibHca *hca, const PibHcaConfig *config, Error **errp)
{
    char *why = NULL;

    hca->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, pib_hca_timer, hca);
    /* Not qemu_bh_new_guarded(): it looks at the guard after us, when the device may be gone. */
    hca->bh = qemu_bh_new(pib_hca_bh, hca);
    hca->close_bh = qemu_bh_new(pib_hca_links_close, hca);
    hca->kicks_bh = qemu_bh_new(pib_hca_kicks_update, hca);
    hca->paused = !runstate_is_running();
    hca->core = pib_hca_core_create(config, &host_ops, hca, &why);
    if (!hca->core) {
        error_setg(errp, "%s", why ? why : "out of memory");
        free(why);
        return false;
    }
    return true;
}

/* Undoes whatever of realize was done. */
static void pib_hca_exit(PCIDevice *pci)
{
    PibHca *hca = PIB_HCA(pci);

    pib_hca_links_stop(hca);
    pib_hca_kicks_stop(hca);
    pib_hca_irqfds_stop(hca);
    pib_hca_dma_stop(hca);
    g_clear_pointer(&hca->vm_state, qemu_del_vm_change_state_handler);
    g_clear_pointer(&hca->core, pib_hca_core_destroy);
    g_clear_pointer(&hca->bh, qemu_bh_delete);
    g_clear_pointer(&hca->close_bh, qemu_bh_delete);
    g_clear_pointer(&hca->kicks_bh, qemu_bh_delete);
    g_clear_pointer(&hca->timer, timer_free);
    pib_hca_guids_release(hca);
    if (msix_present(pci)) {
        msix_unuse_all_vectors(pci);
        msix_uninit(pci, &hca->msix, &hca->msix);
    }
    if (pci->exp.exp_cap) {
        pcie_cap_exit(pci);
    }
    pib_hca_empty_bar2(hca);
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
    if (!pib_hca_links_parse(hca, errp) || !pib_hca_init_pci(pci, errp) ||
        !pib_hca_init_msix(pci, errp) || !pib_hca_init_core(hca, &config, errp)) {
        pib_hca_exit(pci);
        return;
    }
    pib_hca_irqfds_start(hca);
    pib_hca_dma_start(hca);
    hca->vm_state = qemu_add_vm_change_state_handler(pib_hca_vm_state, hca);
    pib_hca_links_start(hca);
}

static void pib_hca_config_write(PCIDevice *pci, uint32_t address, uint32_t value, int length)
{
    PibHca *hca = PIB_HCA(pci);

    pci_default_write_config(pci, address, value, length);
    /* Bus mastering or power may just have gone: what a link's thread has begun is over after this. */
    pib_hca_lock(hca);
    pib_hca_ram_changed(hca);
    pib_hca_unlock(hca);
    pib_hca_irqfds_update(hca);
    pcie_cap_flr_write_config(pci, address, value, length);
}

/* FLR, bus reset and system reset are one thing to an HCA: see "Reset" in docs/device-spec.md. */
static void pib_hca_reset_hold(Object *obj, ResetType type)
{
    PibHca *hca = PIB_HCA(obj);

    if (hca->core) {
        pci_word_test_and_clear_mask(PCI_DEVICE(hca)->config + PM_CAP_OFFSET + PCI_PM_CTRL,
                                     PCI_PM_CTRL_STATE_MASK);
        qemu_bh_cancel(hca->bh);
        pib_hca_lock(hca);
        pib_hca_ram_changed(hca); /* D0 again */
        pib_hca_core_reset(hca->core, false);
        qatomic_set(&hca->pending_vectors, 0);
        pib_hca_unlock(hca);
    }
}

static const VMStateDescription pib_hca_vmstate = {
    .name = TYPE_PIB_HCA,
    /* The state of QPs in flight is not saved yet; a refused snapshot beats a broken one. */
    .unmigratable = 1,
};

static void pib_hca_class_init(ObjectClass *klass, void *data)
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

static void pib_hca_instance_init(Object *obj)
{
    qemu_mutex_init(&PIB_HCA(obj)->lock);
}

static void pib_hca_instance_finalize(Object *obj)
{
    qemu_mutex_destroy(&PIB_HCA(obj)->lock);
}

static const TypeInfo pib_hca_types[] = {
    {
        .name = TYPE_PIB_HCA,
        .parent = TYPE_PCI_DEVICE,
        .instance_size = sizeof(PibHca),
        .instance_init = pib_hca_instance_init,
        .instance_finalize = pib_hca_instance_finalize,
        .class_init = pib_hca_class_init,
        .interfaces = (InterfaceInfo[]){{INTERFACE_PCIE_DEVICE}, {}},
    },
};

DEFINE_TYPES(pib_hca_types)
