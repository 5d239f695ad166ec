/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trace events for -trace; docs/observability.md lists them. QEMU's build
 * generates the events of its own devices from trace-events files. This device
 * is loaded by dlopen(), so it registers its events itself, before main()
 * handles -trace.
 */
#include "qemu/osdep.h"
#include "pib_hca_glue.h"
#include "qemu/log.h"
#include "trace/control.h"

uint16_t pib_hca_trace_on[PIB_HCA_TRACE_COUNT];

#define EVENT(number, text) \
    {.name = (text), .sstate = true, .dstate = &pib_hca_trace_on[number]}
static TraceEvent pib_hca_trace_events[PIB_HCA_TRACE_COUNT] = {
    [PIB_HCA_TRACE_MMIO_READ] =
        EVENT(PIB_HCA_TRACE_MMIO_READ, "pib_hca_mmio_read"),
    [PIB_HCA_TRACE_MMIO_WRITE] =
        EVENT(PIB_HCA_TRACE_MMIO_WRITE, "pib_hca_mmio_write"),
    [PIB_HCA_TRACE_INTERRUPT] =
        EVENT(PIB_HCA_TRACE_INTERRUPT, "pib_hca_interrupt"),
    [PIB_HCA_TRACE_LINK_IN] = EVENT(PIB_HCA_TRACE_LINK_IN, "pib_hca_link_in"),
    [PIB_HCA_TRACE_LINK_OUT] =
        EVENT(PIB_HCA_TRACE_LINK_OUT, "pib_hca_link_out"),
    [PIB_HCA_TRACE_MESSAGE] = EVENT(PIB_HCA_TRACE_MESSAGE, "pib_hca_message"),
};

static void __attribute__((constructor)) pib_hca_trace_register(void)
{
    static TraceEvent *group[PIB_HCA_TRACE_COUNT + 1];

    for (size_t i = 0; i < PIB_HCA_TRACE_COUNT; i++) {
        group[i] = &pib_hca_trace_events[i];
    }
    trace_event_register_group(group);
}

/* Prints in the form of QEMU's "log" backend, which Debian builds. */
void pib_hca_trace_print(PibHca *hca, PibHcaTraceEvent event,
                         const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list arguments;

    if (!qemu_loglevel_mask(LOG_TRACE)) {
        return;
    }
    va_start(arguments, format);
    text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    qemu_log("%s %s %s\n", pib_hca_trace_events[event].name, hca->path, text);
}
