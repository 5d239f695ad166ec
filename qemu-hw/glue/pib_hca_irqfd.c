/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * irqfds: with KVM, each MSI-X vector has an eventfd. KVM listens to it while
 * the guest has unmasked the vector, and any thread sends an interrupt by a
 * write to it; only the setup needs the BQL. QEMU sends the other interrupts:
 * all without KVM, those of masked vectors, and messages to an address that is
 * not an interrupt controller's.
 */
#include "qemu/osdep.h"
#include "hw/pci/msi.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci.h"
#include "pib_hca_glue.h"
#include "pib_hca_hw.h"
#include "pib_hca_qemu.h"
#include "qemu/bitops.h"
#include "qemu/event_notifier.h"
#include "qemu/thread.h"
#include "system/kvm.h"
#if PIB_HCA_QEMU_HAS("accel/accel-route.h")
#include "system/accel-irq.h"
#endif

/* Interrupt messages on x86 (Intel SDM 3A, 11.11.1; AMD APM 2, 16.5). */
#define APIC_MESSAGES 0xfee00000
#define APIC_MESSAGES_SIZE 0x100000
/* hw/intc/arm_gicv3_its_common.h; only Arm's QEMU has the type. */
#define TYPE_ITS "arm-gicv3-its-common"

#define NO_ROUTE (-1)

typedef struct PibHcaIrqfd {
    EventNotifier notifier;
    int route; /* number in KVM, kept while the vector is masked; BQL */
} PibHcaIrqfd;

struct PibHcaIrqfds {
    QemuMutex lock; /* taken after the BQL and the core's lock */
    uint64_t ready; /* vectors whose eventfd KVM listens to */
    uint64_t sent;
    bool may_send; /* the function may start transactions */
    unsigned count;
    PibHcaIrqfd vectors[PIB_HCA_MAX_VECTORS];
};

static bool pib_hca_is_its(hwaddr address)
{
    MemoryRegionSection section =
        memory_region_find(get_system_memory(), address, sizeof(uint32_t));
    bool found = section.mr && object_dynamic_cast(
                                   memory_region_owner(section.mr), TYPE_ITS);

    memory_region_unref(section.mr);
    return found;
}

/* KVM delivers only messages that are addressed to an interrupt controller. */
static bool pib_hca_kvm_delivers(hwaddr address)
{
    if (object_class_by_name(TYPE_ITS)) {
        return pib_hca_is_its(address);
    }
    return address - APIC_MESSAGES < APIC_MESSAGES_SIZE;
}

static void pib_hca_irqfd_set_ready(PibHcaIrqfds *irqfds, unsigned vector,
                                    bool ready)
{
    qemu_mutex_lock(&irqfds->lock);
    irqfds->ready = deposit64(irqfds->ready, vector, 1, ready);
    qemu_mutex_unlock(&irqfds->lock);
}

/*
 * Returns the new route of a vector, negative if there is none. A QEMU with
 * accel-route.h has the functions accel_irqchip_*() for a change of routes.
 * QEMU 10.2 has accel-irq.h, but still begins a change by KVM's function.
 */
static int pib_hca_irqfd_add_route(PCIDevice *pci, unsigned vector)
{
#if PIB_HCA_QEMU_HAS("accel/accel-route.h")
    __auto_type change = accel_irqchip_begin_route_changes();
    int route = accel_irqchip_add_msi_route(&change, vector, pci);

    if (route >= 0) {
        accel_irqchip_commit_route_changes(&change);
    }
#else
    KVMRouteChange change = kvm_irqchip_begin_route_changes(kvm_state);
    int route = kvm_irqchip_add_msi_route(&change, vector, pci);

    if (route >= 0) {
        kvm_irqchip_commit_route_changes(&change);
    }
#endif
    return route;
}

static bool pib_hca_irqfd_set_route(PCIDevice *pci, PibHcaIrqfd *irqfd,
                                    unsigned vector, MSIMessage message)
{
    if (irqfd->route == NO_ROUTE) {
        int route = pib_hca_irqfd_add_route(pci, vector);

        if (route < 0) {
            return false;
        }
        irqfd->route = route;
        return true;
    }
    if (kvm_irqchip_update_msi_route(kvm_state, irqfd->route, message, pci) <
        0) {
        return false;
    }
    kvm_irqchip_commit_routes(kvm_state);
    return true;
}

/* Never fails: QEMU sends the interrupts of a vector that KVM refuses. */
static int pib_hca_vector_unmasked(PCIDevice *pci, unsigned vector,
                                   MSIMessage message)
{
    PibHcaIrqfds *irqfds = PIB_HCA(pci)->irqfds;
    PibHcaIrqfd *irqfd = &irqfds->vectors[vector];

    if (pib_hca_kvm_delivers(message.address) &&
        pib_hca_irqfd_set_route(pci, irqfd, vector, message) &&
        kvm_irqchip_add_irqfd_notifier_gsi(kvm_state, &irqfd->notifier, NULL,
                                           irqfd->route) == 0) {
        pib_hca_irqfd_set_ready(irqfds, vector, true);
    }
    return 0;
}

/*
 * When this returns, KVM has injected all earlier interrupts. QEMU keeps later
 * ones as pending.
 */
static void pib_hca_vector_masked(PCIDevice *pci, unsigned vector)
{
    PibHcaIrqfds *irqfds = PIB_HCA(pci)->irqfds;
    PibHcaIrqfd *irqfd = &irqfds->vectors[vector];

    if (irqfds->ready & BIT_ULL(vector)) {
        pib_hca_irqfd_set_ready(irqfds, vector, false);
        kvm_irqchip_remove_irqfd_notifier_gsi(kvm_state, &irqfd->notifier,
                                              irqfd->route);
    }
}

static void pib_hca_irqfds_free(PibHcaIrqfds *irqfds)
{
    for (unsigned i = 0; i < irqfds->count; i++) {
        if (irqfds->vectors[i].route != NO_ROUTE) {
            kvm_irqchip_release_virq(kvm_state, irqfds->vectors[i].route);
        }
        event_notifier_cleanup(&irqfds->vectors[i].notifier);
    }
    qemu_mutex_destroy(&irqfds->lock);
    g_free(irqfds);
}

void pib_hca_irqfds_start(PibHca *hca)
{
    PibHcaIrqfds *irqfds;

    if (!kvm_msi_via_irqfd_enabled()) {
        return;
    }
    irqfds = g_new0(PibHcaIrqfds, 1);
    qemu_mutex_init(&irqfds->lock);
    while (irqfds->count < hca->prop.vectors) {
        PibHcaIrqfd *irqfd = &irqfds->vectors[irqfds->count];

        if (event_notifier_init(&irqfd->notifier, 0) < 0) {
            pib_hca_irqfds_free(irqfds); /* too few file descriptors */
            return;
        }
        irqfd->route = NO_ROUTE;
        irqfds->count++;
    }
    hca->irqfds = irqfds;
    msix_set_vector_notifiers(PCI_DEVICE(hca), pib_hca_vector_unmasked,
                              pib_hca_vector_masked, NULL);
}

void pib_hca_irqfds_stop(PibHca *hca)
{
    if (hca->irqfds) {
        msix_unset_vector_notifiers(PCI_DEVICE(hca));
        pib_hca_irqfds_free(g_steal_pointer(&hca->irqfds));
    }
}

void pib_hca_irqfds_update(PibHca *hca)
{
    uint16_t command = pci_get_word(hca->parent_obj.config + PCI_COMMAND);

    if (hca->irqfds) {
        qemu_mutex_lock(&hca->irqfds->lock);
        hca->irqfds->may_send =
            pib_hca_may_master(hca) && (command & PCI_COMMAND_MASTER);
        qemu_mutex_unlock(&hca->irqfds->lock);
    }
}

/*
 * Holds the lock while it writes the eventfds: masking a vector or stopping the
 * function takes the lock, so afterwards no interrupt is under way.
 */
void pib_hca_irqfds_send(PibHca *hca)
{
    PibHcaIrqfds *irqfds = hca->irqfds;
    uint64_t taken;

    if (!irqfds || qatomic_read(&hca->pending_vectors) == 0) {
        return;
    }
    qemu_mutex_lock(&irqfds->lock);
    taken = irqfds->may_send ? irqfds->ready : 0;
    taken &= qatomic_fetch_and(&hca->pending_vectors, ~taken);
    for (uint64_t left = taken; left != 0; left &= left - 1) {
        unsigned vector = ctz64(left);

        PIB_HCA_TRACE(hca, PIB_HCA_TRACE_INTERRUPT, "vector %u", vector);
        event_notifier_set(&irqfds->vectors[vector].notifier);
    }
    irqfds->sent += ctpop64(taken);
    qemu_mutex_unlock(&irqfds->lock);
}

void pib_hca_irqfds_count(PibHca *hca, unsigned *irqfds, uint64_t *sent)
{
    *irqfds = 0;
    *sent = 0;
    if (hca->irqfds) {
        qemu_mutex_lock(&hca->irqfds->lock);
        *irqfds = ctpop64(hca->irqfds->ready);
        *sent = hca->irqfds->sent;
        qemu_mutex_unlock(&hca->irqfds->lock);
    }
}
