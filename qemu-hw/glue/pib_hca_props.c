/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The properties of -device pib-hca: names, descriptions, and the checks that turn a user's words into the
 * core's numbers. A value that is refused is refused in one line that says what is accepted.
 */
#include "qemu/osdep.h"
#include "hw/qdev-properties.h"
#include "pib_hca_glue.h"
#include "pib_hca_hw.h"
#include "qapi/error.h"
#include "qemu/guest-random.h"
#include "qemu/units.h"
#include "qemu/uuid.h"
#include "system/kvm.h"
#include "system/system.h"

#define DEVICE_MEMORY_DEFAULT MiB
#define DEVICE_MEMORY_MAX GiB

typedef struct Choice {
    const char *word;
    uint8_t value;
    uint8_t value_ext;
} Choice;

/* PortInfo:LinkWidthSupported: all widths up to the one named. */
static const Choice width_choices[] = {
    {"1x", 1, 0}, {"4x", 3, 0}, {"8x", 7, 0}, {"12x", 15, 0}, {NULL, 0, 0},
};

/* PortInfo:LinkSpeedSupported and LinkSpeedExtSupported: all speeds up to the one named. */
static const Choice speed_choices[] = {
    {"sdr", 1, 0}, {"ddr", 3, 0}, {"qdr", 7, 0},  {"fdr", 7, 1},
    {"edr", 7, 3}, {"hdr", 7, 7}, {"ndr", 7, 15}, {NULL, 0, 0},
};

static const Choice mtu_choices[] = {
    {"256", 1, 0}, {"512", 2, 0}, {"1024", 3, 0}, {"2048", 4, 0}, {"4096", 5, 0}, {NULL, 0, 0},
};

static const Choice vl_choices[] = {
    {"1", 1, 0}, {"2", 2, 0}, {"4", 3, 0}, {"8", 4, 0}, {"15", 5, 0}, {NULL, 0, 0},
};

/* enum NumberChoice */
static const Choice qpn_choices[] = {
    {"round", 0, 0}, {"lowest", 1, 0}, {"random", 2, 0}, {NULL, 0, 0},
};

/* Whether by eventfd. */
static const Choice doorbell_choices[] = {
    {"auto", 2, 0}, {"inline", 0, 0}, {"eventfd", 1, 0}, {NULL, 0, 0},
};

/* Whether by the switch. */
static const Choice zero_copy_choices[] = {
    {"off", 0, 0}, {"switch", 1, 0}, {NULL, 0, 0},
};

/* word: NULL for `unset`. */
static const Choice *choose(const Choice *choices, const char *property, const char *word,
                            const char *unset, Error **errp)
{
    g_autoptr(GString) words = g_string_new(NULL);

    word = word ? word : unset;
    for (const Choice *choice = choices; choice->word; choice++) {
        if (g_ascii_strcasecmp(choice->word, word) == 0) {
            return choice;
        }
        g_string_append_printf(words, "%s%s", words->len ? ", " : "", choice->word);
    }
    error_setg(errp, "%s=%s: expected one of %s", property, word, words->str);
    return NULL;
}

static const Choice *choose_number(const Choice *choices, const char *property, uint32_t number,
                                   Error **errp)
{
    g_autofree char *word = g_strdup_printf("%u", number);

    return choose(choices, property, word, NULL, errp);
}

/*
 * A GUID nobody was asked for: locally administered (bit 57), the same at every start for a VM with a UUID
 * and a device at the same place, otherwise random. The low byte is left for the ports.
 */
static uint64_t default_node_guid(PibHca *hca)
{
    uint64_t bits;

    if (qemu_uuid_set) {
        g_autofree char *uuid = qemu_uuid_unparse_strdup(&qemu_uuid);
        g_autofree char *place = g_strdup_printf("%s/%s/%02x", uuid,
                                                 pci_root_bus_path(PCI_DEVICE(hca)),
                                                 PCI_DEVICE(hca)->devfn);

        bits = ((uint64_t)g_str_hash(place) << 32) ^ g_str_hash(uuid);
    } else {
        qemu_guest_getrandom_nofail(&bits, sizeof(bits));
    }
    return 0x0200000000000000ull | (bits & 0x0000ffffffffff00ull) | (0x50ull << 48);
}

static bool link_to_config(PibHca *hca, PibHcaConfig *config, Error **errp)
{
    const Choice *width = choose(width_choices, "link-width",
                                 hca->prop.link_width, "4x", errp);
    const Choice *speed = width ? choose(speed_choices, "link-speed",
                                         hca->prop.link_speed, "edr", errp)
                                : NULL;
    const Choice *mtu = speed ? choose_number(mtu_choices, "mtu", hca->prop.mtu, errp) : NULL;
    const Choice *vls = mtu ? choose_number(vl_choices, "vls", hca->prop.vls, errp) : NULL;

    if (!vls) {
        return false;
    }
    config->link_width = width->value;
    config->link_speed = speed->value;
    config->link_speed_ext = speed->value_ext;
    config->mtu_cap = mtu->value;
    config->vl_cap = vls->value;
    config->runs = hca->prop.runs;
    return true;
}

/*
 * Where a store to a doorbell costs an exit, an eventfd makes it cheap; where it costs nothing, waking another
 * thread is what costs.
 */
static bool doorbells_to_config(PibHca *hca, PibHcaConfig *config, Error **errp)
{
    const Choice *way = choose(doorbell_choices, "doorbells",
                               hca->prop.doorbells, "auto", errp);

    if (!way) {
        return false;
    }
    config->uar_index = way->value == 2 ? kvm_enabled() : way->value;
    return true;
}

static bool copies_to_config(PibHca *hca, PibHcaConfig *config, Error **errp)
{
    const Choice *way = choose(zero_copy_choices, "zero-copy",
                               hca->prop.zero_copy, "off", errp);

    if (!way) {
        return false;
    }
    config->one_copy = way->value && pib_hca_one_copy_possible();
    return true;
}

/* What is for those who look at devices or test applications. */
static bool tools_to_config(PibHca *hca, PibHcaConfig *config, Error **errp)
{
    const Choice *reuse = choose(qpn_choices, "qpn-reuse",
                                 hca->prop.qpn_reuse, "round", errp);

    if (!reuse) {
        return false;
    }
    if (hca->prop.trace_entries > 65536) {
        error_setg(errp, "trace-entries=%u: expected 0 to 65536", hca->prop.trace_entries);
        return false;
    }
    config->trace_entries = hca->prop.trace_entries;
    config->inject = hca->prop.inject;
    config->poison_wc = hca->prop.poison_wc;
    config->shuffle_srq = hca->prop.shuffle_srq;
    config->warnings = hca->prop.warnings;
    config->qpn_reuse = reuse->value;
    return true;
}

bool pib_hca_props_to_config(PibHca *hca, PibHcaConfig *config, Error **errp)
{
    if (hca->prop.ports < 1 || hca->prop.ports > PIB_HCA_GLUE_PORTS) {
        error_setg(errp, "ports=%u: expected 1 to %d", hca->prop.ports, PIB_HCA_GLUE_PORTS);
        return false;
    }
    if (hca->prop.vectors < 1 || hca->prop.vectors > 64) {
        error_setg(errp, "vectors=%u: expected 1 to 64", hca->prop.vectors);
        return false;
    }
    if (hca->prop.device_memory > DEVICE_MEMORY_MAX ||
        hca->prop.device_memory % PIB_HCA_UAR_PAGE_SIZE != 0) {
        error_setg(errp, "device-memory=%" PRIu64 ": expected a multiple of 4096, up to 1 GiB",
                   hca->prop.device_memory);
        return false;
    }
    if (!hca->prop.node_guid) {
        hca->prop.node_guid = default_node_guid(hca);
    }
    if (!hca->prop.port_guid) {
        hca->prop.port_guid = hca->prop.node_guid + 1;
    }
    if (!hca->prop.node_description) {
        const char *vm = qemu_get_vm_name();

        hca->prop.node_description = g_strdup_printf("%s pib-hca", vm ? vm : "vm");
    }
    if (strlen(hca->prop.node_description) > 63) {
        error_setg(errp, "node-description: longer than 63 bytes");
        return false;
    }
    config->port_count = hca->prop.ports;
    config->vector_count = hca->prop.vectors;
    config->node_guid = hca->prop.node_guid;
    config->node_description = hca->prop.node_description;
    config->device_memory_pages = hca->prop.device_memory / PIB_HCA_UAR_PAGE_SIZE;
    for (unsigned i = 0; i < hca->prop.ports; i++) {
        config->port_guids[i] = hca->prop.port_guid + i;
    }
    return link_to_config(hca, config, errp) && doorbells_to_config(hca, config, errp) &&
           copies_to_config(hca, config, errp) &&
           tools_to_config(hca, config, errp);
}

/* GUIDs in use in this process. Across VMs the switch sees to it. */
static GHashTable *claimed_guids;

static bool claim(uint64_t guid, Error **errp)
{
    if (!claimed_guids) {
        claimed_guids = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    }
    if (!g_hash_table_add(claimed_guids, g_memdup2(&guid, sizeof(guid)))) {
        error_setg(errp,
                   "GUID 0x%016" PRIx64 " belongs to another pib-hca of this VM already: "
                   "give each its own node-guid and port-guid",
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
        if (!claim(guids[i], errp)) {
            while (i-- > 0) {
                g_hash_table_remove(claimed_guids, &guids[i]);
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
    g_hash_table_remove(claimed_guids, &hca->prop.node_guid);
    for (unsigned i = 0; i < hca->prop.ports; i++) {
        uint64_t guid = hca->prop.port_guid + i;

        g_hash_table_remove(claimed_guids, &guid);
    }
    hca->guids_claimed = false;
}

static const Property pib_hca_properties[] = {
    DEFINE_PROP_STRING("fabric", PibHca, prop.fabric),
    DEFINE_PROP_UINT32("ports", PibHca, prop.ports, 1),
    DEFINE_PROP_UINT32("vectors", PibHca, prop.vectors, 9),
    DEFINE_PROP_UINT64("node-guid", PibHca, prop.node_guid, 0),
    DEFINE_PROP_UINT64("port-guid", PibHca, prop.port_guid, 0),
    DEFINE_PROP_STRING("node-description", PibHca, prop.node_description),
    DEFINE_PROP_STRING("link-width", PibHca, prop.link_width),
    DEFINE_PROP_STRING("link-speed", PibHca, prop.link_speed),
    DEFINE_PROP_UINT32("mtu", PibHca, prop.mtu, 4096),
    DEFINE_PROP_UINT32("vls", PibHca, prop.vls, 8),
    DEFINE_PROP_SIZE("device-memory", PibHca, prop.device_memory, DEVICE_MEMORY_DEFAULT),
    DEFINE_PROP_UINT32("trace-entries", PibHca, prop.trace_entries, 0),
    DEFINE_PROP_BOOL("inject", PibHca, prop.inject, false),
    DEFINE_PROP_BOOL("poison-wc", PibHca, prop.poison_wc, false),
    DEFINE_PROP_BOOL("shuffle-srq", PibHca, prop.shuffle_srq, false),
    DEFINE_PROP_BOOL("warnings", PibHca, prop.warnings, false),
    DEFINE_PROP_STRING("qpn-reuse", PibHca, prop.qpn_reuse),
    DEFINE_PROP_BOOL("shared-memory", PibHca, prop.shared_memory, true),
    DEFINE_PROP_STRING("doorbells", PibHca, prop.doorbells),
    DEFINE_PROP_BOOL("runs", PibHca, prop.runs, true),
    DEFINE_PROP_STRING("zero-copy", PibHca, prop.zero_copy),
    DEFINE_PROP_UINT32("poll-us", PibHca, prop.poll_us, 20),
};

static const struct {
    const char *name;
    const char *text;
} descriptions[] = {
    {"fabric", "switch to connect to: unix:PATH or tcp:HOST:PORT (none: ports stay Down)"},
    {"ports", "InfiniBand ports, 1 to 4"},
    {"vectors", "MSI-X vectors, 1 to 64: one for commands and events, the rest for completions"},
    {"node-guid", "node GUID, 64-bit number (default: from the VM's -uuid, else random)"},
    {"port-guid", "GUID of port 1, the others count up (default: node-guid + 1)"},
    {"node-description", "NodeDescription until the driver sets it, at most 63 bytes"},
    {"link-width", "widest link: 1x, 4x, 8x or 12x (default: 4x)"},
    {"link-speed", "fastest lane: sdr, ddr, qdr, fdr, edr, hdr or ndr (default: edr)"},
    {"mtu", "MTUCap: 256, 512, 1024, 2048 or 4096"},
    {"vls", "data virtual lanes: 1, 2, 4, 8 or 15"},
    {"device-memory", "memory of the device that processes may allocate: 0 to 1G, whole pages of 4K"},
    {"trace-entries", "packets, WQEs and commands that the property trace tells, 0 to 65536"},
    {"inject", "the guest's kernel may raise events that have not happened (debugfs: inject)"},
    {"poison-wc", "undefined fields of completions have unexpected values"},
    {"shuffle-srq", "shared receive queues give their requests in any order"},
    {"warnings", "log what programs do that is legal but suspicious"},
    {"qpn-reuse", "which free QP number a new QP gets: round, lowest or random (default: round)"},
    {"doorbells", "inline: a processor of the guest does its doorbell's work; eventfd: the main loop does; "
                  "auto (default): eventfd with KVM"},
    {"poll-us", "a link's thread stays awake for so long at most before it sleeps, when a processor is idle; 0: never"},
    {"runs", "off: packets of a message go one by one through shared memory, too"},
    {"zero-copy", "switch: the switch is trusted with the VM's memory and copies long messages from VM to VM; "
                  "off (default): each device copies"},
    {"shared-memory", "off: frames go through the socket even if the switch offers shared memory"},
};

void pib_hca_props_register(DeviceClass *dc)
{
    device_class_set_props(dc, pib_hca_properties);
    for (size_t i = 0; i < G_N_ELEMENTS(descriptions); i++) {
        object_class_property_set_description(OBJECT_CLASS(dc), descriptions[i].name,
                                              descriptions[i].text);
    }
}
