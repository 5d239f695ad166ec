/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The services that the core calls; qemu-hw/core/base/host.h documents them. */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"
#include "hw/pci/msix.h"
#include "pib_hca_glue.h"
#include "qemu/bitops.h"
#include "qemu/error-report.h"
#include "qemu/log.h"
#include "qemu/timer.h"

static void pib_hca_raise_msix(void *opaque, unsigned vector)
{
    PibHca *hca = opaque;

    if (vector < hca->prop.vectors) {
        qatomic_or(&hca->pending_vectors, BIT_ULL(vector));
    }
}

/* Returns an enum VectorState. Without the BQL it may be out of date. */
static unsigned pib_hca_vector_state(void *opaque, unsigned vector)
{
    PibHca *hca = opaque;
    PCIDevice *pci = &hca->parent_obj;

    if (!msix_enabled(pci) || vector >= hca->prop.vectors) {
        return 2; /* VectorState::kDisabled */
    }
    return msix_is_masked(pci, vector) ? 1 : 0;
}

static int pib_hca_vcpu(void *opaque)
{
    return current_cpu != NULL ? current_cpu->cpu_index : -1; /* kNoVcpu */
}

static uint64_t pib_hca_now_ns(void *opaque)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static uint64_t pib_hca_real_ns(void *opaque)
{
    return get_clock();
}

static void pib_hca_set_timer(void *opaque, uint64_t deadline_ns)
{
    PibHca *hca = opaque;

    if (deadline_ns > INT64_MAX) {
        timer_del(hca->timer);
    } else {
        /*
         * QEMU calls expired timers in a loop. A deadline that has passed is
         * set to the next nanosecond, so that other work comes before it.
         */
        int64_t next = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) + 1;

        timer_mod_ns(hca->timer, MAX((int64_t)deadline_ns, next));
    }
}

static void pib_hca_log(void *opaque, unsigned level, const char *text)
{
    PibHca *hca = opaque;

    PIB_HCA_TRACE(hca, PIB_HCA_TRACE_MESSAGE, "%s", text);
    switch (level) {
    case 0: /* LogLevel::kGuestError */
        qemu_log_mask(LOG_GUEST_ERROR, "%s: %s\n", hca->path, text);
        break;
    case 1: /* LogLevel::kWarning */
        warn_report("%s: %s", hca->path, text);
        break;
    default:
        qemu_log_mask(LOG_TRACE, "%s: %s\n", hca->path, text);
        break;
    }
}

const PibHcaHostOps pib_hca_host_ops = {
    .dma_read = pib_hca_dma_read,
    .dma_write = pib_hca_dma_write,
    .dma_cmpxchg64 = pib_hca_dma_cmpxchg64,
    .ram = pib_hca_ram,
    .ram_written = pib_hca_ram_written,
    .dma_barrier = pib_hca_dma_barrier,
    .raise_msix = pib_hca_raise_msix,
    .vector_state = pib_hca_vector_state,
    .vcpu = pib_hca_vcpu,
    .now_ns = pib_hca_now_ns,
    .real_ns = pib_hca_real_ns,
    .set_timer = pib_hca_set_timer,
    .kicks = pib_hca_kicks,
    .wake = pib_hca_wake,
    .link_wake = pib_hca_link_wake,
    .link_write = pib_hca_link_write,
    .link_close = pib_hca_link_close,
    .link_kick = pib_hca_link_kick,
    .log = pib_hca_log,
    .record = pib_hca_record,
};
