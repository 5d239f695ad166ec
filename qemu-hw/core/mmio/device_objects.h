// SPDX-License-Identifier: GPL-2.0-or-later
// The objects of one HCA, for commands and doorbells, which refer to objects by number.
#pragma once

#include <cstdint>

#include "base/config.h"
#include "base/counters.h"
#include "base/host.h"
#include "base/table.h"
#include "memory/mpt.h"
#include "mmio/doorbells.h"
#include "mmio/shadow_doorbells.h"
#include "pib_hca_hw.h"
#include "port/hca_ports.h"
#include "queues/cq.h"
#include "queues/eq.h"
#include "queues/srq.h"
#include "rules/refusals.h"
#include "transport/transport.h"

namespace pib::hca {

// Protection domains, UARs and XRC domains have a number and no other state.
struct ProtectionDomain {};
struct UserAccessRegion {};
struct XrcDomain {};

// UAR 0 belongs to the kernel: it exists without ALLOC_UAR and is never freed.
constexpr uint32_t kKernelUar = 0;

class PeerCopy;

struct DeviceObjects {
    const Config& config;
    Host& host;
    Counters& counters;
    EqTable& eqs;
    CqTable& cqs;
    SrqTable& srqs;
    Mpt& mpt;
    HcaPorts& ports;
    Transport& transport;
    PeerCopy* peer_copy;  // nullptr: no peer copy
    Table<ProtectionDomain> pds{1, Limits::kPds};
    Table<UserAccessRegion> uars{1, PIB_HCA_MAX_UARS - 1};

    Table<XrcDomain> xrcds{1, Limits::kXrcds};
    Doorbells doorbells{host, transport, counters.adversary};
    ShadowDoorbells shadow_doorbells{host, transport, counters.strict, counters.adversary};
    GuestErrors guest_errors{host};
    Refusals refusals{host, guest_errors};

    [[nodiscard]] bool has_uar(uint32_t uar) {
        return uar == kKernelUar || uars.find(uar) != nullptr;
    }
    [[nodiscard]] bool has_pd(uint32_t pd) { return pds.find(pd) != nullptr; }

    // Sets the choice of numbers of PDs, UARs and XRC domains for good: events do not name these.
    void set_choice(NumberChoice choice) {
        pds.set_choice(choice);
        uars.set_choice(choice);
        xrcds.set_choice(choice);
    }

    // An adversarial device reuses numbers of CQs, SRQs and QPs only when software has taken all
    // events, because an event may name a destroyed object.
    void choose_numbers() {
        TestKnobs knobs = config.knobs;
        if (knobs.number_choice == NumberChoice::kLowest && !all_events_taken(eqs)) {
            knobs.number_choice = NumberChoice::kFresh;
            knobs.qpn_choice = NumberChoice::kFresh;
        }
        cqs.set_knobs(knobs);
        srqs.set_knobs(knobs);
        transport.verbs().set_knobs(knobs);
    }

    // Number of objects that commands have created.
    uint32_t count() {
        return eqs.count() + cqs.count() + srqs.count() + mpt.keys().count() + pds.count() +
               uars.count() + xrcds.count() +
               transport.verbs().count_if([](const QueuePair&) { return true; });
    }

    // Removes all objects; the ports and the refusals stay as they are.
    void clear() {
        shadow_doorbells.clear();
        doorbells.clear();
        transport.reset();
        srqs.clear();
        cqs.clear();
        eqs.clear();
        mpt.clear();
        pds.clear();
        uars.clear();
        xrcds.clear();
    }
};

}  // namespace pib::hca
