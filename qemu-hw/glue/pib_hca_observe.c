/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a device tells about itself: the properties `objects`, `trace`, `waits` and `interrupts`, JSON for QMP's
 * qom-get, and trace events for -trace. See docs/observability.md.
 */
#include "qemu/osdep.h"
#include "pib_hca_glue.h"
#include "qapi/error.h"
#include "qemu/log.h"
#include "trace/control.h"

/*
 * QEMU's build makes the events of its own devices from trace-events files. A device that comes by dlopen()
 * has to say the same by hand; what is registered before main() looks at -trace is like any other event.
 */
uint16_t pib_hca_trace_on[PIB_HCA_TRACE_COUNT];

#define EVENT(number, text) {.name = (text), .sstate = true, .dstate = &pib_hca_trace_on[number]}
static TraceEvent events[PIB_HCA_TRACE_COUNT] = {
    [PIB_HCA_TRACE_MMIO_READ] = EVENT(PIB_HCA_TRACE_MMIO_READ, "pib_hca_mmio_read"),
    [PIB_HCA_TRACE_MMIO_WRITE] = EVENT(PIB_HCA_TRACE_MMIO_WRITE, "pib_hca_mmio_write"),
    [PIB_HCA_TRACE_INTERRUPT] = EVENT(PIB_HCA_TRACE_INTERRUPT, "pib_hca_interrupt"),
    [PIB_HCA_TRACE_LINK_IN] = EVENT(PIB_HCA_TRACE_LINK_IN, "pib_hca_link_in"),
    [PIB_HCA_TRACE_LINK_OUT] = EVENT(PIB_HCA_TRACE_LINK_OUT, "pib_hca_link_out"),
    [PIB_HCA_TRACE_MESSAGE] = EVENT(PIB_HCA_TRACE_MESSAGE, "pib_hca_message"),
};

static void __attribute__((constructor)) register_events(void)
{
    static TraceEvent *group[PIB_HCA_TRACE_COUNT + 1];

    for (size_t i = 0; i < PIB_HCA_TRACE_COUNT; i++) {
        group[i] = &events[i];
    }
    trace_event_register_group(group);
}

/* The "log" backend's form, the one that Debian's QEMU is built with; the last words are the event's own. */
void pib_hca_trace_print(PibHca *hca, PibHcaTraceEvent event, const char *format, ...)
{
    g_autofree char *path = NULL;
    g_autofree char *text = NULL;
    va_list arguments;

    if (!qemu_loglevel_mask(LOG_TRACE)) {
        return;
    }
    va_start(arguments, format);
    text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    path = object_get_canonical_path(OBJECT(hca));
    qemu_log("%s %s %s\n", events[event].name, path, text);
}

static char *tell(PibHca *hca, char *(*ask)(PibHcaCore *), Error **errp)
{
    char *copy;
    char *text;

    pib_hca_lock(hca);
    text = ask(hca->core);
    pib_hca_unlock(hca);

    if (!text) {
        error_setg(errp, "not enough memory");
        return NULL;
    }
    copy = g_strdup(text);
    free(text);
    return copy;
}

static char *get_objects(Object *obj, Error **errp)
{
    PibHca *hca = PIB_HCA(obj);

    return hca->core ? tell(hca, pib_hca_core_objects, errp) : g_strdup("{}");
}

static char *get_trace(Object *obj, Error **errp)
{
    PibHca *hca = PIB_HCA(obj);

    return hca->core ? tell(hca, pib_hca_core_trace, errp) : g_strdup("[]");
}

/* Without the lock, which reading it must not make others wait for. */
static char *get_waits(Object *obj, Error **errp)
{
    PibHca *hca = PIB_HCA(obj);

    return g_strdup_printf("{\"lock_waits\":%" PRIu32 ",\"lock_sleeps\":%" PRIu32 "}",
                           qatomic_read(&hca->lock_waits), qatomic_read(&hca->lock_sleeps));
}

static char *get_interrupts(Object *obj, Error **errp)
{
    PibHca *hca = PIB_HCA(obj);
    unsigned irqfds;
    uint64_t sent;

    pib_hca_irqfds_count(hca, &irqfds, &sent);
    return g_strdup_printf("{\"irqfds\":%u,\"by_irqfd\":%" PRIu64 ",\"by_qemu\":%" PRIu64 "}", irqfds, sent,
                           hca->messages_sent);
}

void pib_hca_observe_register(ObjectClass *klass)
{
    object_class_property_add_str(klass, "objects", get_objects, NULL);
    object_class_property_set_description(klass, "objects", "every object of the device, as JSON (read only)");
    object_class_property_add_str(klass, "waits", get_waits, NULL);
    object_class_property_set_description(
        klass, "waits", "how often the device's threads have waited for each other, as JSON (read only)");
    object_class_property_add_str(klass, "interrupts", get_interrupts, NULL);
    object_class_property_set_description(
        klass, "interrupts", "how many went which way, as JSON (read only)");
    object_class_property_add_str(klass, "trace", get_trace, NULL);
    object_class_property_set_description(
        klass, "trace", "the last packets, WQEs and commands, as JSON (read only; see trace-entries)");
}
