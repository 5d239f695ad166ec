/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * irqfds: with KVM an eventfd for each MSI-X vector that the guest has unmasked. Who has interrupts to send writes to
 * it, on any thread, and KVM does the rest without the BQL. QEMU sends what has none: all of it without KVM, what is
 * for a masked vector, and messages that are no local APIC's but a write to wherever the guest has pointed them.
 */
#include "qemu/osdep.h"
#include "hw/pci/msi.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci.h"
#include "pib_hca_glue.h"
#include "pib_hca_hw.h"
#include "qemu/event_notifier.h"
#include "system/kvm.h"

/* Where a write is an interrupt message (Intel SDM 3A, 11.11.1; AMD APM 2, 16.5). */
#define APIC_MESSAGES 0xfee00000
#define APIC_MESSAGES_SIZE 0x100000

#define NO_ROUTE (-1)

typedef struct PibHcaIrqfd {
    EventNotifier notifier;
    int route; /* KVM's number for the message, kept while the vector is masked; BQL */
} PibHcaIrqfd;

struct PibHcaIrqfds {
    QemuMutex lock; /* after the BQL and the core's */
    uint64_t ready; /* vectors that KVM listens to */
    uint64_t sent;
    bool may_send; /* the function may start transactions */
    unsigned count;
    PibHcaIrqfd vectors[PIB_HCA_MAX_VECTORS];
};

static void set_ready(PibHcaIrqfds *irqfds, unsigned vector, bool ready)
{
    qemu_mutex_lock(&irqfds->lock);
    irqfds->ready = deposit64(irqfds->ready, vector, 1, ready);
    qemu_mutex_unlock(&irqfds->lock);
}

static bool set_route(PCIDevice *pci, PibHcaIrqfd *irqfd, unsigned vector, MSIMessage message)
{
    if (irqfd->route == NO_ROUTE) {
        KVMRouteChange change = kvm_irqchip_begin_route_changes(kvm_state);
        int route = kvm_irqchip_add_msi_route(&change, vector, pci);

        if (route < 0) {
            return false;
        }
        irqfd->route = route;
        kvm_irqchip_commit_route_changes(&change);
        return true;
    }
    if (kvm_irqchip_update_msi_route(kvm_state, irqfd->route, message, pci) < 0) {
        return false;
    }
    kvm_irqchip_commit_routes(kvm_state);
    return true;
}

/* The guest has unmasked the vector. Never fails: what KVM has no room for, QEMU sends. */
static int unmasked(PCIDevice *pci, unsigned vector, MSIMessage message)
{
    PibHcaIrqfds *irqfds = PIB_HCA(pci)->irqfds;
    PibHcaIrqfd *irqfd = &irqfds->vectors[vector];

    if (message.address - APIC_MESSAGES < APIC_MESSAGES_SIZE && set_route(pci, irqfd, vector, message) &&
        kvm_irqchip_add_irqfd_notifier_gsi(kvm_state, &irqfd->notifier, NULL, irqfd->route) == 0) {
        set_ready(irqfds, vector, true);
    }
    return 0;
}

/* What is raised from here on waits as pending, in QEMU; what has been written before KVM has injected. */
static void masked(PCIDevice *pci, unsigned vector)
{
    PibHcaIrqfds *irqfds = PIB_HCA(pci)->irqfds;
    PibHcaIrqfd *irqfd = &irqfds->vectors[vector];

    if (irqfds->ready & BIT_ULL(vector)) {
        set_ready(irqfds, vector, false);
        kvm_irqchip_remove_irqfd_notifier_gsi(kvm_state, &irqfd->notifier, irqfd->route);
    }
}

static void free_irqfds(PibHcaIrqfds *irqfds)
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
            free_irqfds(irqfds); /* without descriptors to spare QEMU sends all */
            return;
        }
        irqfd->route = NO_ROUTE;
        irqfds->count++;
    }
    hca->irqfds = irqfds;
    msix_set_vector_notifiers(PCI_DEVICE(hca), unmasked, masked, NULL);
}

void pib_hca_irqfds_stop(PibHca *hca)
{
    if (hca->irqfds) {
        msix_unset_vector_notifiers(PCI_DEVICE(hca));
        free_irqfds(g_steal_pointer(&hca->irqfds));
    }
}

void pib_hca_irqfds_update(PibHca *hca)
{
    PCIDevice *pci = PCI_DEVICE(hca);

    if (hca->irqfds) {
        qemu_mutex_lock(&hca->irqfds->lock);
        hca->irqfds->may_send =
            pib_hca_may_master(hca) && (pci_get_word(pci->config + PCI_COMMAND) & PCI_COMMAND_MASTER);
        qemu_mutex_unlock(&hca->irqfds->lock);
    }
}

/* Under the lock to its end: a vector that is masked, or a function that may not, has nothing on its way. */
void pib_hca_irqfds_send(PibHca *hca)
{
    PibHcaIrqfds *irqfds = hca->irqfds;
    uint64_t ours;

    if (!irqfds || qatomic_read(&hca->pending_vectors) == 0) {
        return;
    }
    qemu_mutex_lock(&irqfds->lock);
    ours = irqfds->may_send ? irqfds->ready : 0;
    ours &= qatomic_fetch_and(&hca->pending_vectors, ~ours);
    for (uint64_t left = ours; left != 0; left &= left - 1) {
        PIB_HCA_TRACE(hca, PIB_HCA_TRACE_INTERRUPT, "vector %u", (unsigned)ctz64(left));
        event_notifier_set(&irqfds->vectors[ctz64(left)].notifier);
    }
    irqfds->sent += ctpop64(ours);
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
