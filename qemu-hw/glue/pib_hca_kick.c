/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kicks: one eventfd for each UAR page whose index page the guest has set up. KVM signals it without leaving the
 * guest's processor to QEMU, TCG and qtest instead of calling the MMIO handler; the main loop reads it. The value
 * that was stored is lost, and none is needed.
 */
#include "qemu/osdep.h"
#include "pib_hca_glue.h"
#include "pib_hca_hw.h"
#include "qemu/event_notifier.h"
#include "qemu/main-loop.h"

QEMU_BUILD_BUG_ON(PIB_HCA_GLUE_UARS != PIB_HCA_MAX_UARS);

struct PibHcaKick {
    PibHca *hca;
    uint32_t uar;
    EventNotifier notifier;
};

/* A stopped VM's kicks wait for pib_hca_kicks_again(). */
static void kicked(EventNotifier *notifier)
{
    PibHcaKick *kick = container_of(notifier, PibHcaKick, notifier);
    PibHca *hca = kick->hca;
    bool was_engaged;

    if (!event_notifier_test_and_clear(notifier) || hca->paused) {
        return;
    }
    was_engaged = pib_hca_enter(hca);
    pib_hca_core_kick(hca->core, kick->uar);
    pib_hca_leave(hca, was_engaged);
}

static hwaddr kick_offset(uint32_t uar)
{
    return (hwaddr)uar * PIB_HCA_UAR_PAGE_SIZE + PIB_HCA_UAR_KICK;
}

/* Without descriptors to spare the kicks of this UAR go on coming as doorbells. */
static void start(PibHca *hca, uint32_t uar)
{
    PibHcaKick *kick = g_new0(PibHcaKick, 1);

    if (event_notifier_init(&kick->notifier, 0) < 0) {
        g_free(kick);
        return;
    }
    kick->hca = hca;
    kick->uar = uar;
    hca->kicks[uar] = kick;
    event_notifier_set_handler(&kick->notifier, kicked);
    memory_region_add_eventfd(&hca->uar, kick_offset(uar), 4, false, 0, &kick->notifier);
}

static void stop(PibHca *hca, uint32_t uar)
{
    PibHcaKick *kick = g_steal_pointer(&hca->kicks[uar]);

    memory_region_del_eventfd(&hca->uar, kick_offset(uar), 4, false, 0, &kick->notifier);
    event_notifier_set_handler(&kick->notifier, NULL);
    event_notifier_cleanup(&kick->notifier);
    g_free(kick);
}

/* From any thread, with the core's lock; what is to be done needs the BQL. */
void pib_hca_kicks(void *opaque, uint32_t uar, bool wanted)
{
    PibHca *hca = opaque;

    if (wanted) {
        set_bit(uar, hca->kicks_wanted);
    } else {
        clear_bit(uar, hca->kicks_wanted);
    }
    qemu_bh_schedule(hca->kicks_bh);
}

void pib_hca_kicks_update(void *opaque)
{
    PibHca *hca = opaque;
    unsigned long wanted[BITS_TO_LONGS(PIB_HCA_GLUE_UARS)];

    pib_hca_lock(hca);
    memcpy(wanted, hca->kicks_wanted, sizeof(wanted));
    pib_hca_unlock(hca);
    for (uint32_t uar = 0; uar < PIB_HCA_GLUE_UARS; uar++) {
        if (test_bit(uar, wanted) && !hca->kicks[uar]) {
            start(hca, uar);
        } else if (!test_bit(uar, wanted) && hca->kicks[uar]) {
            stop(hca, uar);
        }
    }
}

void pib_hca_kicks_again(PibHca *hca)
{
    for (uint32_t uar = 0; uar < PIB_HCA_GLUE_UARS; uar++) {
        if (hca->kicks[uar]) {
            event_notifier_set(&hca->kicks[uar]->notifier);
        }
    }
}

void pib_hca_kicks_stop(PibHca *hca)
{
    for (uint32_t uar = 0; uar < PIB_HCA_GLUE_UARS; uar++) {
        if (hca->kicks[uar]) {
            stop(hca, uar);
        }
    }
}
