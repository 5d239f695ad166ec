// SPDX-License-Identifier: GPL-2.0-or-later
// MADs to a channel adapter and to a switch: directed routes, SMA, PMA. The input is a sequence of
// records: port, time step, then up to 256 bytes of MAD. The state of the node must stay legal.
#include <algorithm>
#include <iterator>

#include "fuzz_target.h"
#include "ib/mgmt/mad_agent.h"
#include "ib/mgmt/perf_counters.h"
#include "ib/mgmt/smi.h"
#include "ib/wire/dump.h"

namespace pib::fuzz {
namespace {

using namespace ib;

constexpr size_t kMaxRecords = 64;
constexpr uint8_t kSwitchPorts = 4;

SmaNode an_hca() {
    SmaNode node;
    node.node_guid = Guid(1);
    for (uint8_t i = 1; i <= 2; ++i) {
        node.ports.push_back(
            make_port({.port_number = i,
                       .guid = Guid(1U + i),
                       .link_speed_ext_supported = 15,
                       .vl_cap = 4,
                       .pkey_cap = 40,
                       .guid_cap = 12,
                       .capability_mask = port_cap::kIsClientReregistrationSupported}));
    }
    return node;
}

SmaNode a_switch() {
    SmaNode node;
    node.type = NodeType::kSwitch;
    for (uint8_t i = 0; i <= kSwitchPorts; ++i) {
        node.ports.push_back(
            make_port({.kind = i == 0 ? PortKind::kSwitchPort0 : PortKind::kSwitchExternal,
                       .port_number = i,
                       .vl_cap = 4,
                       .pkey_cap = 24,
                       .sl2vl_inputs = kSwitchPorts + 1,
                       .partition_enforcement = true}));
    }
    return node;
}

void check_port(const PortAttrs& port, const PortAttrs& fresh) {
    const PortState state = port.state();
    require(state >= PortState::kDown && state <= PortState::kActive, "a port has a state");
    const bool up = state >= PortState::kInitialize;
    require(up == (port.phys_state() == PhysState::kLinkUp), "state and physical state agree");
    require(port.lid().value() == 0 || port.lid().is_unicast(), "a LID is unicast");
    require(is_valid_mtu_code(static_cast<unsigned>(port.neighbor_mtu())), "an MTU is an MTU");
    require(port.get(port_info::kOperationalVls) <= port.get(port_info::kVlCap), "VLs are there");
    require(port.pkeys.size() == fresh.pkeys.size(), "tables keep their size");
    require(port.guids.size() == fresh.guids.size(), "tables keep their size");
    require(port.guid() == fresh.guid(), "the port GUID stays");
    require(port.sl_to_vl.size() == fresh.sl_to_vl.size(), "tables keep their size");
    require(port.traps.pending.size() <= TrapQueue::kMaxPending, "traps are bounded");
    for (const Field field : {port_info::kCapabilityMask, port_info::kVlCap, port_info::kMtuCap,
                              port_info::kLinkWidthSupported, port_info::kGuidCap}) {
        require(port.get(field) == fresh.get(field), "read-only fields stay");
    }
}

struct Bench {
    SmaNode node;
    SmaNode fresh;
    std::vector<PortCounters> counters;
    PortSampling sampling;
    uint64_t now_ns = 0;

    explicit Bench(SmaNode start)
        : node(std::move(start)), fresh(node), counters(node.ports.size()) {}

    void take(Mad mad, uint8_t port) {
        const SmiNode smi{node.type, node.num_ports()};
        if (mad.is_directed_route()) {
            const SmiDecision decision = smi_receive(mad, smi, port);
            require(decision.action != SmiAction::kPort ||
                        (decision.port >= 1 && decision.port <= smi.num_ports),
                    "SMPs leave by ports that exist");
            if (decision.action != SmiAction::kLocal) {
                return;
            }
        }
        const SmpArrival arrival{.port = port, .slid = Lid(7), .now_ns = now_ns};
        if (mad.is_smp() && smp_is_for_sma(mad)) {
            SmaAnswer answer = sma_answer(node, mad, arrival);
            if (answer.disposition == SmaDisposition::kReply && mad.is_directed_route()) {
                static_cast<void>(smi_send(answer.reply, smi, port, Lid(7)));
            }
        }
        const PmaNode pma{.ports = counters,
                          .sampling = sampling,
                          .first_port = node.first_port(),
                          .all_port_select = node.is_switch()};
        static_cast<void>(pma_answer(pma, mad, now_ns));
        require(!dump_mad(mad).empty(), "every MAD has a dump");
    }

    // Events of the link between two MADs.
    void step(uint8_t what) {
        for (PortAttrs& port : node.ports) {
            if ((what & 1) != 0) {
                port_link_up(port, 2, 4, 0);
            }
            if ((what & 2) != 0) {
                port_data_arrived(port);
            }
            if ((what & 4) != 0) {
                port_link_down(port);
            }
            static_cast<void>(next_trap(node, port, now_ns));
        }
        now_ns += uint64_t{what} * 50'000'000;
        for (auto& count : counters) {
            count.count_sent({.sl = Sl(what & 0xF), .dlid = Lid(1), .pkt_len = what});
        }
    }

    void check() const {
        require(node.ports.size() == fresh.ports.size(), "ports stay");
        for (size_t i = 0; i < node.ports.size(); ++i) {
            check_port(node.ports[i], fresh.ports[i]);
        }
    }
};

void add_record(Bytes& out, uint8_t port, uint8_t step, const Mad& mad) {
    out.push_back(port);
    out.push_back(step);
    std::ranges::copy(mad.bytes, std::back_inserter(out));
}

Mad request(MgmtClass mgmt_class, Method method, uint16_t attribute) {
    Mad mad;
    mad.set(mad_header::kBaseVersion, kMadBaseVersion);
    mad.set(mad_header::kMgmtClass, static_cast<unsigned>(mgmt_class));
    mad.set(mad_header::kClassVersion, 1);
    mad.set(mad_header::kMethod, static_cast<unsigned>(method));
    mad.set(mad_header::kAttributeId, attribute);
    mad.set(smp::kDrSlid, 0xFFFF);
    mad.set(smp::kDrDlid, 0xFFFF);
    return mad;
}

}  // namespace

std::vector<Bytes> seeds() {
    std::vector<Bytes> seeds;
    for (const MgmtClass mgmt_class :
         {MgmtClass::kSubnLidRouted, MgmtClass::kSubnDirectedRoute, MgmtClass::kPerf}) {
        for (const Method method : {Method::kGet, Method::kSet, Method::kTrapRepress}) {
            Bytes seed;
            for (uint16_t attribute = 0x01; attribute <= 0x31; ++attribute) {
                Mad mad = request(mgmt_class, method, attribute);
                if (attribute == attr::kPortInfo && mgmt_class != MgmtClass::kPerf) {
                    std::ranges::copy(an_hca().ports[0].info, mad.smp_data().begin());
                    set(mad.smp_data(), port_info::kLid, 5);
                    set(mad.smp_data(), port_info::kPortState, 3);
                    set(mad.smp_data(), port_info::kPortPhysicalState, 0);
                }
                add_record(seed, 1, 1, mad);
            }
            seeds.push_back(std::move(seed));
        }
    }
    return seeds;
}

void run(std::span<const uint8_t> input) {
    Bench hca(an_hca());
    Bench sw(a_switch());
    Input in(input);
    for (size_t record = 0; record < kMaxRecords && !in.empty(); ++record) {
        const uint8_t port = in.byte();
        const uint8_t what = in.byte();
        Mad mad;
        std::ranges::copy(in.take(kMadSize), mad.bytes.begin());
        for (Bench* bench : {&hca, &sw}) {
            bench->take(mad, port);
            bench->step(what);
            bench->check();
        }
    }
}

}  // namespace pib::fuzz
