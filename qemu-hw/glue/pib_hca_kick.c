/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kicks: stores to a UAR page that signal an eventfd, for UARs whose shadow
 * doorbell page the guest has set up. KVM signals the eventfd without an exit
 * to QEMU; TCG and qtest signal it instead of calling the MMIO handler. The
 * main loop reads the eventfd. The value of the store is lost and not needed.
 *
 * A device has at most GROUPS eventfds, however many UARs the guest uses:
 * QEMU's file descriptors are limited, and a guest must not exhaust them. UARs
 * with the same number modulo GROUPS share one.
 */
#include "qemu/osdep.h"
#include "pib_hca_glue.h"
#include "pib_hca_hw.h"
#include "qemu/bitmap.h"
#include "qemu/event_notifier.h"
#include "qemu/main-loop.h"

#define GROUPS 32

typedef struct PibHcaKickGroup {
    PibHca *hca;
    unsigned uars; /* UARs that use the eventfd; 0: it is closed */
    EventNotifier notifier;
} PibHcaKickGroup;

struct PibHcaKicks {
    QEMUBH *bh; /* runs after a change of `wanted` */
    /* UARs that are to have an eventfd. Protected by the core's lock. */
    DECLARE_BITMAP(wanted, PIB_HCA_MAX_UARS);
    /* UARs that have an eventfd. Protected by the BQL. */
    DECLARE_BITMAP(served, PIB_HCA_MAX_UARS);
    PibHcaKickGroup groups[GROUPS];
};

/* Kicks of a stopped VM wait for pib_hca_kicks_resume(). */
static void pib_hca_kicked(EventNotifier *notifier)
{
    PibHcaKickGroup *group = container_of(notifier, PibHcaKickGroup, notifier);
    PibHca *hca = group->hca;
    PibHcaKicks *kicks = hca->kicks;
    bool was_engaged;

    if (!event_notifier_test_and_clear(notifier) || hca->paused) {
        return;
    }
    was_engaged = pib_hca_enter(hca);
    for (uint32_t uar = group - kicks->groups; uar < PIB_HCA_MAX_UARS;
         uar += GROUPS) {
        if (test_bit(uar, kicks->served)) {
            pib_hca_core_kick(hca->core, uar);
        }
    }
    pib_hca_leave(hca, was_engaged);
}

static hwaddr pib_hca_kick_offset(uint32_t uar)
{
    return (hwaddr)uar * PIB_HCA_UAR_PAGE_SIZE + PIB_HCA_UAR_KICK;
}

/* If QEMU has no file descriptor left, kicks of this UAR stay MMIO. */
static void pib_hca_kick_start(PibHca *hca, uint32_t uar)
{
    PibHcaKickGroup *group = &hca->kicks->groups[uar % GROUPS];

    if (group->uars == 0) {
        if (event_notifier_init(&group->notifier, 0) < 0) {
            return;
        }
        event_notifier_set_handler(&group->notifier, pib_hca_kicked);
    }
    group->uars++;
    set_bit(uar, hca->kicks->served);
    memory_region_add_eventfd(&hca->uar, pib_hca_kick_offset(uar), 4, false, 0,
                              &group->notifier);
}

static void pib_hca_kick_stop(PibHca *hca, uint32_t uar)
{
    PibHcaKickGroup *group = &hca->kicks->groups[uar % GROUPS];

    memory_region_del_eventfd(&hca->uar, pib_hca_kick_offset(uar), 4, false, 0,
                              &group->notifier);
    clear_bit(uar, hca->kicks->served);
    group->uars--;
    if (group->uars == 0) {
        event_notifier_set_handler(&group->notifier, NULL);
        event_notifier_cleanup(&group->notifier);
    }
}

static void pib_hca_kicks_update(void *opaque)
{
    PibHca *hca = opaque;
    PibHcaKicks *kicks = hca->kicks;
    DECLARE_BITMAP(wanted, PIB_HCA_MAX_UARS);

    pib_hca_lock(hca);
    bitmap_copy(wanted, kicks->wanted, PIB_HCA_MAX_UARS);
    pib_hca_unlock(hca);
    for (uint32_t uar = 0; uar < PIB_HCA_MAX_UARS; uar++) {
        if (test_bit(uar, wanted) && !test_bit(uar, kicks->served)) {
            pib_hca_kick_start(hca, uar);
        } else if (!test_bit(uar, wanted) && test_bit(uar, kicks->served)) {
            pib_hca_kick_stop(hca, uar);
        }
    }
}

void pib_hca_kicks_init(PibHca *hca)
{
    hca->kicks = g_new0(PibHcaKicks, 1);
    hca->kicks->bh = qemu_bh_new(pib_hca_kicks_update, hca);
    for (unsigned i = 0; i < GROUPS; i++) {
        hca->kicks->groups[i].hca = hca;
    }
}

void pib_hca_kicks_free(PibHca *hca)
{
    if (!hca->kicks) {
        return;
    }
    for (uint32_t uar = 0; uar < PIB_HCA_MAX_UARS; uar++) {
        if (test_bit(uar, hca->kicks->served)) {
            pib_hca_kick_stop(hca, uar);
        }
    }
    qemu_bh_delete(hca->kicks->bh);
    g_clear_pointer(&hca->kicks, g_free);
}

void pib_hca_kicks_resume(PibHca *hca)
{
    for (unsigned i = 0; i < GROUPS; i++) {
        if (hca->kicks->groups[i].uars != 0) {
            event_notifier_set(&hca->kicks->groups[i].notifier);
        }
    }
}

/*
 * Host::kicks(), on any thread that holds the core's lock. The bottom half
 * makes and closes eventfds, which needs the BQL.
 */
void pib_hca_kicks(void *opaque, uint32_t uar, bool wanted)
{
    PibHca *hca = opaque;

    if (wanted) {
        set_bit(uar, hca->kicks->wanted);
    } else {
        clear_bit(uar, hca->kicks->wanted);
    }
    qemu_bh_schedule(hca->kicks->bh);
}
