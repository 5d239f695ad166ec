/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The properties of -device pib-hca: names, descriptions, checks, and the
 * conversion of their values to PibHcaConfig. The message for a refused value
 * is one line that lists the accepted values.
 */
#include "qemu/osdep.h"
#include "pib_hca_glue.h"
#include "pib_hca_hw.h"
#include "pib_hca_qemu.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "qemu/cutils.h"
#include "qemu/error-report.h"
#include "qemu/guest-random.h"
#include "qemu/sockets.h"
#include "qemu/units.h"
#include "qemu/uuid.h"
#include "system/kvm.h"
#include "system/system.h"

#define DEVICE_MEMORY_DEFAULT MiB
#define DEVICE_MEMORY_MAX GiB

typedef struct PibHcaChoice {
    const char *word;
    uint8_t value;
    uint8_t value_ext;
} PibHcaChoice;

/* PortInfo:LinkWidthSupported with all widths up to the named one. */
static const PibHcaChoice pib_hca_width_choices[] = {
    {"1x", 1, 0},
    {"4x", 3, 0},
    {"8x", 7, 0},
    {"12x", 15, 0},
    {NULL, 0, 0},
};

/*
 * LinkSpeedSupported and LinkSpeedExtSupported with all speeds up to the named
 * one.
 */
static const PibHcaChoice pib_hca_speed_choices[] = {
    {"sdr", 1, 0}, {"ddr", 3, 0}, {"qdr", 7, 0},  {"fdr", 7, 1},
    {"edr", 7, 3}, {"hdr", 7, 7}, {"ndr", 7, 15}, {NULL, 0, 0},
};

/* PortInfo:MTUCap */
static const PibHcaChoice pib_hca_mtu_choices[] = {
    {"256", 1, 0},  {"512", 2, 0},  {"1024", 3, 0},
    {"2048", 4, 0}, {"4096", 5, 0}, {NULL, 0, 0},
};

/* PortInfo:VLCap */
static const PibHcaChoice pib_hca_vl_choices[] = {
    {"1", 1, 0}, {"2", 2, 0},  {"4", 3, 0},
    {"8", 4, 0}, {"15", 5, 0}, {NULL, 0, 0},
};

/* enum NumberChoice of the core */
static const PibHcaChoice pib_hca_qpn_choices[] = {
    {"round", 0, 0}, {"lowest", 1, 0}, {"random", 2, 0}, {NULL, 0, 0},
};

/* enum Strictness of the core */
static const PibHcaChoice pib_hca_strict_choices[] = {
    {"off", 0, 0}, {"on", 1, 0}, {"fatal", 2, 0}, {NULL, 0, 0},
};

#define DOORBELLS_AUTO 2

/* Config::shadow_doorbells */
static const PibHcaChoice pib_hca_doorbell_choices[] = {
    {"auto", DOORBELLS_AUTO, 0},
    {"inline", 0, 0},
    {"eventfd", 1, 0},
    {NULL, 0, 0},
};

/* Finds `word`, or `unset` if `word` is NULL. */
static const PibHcaChoice *pib_hca_choose(const PibHcaChoice *choices,
                                          const char *property,
                                          const char *word, const char *unset,
                                          Error **errp)
{
    g_autoptr(GString) words = g_string_new(NULL);

    word = word ? word : unset;
    for (const PibHcaChoice *choice = choices; choice->word; choice++) {
        if (g_ascii_strcasecmp(choice->word, word) == 0) {
            return choice;
        }
        g_string_append_printf(words, "%s%s", words->len ? ", " : "",
                               choice->word);
    }
    error_setg(errp, "%s=%s: expected one of %s", property, word, words->str);
    return NULL;
}

static const PibHcaChoice *pib_hca_choose_number(const PibHcaChoice *choices,
                                                 const char *property,
                                                 uint32_t number, Error **errp)
{
    g_autofree char *word = g_strdup_printf("%u", number);

    return pib_hca_choose(choices, property, word, NULL, errp);
}

/*
 * The address in fabric=unix:PATH or fabric=tcp:HOST:PORT. socket_parse()
 * expects TCP addresses without a prefix, and would also take a descriptor or a
 * vsock address after "tcp:".
 */
SocketAddress *pib_hca_fabric_address(const char *fabric, Error **errp)
{
    static const char *const others[] = {"unix:", "vsock:", "fd:"};
    const char *address = fabric;
    bool known = g_str_has_prefix(fabric, "unix:");

    if (!known && strstart(fabric, "tcp:", &address)) {
        known = true;
        for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
            known = known && !g_str_has_prefix(address, others[i]);
        }
    }
    if (!known) {
        error_setg(errp, "fabric=%s: expected unix:PATH or tcp:HOST:PORT",
                   fabric);
        return NULL;
    }
    return socket_parse(address, errp);
}

/*
 * A locally administered GUID (bit 57). Its first byte is 0x06: Linux's ib_cm
 * refuses service IDs that begin with 0x02, and SRP targets use their GUID as
 * service ID. A VM with a UUID has the same GUID at each start for a device in
 * the same slot behind the same root port; otherwise it is random. The low byte
 * counts the ports.
 */
static uint64_t pib_hca_default_node_guid(PibHca *hca)
{
    uint64_t bits;

    if (qemu_uuid_set) {
        g_autofree char *uuid = qemu_uuid_unparse_strdup(&qemu_uuid);
        g_autofree char *slots = qdev_get_dev_path(DEVICE(hca));
        g_autofree char *place = g_strdup_printf("%s/%s", uuid, slots);

        bits = ((uint64_t)g_str_hash(place) << 32) ^ g_str_hash(uuid);
    } else {
        qemu_guest_getrandom_nofail(&bits, sizeof(bits));
    }
    return 0x0650000000000000ull | (bits & 0x0000ffffffffff00ull);
}

/*
 * Returns the name of the property that excludes peer copy, because with it the
 * core makes every access to guest memory itself; NULL: none is set.
 */
static const char *pib_hca_without_peer_copy(const PibHcaProps *prop)
{
    if (prop->record && *prop->record) {
        return "record";
    }
    return prop->adversary ? "adversary" : prop->trace_dma ? "trace-dma" : NULL;
}

static bool pib_hca_peer_copy_config(const PibHcaProps *prop)
{
    const char *other = pib_hca_without_peer_copy(prop);

    if (!prop->peer_copy) {
        return false;
    }
    if (other) {
        warn_report("pib-hca: peer-copy=on has no effect: with %s the device "
                    "copies payload by itself; leave out one of the two",
                    other);
        return false;
    }
    return pib_hca_peer_copy_possible();
}

static bool pib_hca_link_config(PibHca *hca, PibHcaConfig *config,
                                Error **errp)
{
    const PibHcaProps *prop = &hca->prop;
    const PibHcaChoice *width = pib_hca_choose(
        pib_hca_width_choices, "link-width", prop->link_width, "4x", errp);
    const PibHcaChoice *speed =
        width ? pib_hca_choose(pib_hca_speed_choices, "link-speed",
                               prop->link_speed, "edr", errp)
              : NULL;
    const PibHcaChoice *mtu =
        speed ? pib_hca_choose_number(pib_hca_mtu_choices, "mtu", prop->mtu,
                                      errp)
              : NULL;
    const PibHcaChoice *vls =
        mtu ? pib_hca_choose_number(pib_hca_vl_choices, "vls", prop->vls, errp)
            : NULL;

    if (!vls) {
        return false;
    }
    config->link_width = width->value;
    config->link_speed = speed->value;
    config->link_speed_ext = speed->value_ext;
    config->mtu_cap = mtu->value;
    config->vl_cap = vls->value;
    config->bursts = prop->bursts;
    config->peer_copy = pib_hca_peer_copy_config(prop);
    return true;
}

/*
 * With KVM, a store to a doorbell is an exit that an eventfd avoids. With TCG,
 * the store is cheap, and an eventfd would add a wake-up.
 */
static bool pib_hca_doorbell_config(PibHca *hca, PibHcaConfig *config,
                                    Error **errp)
{
    const PibHcaChoice *way =
        pib_hca_choose(pib_hca_doorbell_choices, "doorbells",
                       hca->prop.doorbells, "auto", errp);

    if (!way) {
        return false;
    }
    config->shadow_doorbells =
        way->value == DOORBELLS_AUTO ? kvm_enabled() : way->value;
    return true;
}

/* Passes changed values to the core; before realize, PibHcaConfig has them. */
static void pib_hca_choose_trace(PibHca *hca, Error **errp)
{
    bool chosen;

    if (!hca->core) {
        return;
    }
    pib_hca_lock(hca);
    chosen = pib_hca_core_choose_trace(hca->core, hca->prop.trace_entries,
                                       hca->prop.trace_registers,
                                       hca->prop.trace_interrupts);
    pib_hca_unlock(hca);
    if (!chosen) {
        error_setg(errp, "no memory for the trace: free some, and ask again");
    }
}

static void pib_hca_get_trace_entries(Object *obj, Visitor *v,
                                      const char *name, void *opaque,
                                      Error **errp)
{
    visit_type_uint32(v, name, &PIB_HCA(obj)->prop.trace_entries, errp);
}

static void pib_hca_set_trace_entries(Object *obj, Visitor *v,
                                      const char *name, void *opaque,
                                      Error **errp)
{
    uint32_t entries;

    if (!visit_type_uint32(v, name, &entries, errp)) {
        return;
    }
    if (entries > 65536) {
        error_setg(errp, "trace-entries=%u: expected 0 to 65536", entries);
        return;
    }
    PIB_HCA(obj)->prop.trace_entries = entries;
    pib_hca_choose_trace(PIB_HCA(obj), errp);
}

static void pib_hca_get_trace_switch(Object *obj, Visitor *v, const char *name,
                                     void *opaque, Error **errp)
{
    visit_type_bool(v, name, object_field_prop_ptr(obj, opaque), errp);
}

static void pib_hca_set_trace_switch(Object *obj, Visitor *v, const char *name,
                                     void *opaque, Error **errp)
{
    bool on;

    if (visit_type_bool(v, name, &on, errp)) {
        *(bool *)object_field_prop_ptr(obj, opaque) = on;
        pib_hca_choose_trace(PIB_HCA(obj), errp);
    }
}

/* These properties may change while the device runs. */
static const PropertyInfo pib_hca_prop_trace_entries = {
    .type = "uint32",
    .get = pib_hca_get_trace_entries,
    .set = pib_hca_set_trace_entries,
    .realized_set_allowed = true,
};

static const PropertyInfo pib_hca_prop_trace_switch = {
    .type = "bool",
    .get = pib_hca_get_trace_switch,
    .set = pib_hca_set_trace_switch,
    .realized_set_allowed = true,
};

/* Properties that observe devices or test applications. */
static bool pib_hca_tool_config(PibHca *hca, PibHcaConfig *config,
                                Error **errp)
{
    const PibHcaChoice *reuse =
        pib_hca_choose(pib_hca_qpn_choices, "qpn-reuse", hca->prop.qpn_reuse,
                       "round", errp);
    const PibHcaChoice *strict =
        reuse ? pib_hca_choose(pib_hca_strict_choices, "strict",
                               hca->prop.strict, "off", errp)
              : NULL;

    if (!strict) {
        return false;
    }
    config->trace_entries = hca->prop.trace_entries;
    config->trace_registers = hca->prop.trace_registers;
    config->trace_dma = hca->prop.trace_dma;
    config->trace_interrupts = hca->prop.trace_interrupts;
    config->inject = hca->prop.inject;
    config->poison_wc = hca->prop.poison_wc;
    config->shuffle_srq = hca->prop.shuffle_srq;
    config->warnings = hca->prop.warnings;
    config->qpn_reuse = reuse->value;
    config->strict = strict->value;
    config->adversary = hca->prop.adversary;
    return true;
}

static bool pib_hca_check_sizes(const PibHcaProps *prop, Error **errp)
{
    if (prop->ports < 1 || prop->ports > PIB_HCA_GLUE_PORTS) {
        error_setg(errp, "ports=%u: expected 1 to %d", prop->ports,
                   PIB_HCA_GLUE_PORTS);
        return false;
    }
    if (prop->vectors < 1 || prop->vectors > PIB_HCA_MAX_VECTORS) {
        error_setg(errp, "vectors=%u: expected 1 to %d", prop->vectors,
                   PIB_HCA_MAX_VECTORS);
        return false;
    }
    if (prop->device_memory > DEVICE_MEMORY_MAX ||
        prop->device_memory % PIB_HCA_UAR_PAGE_SIZE != 0) {
        error_setg(errp,
                   "device-memory=%" PRIu64 ": expected a multiple of 4096, "
                   "up to 1 GiB",
                   prop->device_memory);
        return false;
    }
    if (prop->node_description && strlen(prop->node_description) > 63) {
        error_setg(errp, "node-description: expected at most 63 bytes");
        return false;
    }
    return true;
}

static void pib_hca_set_default_names(PibHca *hca)
{
    PibHcaProps *prop = &hca->prop;
    const char *vm = qemu_get_vm_name();

    if (!prop->node_guid) {
        prop->node_guid = pib_hca_default_node_guid(hca);
    }
    if (!prop->port_guid) {
        prop->port_guid = prop->node_guid + 1;
    }
    if (!prop->node_description) {
        prop->node_description = g_strdup_printf("%s pib-hca", vm ? vm : "vm");
    }
}

bool pib_hca_props_to_config(PibHca *hca, PibHcaConfig *config, Error **errp)
{
    const PibHcaProps *prop = &hca->prop;

    pib_hca_set_default_names(hca);
    if (!pib_hca_check_sizes(prop, errp)) {
        return false;
    }
    config->port_count = prop->ports;
    config->vector_count = prop->vectors;
    config->node_guid = prop->node_guid;
    config->node_description = prop->node_description;
    config->device_memory_pages = prop->device_memory / PIB_HCA_UAR_PAGE_SIZE;
    for (unsigned i = 0; i < prop->ports; i++) {
        config->port_guids[i] = prop->port_guid + i;
    }
    return pib_hca_link_config(hca, config, errp) &&
           pib_hca_doorbell_config(hca, config, errp) &&
           pib_hca_tool_config(hca, config, errp);
}

/* GUIDs of this process. The switch checks for duplicates of other VMs. */
static GHashTable *pib_hca_claimed_guids;

static bool pib_hca_guid_claim(uint64_t guid, Error **errp)
{
    if (!pib_hca_claimed_guids) {
        pib_hca_claimed_guids =
            g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    }
    if (!g_hash_table_add(pib_hca_claimed_guids,
                          g_memdup2(&guid, sizeof(guid)))) {
        error_setg(errp,
                   "GUID 0x%016" PRIx64 " belongs to another pib-hca of this "
                   "VM already: give each its own node-guid and port-guid",
                   guid);
        return false;
    }
    return true;
}

bool pib_hca_guids_claim(PibHca *hca, const PibHcaConfig *config, Error **errp)
{
    uint64_t guids[1 + PIB_HCA_GLUE_PORTS] = {config->node_guid};

    memcpy(guids + 1, config->port_guids, sizeof(config->port_guids));
    for (unsigned i = 0; i <= config->port_count; i++) {
        if (!pib_hca_guid_claim(guids[i], errp)) {
            while (i-- > 0) {
                g_hash_table_remove(pib_hca_claimed_guids, &guids[i]);
            }
            return false;
        }
    }
    hca->guids_claimed = true;
    return true;
}

void pib_hca_guids_release(PibHca *hca)
{
    if (!hca->guids_claimed) {
        return;
    }
    g_hash_table_remove(pib_hca_claimed_guids, &hca->prop.node_guid);
    for (unsigned i = 0; i < hca->prop.ports; i++) {
        uint64_t guid = hca->prop.port_guid + i;

        g_hash_table_remove(pib_hca_claimed_guids, &guid);
    }
    hca->guids_claimed = false;
}

static const Property pib_hca_properties[] = {
    DEFINE_PROP_STRING("fabric", PibHca, prop.fabric),
    DEFINE_PROP_STRING("tls-creds", PibHca, prop.tls_creds),
    DEFINE_PROP_STRING("tls-hostname", PibHca, prop.tls_hostname),
    DEFINE_PROP_BOOL("plain-tcp", PibHca, prop.plain_tcp, false),
    DEFINE_PROP_UINT32("ports", PibHca, prop.ports, 1),
    DEFINE_PROP_UINT32("vectors", PibHca, prop.vectors, 9),
    DEFINE_PROP_UINT64("node-guid", PibHca, prop.node_guid, 0),
    DEFINE_PROP_UINT64("port-guid", PibHca, prop.port_guid, 0),
    DEFINE_PROP_STRING("node-description", PibHca, prop.node_description),
    DEFINE_PROP_STRING("link-width", PibHca, prop.link_width),
    DEFINE_PROP_STRING("link-speed", PibHca, prop.link_speed),
    DEFINE_PROP_UINT32("mtu", PibHca, prop.mtu, 4096),
    DEFINE_PROP_UINT32("vls", PibHca, prop.vls, 8),
    DEFINE_PROP_SIZE("device-memory", PibHca, prop.device_memory,
                     DEVICE_MEMORY_DEFAULT),
    DEFINE_PROP("trace-entries", PibHca, prop.trace_entries,
                pib_hca_prop_trace_entries, uint32_t),
    DEFINE_PROP("trace-registers", PibHca, prop.trace_registers,
                pib_hca_prop_trace_switch, bool),
    DEFINE_PROP_BOOL("trace-dma", PibHca, prop.trace_dma, false),
    DEFINE_PROP("trace-interrupts", PibHca, prop.trace_interrupts,
                pib_hca_prop_trace_switch, bool),
    DEFINE_PROP_BOOL("inject", PibHca, prop.inject, false),
    DEFINE_PROP_BOOL("poison-wc", PibHca, prop.poison_wc, false),
    DEFINE_PROP_BOOL("shuffle-srq", PibHca, prop.shuffle_srq, false),
    DEFINE_PROP_BOOL("warnings", PibHca, prop.warnings, false),
    DEFINE_PROP_STRING("qpn-reuse", PibHca, prop.qpn_reuse),
    DEFINE_PROP_STRING("strict", PibHca, prop.strict),
    DEFINE_PROP_STRING("adversary", PibHca, prop.adversary),
    DEFINE_PROP_BOOL("shared-memory", PibHca, prop.shared_memory, true),
    DEFINE_PROP_STRING("doorbells", PibHca, prop.doorbells),
    DEFINE_PROP_BOOL("bursts", PibHca, prop.bursts, true),
    DEFINE_PROP_BOOL("peer-copy", PibHca, prop.peer_copy, false),
    DEFINE_PROP_UINT32("poll-us", PibHca, prop.poll_us, 20),
    DEFINE_PROP_STRING("record", PibHca, prop.record),
    DEFINE_PROP_BOOL("record-payload", PibHca, prop.record_payload, false),
    DEFINE_PROP_SIZE("record-limit", PibHca, prop.record_limit,
                     PIB_HCA_RECORD_LIMIT),
};

static const struct {
    const char *name;
    const char *text;
} pib_hca_descriptions[] = {
    {"fabric", "switch to connect to: unix:PATH or tcp:HOST:PORT "
               "(none: ports stay Down)"},
    {"tls-creds", "object tls-creds-x509 for links with TLS; with "
                  "fabric=tcp:HOST:PORT only"},
    {"tls-hostname", "name in the switch's certificate (default: the host in "
                     "fabric)"},
    {"plain-tcp", "on: permits links to other hosts without TLS"},
    {"ports", "InfiniBand ports, 1 to 4"},
    {"vectors", "MSI-X vectors, 1 to 64: one for commands and events, the "
                "rest for completions"},
    {"node-guid", "node GUID, 64-bit number (default: from the VM's -uuid, "
                  "else random)"},
    {"port-guid", "GUID of port 1, the others count up "
                  "(default: node-guid + 1)"},
    {"node-description", "NodeDescription until the driver sets it, at most "
                         "63 bytes"},
    {"link-width", "widest link: 1x, 4x, 8x or 12x (default: 4x)"},
    {"link-speed", "fastest lane: sdr, ddr, qdr, fdr, edr, hdr or ndr "
                   "(default: edr)"},
    {"mtu", "MTUCap: 256, 512, 1024, 2048 or 4096"},
    {"vls", "data virtual lanes: 1, 2, 4, 8 or 15"},
    {"device-memory", "memory of the device that processes may allocate: 0 to "
                      "1G, whole pages of 4K"},
    {"trace-entries", "packets, WQEs and commands that the property trace "
                      "shows, 0 to 65536; a change restarts the trace"},
    {"trace-registers", "the trace has accesses to registers and doorbells"},
    {"trace-dma", "the trace has accesses to guest memory, which are slower "
                  "then"},
    {"trace-interrupts", "the trace has interrupts"},
    {"inject", "the guest's kernel may raise events that have not happened "
               "(debugfs: inject)"},
    {"poison-wc", "undefined fields of completions have unexpected values"},
    {"shuffle-srq", "shared receive queues take requests in random order"},
    {"warnings", "log what programs do that is legal but suspicious"},
    {"qpn-reuse", "which free QP number a new QP gets: round, lowest or random "
                  "(default: round)"},
    {"strict", "on: logs rules of the manual that the driver breaks, even if "
               "a device need not notice; fatal: also stops the device; "
               "default: off"},
    {"adversary", "SEED or SEED:KIND+KIND: the device draws its behaviour "
                  "from this seed, among all that the manual permits; "
                  "default: none"},
    {"doorbells", "inline: the vCPU that rings does the work; eventfd: the "
                  "main loop does it; auto (default): eventfd with KVM"},
    {"poll-us", "a link's thread with no work stays awake for at most this "
                "time when a processor is idle; 0: it sleeps at once"},
    {"bursts", "off: the device sends the packets of a message one by one "
               "even through shared memory"},
    {"peer-copy", "on: the switch gets access to the VM's memory and copies "
                  "long messages from VM to VM; off (default): each device "
                  "copies"},
    {"record", "file for all input of the device, for pib-replay"},
    {"record-payload", "on: the recording has the payload of messages; off "
                       "(default): its length"},
    {"record-limit", "largest size of the recording (default: 16G)"},
    {"shared-memory", "off: frames go through the socket even if the switch "
                      "offers shared memory"},
};

void pib_hca_props_register(DeviceClass *dc)
{
    device_class_set_props(dc, pib_hca_properties);
    for (size_t i = 0; i < G_N_ELEMENTS(pib_hca_descriptions); i++) {
        object_class_property_set_description(OBJECT_CLASS(dc),
                                              pib_hca_descriptions[i].name,
                                              pib_hca_descriptions[i].text);
    }
}
