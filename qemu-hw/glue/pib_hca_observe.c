/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Properties that show the state of a device as JSON, for QMP's qom-get;
 * docs/observability.md describes them.
 */
#include "qemu/osdep.h"
#include "pib_hca_glue.h"
#include "qapi/error.h"
static char *pib_hca_ask_core(PibHca *hca, char *(*ask)(PibHcaCore *),
                              Error **errp)
{
    char *copy;
    char *text;

    pib_hca_lock(hca);
    text = ask(hca->core);
    pib_hca_unlock(hca);
    if (!text) {
        error_setg(errp, "no memory for the answer: free some, and ask again");
        return NULL;
    }
    copy = g_strdup(text);
    free(text);
    return copy;
}

static char *pib_hca_get_objects(Object *obj, Error **errp)
{
    PibHca *hca = PIB_HCA(obj);

    return hca->core ? pib_hca_ask_core(hca, pib_hca_core_objects, errp)
                     : g_strdup("{}");
}

static char *pib_hca_get_refusals(Object *obj, Error **errp)
{
    PibHca *hca = PIB_HCA(obj);

    return hca->core ? pib_hca_ask_core(hca, pib_hca_core_refusals, errp)
                     : g_strdup("{}");
}

static char *pib_hca_get_journal(Object *obj, Error **errp)
{
    PibHca *hca = PIB_HCA(obj);

    return hca->core ? pib_hca_ask_core(hca, pib_hca_core_journal, errp)
                     : g_strdup("{}");
}

static char *pib_hca_get_trace(Object *obj, Error **errp)
{
    PibHca *hca = PIB_HCA(obj);

    return hca->core ? pib_hca_ask_core(hca, pib_hca_core_trace, errp)
                     : g_strdup("[]");
}

static char *pib_hca_get_coverage(Object *obj, Error **errp)
{
    PibHca *hca = PIB_HCA(obj);

    return hca->core ? pib_hca_ask_core(hca, pib_hca_core_coverage, errp)
                     : g_strdup("{}");
}

static char *pib_hca_get_taken_coverage(Object *obj, Error **errp)
{
    PibHca *hca = PIB_HCA(obj);

    return hca->core ? pib_hca_ask_core(hca, pib_hca_core_take_coverage, errp)
                     : g_strdup("{}");
}

/* Does not take the lock: a wait for it would be counted. */
static char *pib_hca_get_waits(Object *obj, Error **errp)
{
    uint32_t waits, sleeps;

    pib_hca_lock_count(PIB_HCA(obj), &waits, &sleeps);
    return g_strdup_printf("{\"lock_waits\":%" PRIu32
                           ",\"lock_sleeps\":%" PRIu32 "}",
                           waits, sleeps);
}

static char *pib_hca_get_interrupts(Object *obj, Error **errp)
{
    PibHca *hca = PIB_HCA(obj);
    unsigned irqfds;
    uint64_t sent;

    pib_hca_irqfds_count(hca, &irqfds, &sent);
    return g_strdup_printf("{\"irqfds\":%u,\"by_irqfd\":%" PRIu64
                           ",\"by_qemu\":%" PRIu64 "}",
                           irqfds, sent, hca->messages_sent);
}

static const struct {
    const char *name;
    char *(*get)(Object *obj, Error **errp);
    const char *text;
} pib_hca_shown[] = {
    {"objects", pib_hca_get_objects,
     "every object of the device, as JSON (read only)"},
    {"refusals", pib_hca_get_refusals,
     "the last refused commands and work requests, as JSON (read only)"},
    {"journal", pib_hca_get_journal,
     "the last failed work requests and asynchronous events, as JSON "
     "(read only)"},
    {"waits", pib_hca_get_waits,
     "how often the device's threads have waited for each other, as JSON "
     "(read only)"},
    {"interrupts", pib_hca_get_interrupts,
     "interrupts sent by KVM and by QEMU, as JSON (read only)"},
    {"trace", pib_hca_get_trace,
     "the last packets, WQEs and commands, as JSON (read only; see "
     "trace-entries)"},
    {"coverage", pib_hca_get_coverage,
     "how much of the device its driver has used, as JSON (read only)"},
    {"coverage-taken", pib_hca_get_taken_coverage,
     "as coverage; each read resets it (read only)"},
};

void pib_hca_observe_register(ObjectClass *klass)
{
    for (size_t i = 0; i < G_N_ELEMENTS(pib_hca_shown); i++) {
        const char *name = pib_hca_shown[i].name;

        object_class_property_add_str(klass, name, pib_hca_shown[i].get, NULL);
        object_class_property_set_description(klass, name,
                                              pib_hca_shown[i].text);
    }
}
