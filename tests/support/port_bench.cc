// SPDX-License-Identifier: GPL-2.0-or-later
#include "port_bench.h"

#include <algorithm>

namespace pib::hca::test {

namespace {

constexpr uint8_t kEqLogDepth = 7;

ib::PacketHeaders headers_of(const MadPacket& ends) {
    ib::PacketHeaders headers{};
    headers.lrh = {.vl = ends.vl15 ? ib::kVl15 : ib::Vl(ends.vl),
                   .sl = ib::Sl(ends.sl),
                   .lnh = ends.grh ? ib::Lnh::kIbaGlobal : ib::Lnh::kIbaLocal,
                   .dlid = ib::Lid(ends.dlid),
                   .slid = ib::Lid(ends.slid)};
    headers.grh = ends.grh;
    headers.bth.opcode = ends.opcode;
    headers.bth.pkey = ib::PKey(ends.pkey);
    headers.bth.dest_qp = ib::Qpn(ends.dest_qp);
    headers.deth = {.qkey = ib::QKey(ends.qkey), .src_qp = ib::Qpn(ends.src_qp)};
    return headers;
}

}  // namespace

Bytes make_packet(const MadPacket& ends, const ib::Mad& mad) {
    Bytes out(ib::kMaxPacket);
    auto builder = ib::PacketBuilder::begin(out, headers_of(ends), ends.bytes, ib::Crcs::kElided);
    std::copy_n(mad.bytes.begin(), std::min(ends.bytes, mad.bytes.size()),
                builder->payload().begin());
    const auto packet = builder->finish();
    return {packet.begin(), packet.end()};
}

MadPacket gmp_to(uint16_t dlid) {
    return {.vl15 = false,
            .dlid = dlid,
            .slid = PortBench::kSmLid,
            .dest_qp = 1,
            .src_qp = 1,
            .qkey = ib::kGsiQKey.value()};
}

ib::Mad make_mad(ib::MgmtClass mgmt_class, ib::Method method, uint16_t attribute,
                 uint32_t modifier) {
    ib::Mad mad;
    mad.set(ib::mad_header::kBaseVersion, 1);
    mad.set(ib::mad_header::kMgmtClass, static_cast<unsigned>(mgmt_class));
    mad.set(ib::mad_header::kClassVersion, 1);
    mad.set(ib::mad_header::kMethod, static_cast<unsigned>(method));
    mad.set(ib::mad_header::kTransactionId, 0x1122334455667788);
    mad.set(ib::mad_header::kAttributeId, attribute);
    mad.set(ib::mad_header::kAttributeModifier, modifier);
    return mad;
}

ib::Mad make_dr_smp(ib::Method method, uint16_t attribute, uint32_t modifier) {
    ib::Mad mad = make_mad(ib::MgmtClass::kSubnDirectedRoute, method, attribute, modifier);
    mad.set(ib::smp::kHopPointer, 1);
    mad.set(ib::smp::kHopCount, 1);
    mad.set(ib::smp::kDrSlid, 0xffff);
    mad.set(ib::smp::kDrDlid, 0xffff);
    initial_path(mad)[1] = 1;
    return mad;
}

ib::Mad mad_of(std::span<const uint8_t> packet) {
    const auto view = ib::PacketView::parse(packet, ib::Crcs::kElided);
    REQUIRE(view);
    REQUIRE(view->payload().size() == ib::kMadSize);
    ib::Mad mad;
    std::ranges::copy(view->payload(), mad.bytes.begin());
    return mad;
}

Config PortBench::default_config() {
    Config config;
    config.node_guid = 0x5254000000000001;
    config.port_guids = {0x5254000000000011, 0x5254000000000012, 0x5254000000000013,
                         0x5254000000000014};
    config.node_description = "bench";
    return config;
}

PortBench::PortBench(const Config& config)
    : eqs(host, *this, Limits::kEqs, PIB_HCA_MAX_VECTORS), ports(config, host, eqs, counters) {
    ports.set_client(client);
    eq_addr_ = host.alloc(FakeHost::kPage);
    pib_hca_create_eq in{};
    in.pages.root = eq_addr_;
    in.pages.page_count = 1;
    in.pages.log_page_size = PIB_HCA_MIN_LOG_PAGE_SIZE;
    in.log_depth = kEqLogDepth;
    in.flags = PIB_HCA_EQ_ASYNC;
    REQUIRE(eqs.create(in));
}

void PortBench::connect(uint32_t blocks, uint32_t blocks_of_vl1) {
    link::LinkEndpoint::Buffers buffers;
    std::ranges::fill(buffers.receive_blocks, blocks);
    buffers.receive_blocks[1] = std::min(blocks, blocks_of_vl1);
    peer.emplace(buffers, peer_events);
    peer_events.endpoint = &*peer;
    peer_error.clear();
    peer->training().set_parameters({.up = true,
                                     .width_enabled = 3,
                                     .speed_enabled = 7,
                                     .speed_ext_enabled = 15,
                                     .mtu_cap = 5,
                                     .vl_cap = 4});
    port().link_connected(false);
    pump();
}

void PortBench::disconnect() {
    peer.reset();
    host.take_link(1);
    port().link_closed();
    pump();
}

void PortBench::bring_up(uint32_t blocks, uint32_t blocks_of_vl1) {
    connect(blocks, blocks_of_vl1);
    REQUIRE(state() == ib::PortState::kInitialize);
    const auto to_state = [](ib::PortState to) {
        return [to](std::span<uint8_t> info) {
            ib::set(info, ib::port_info::kLid, kLid);
            ib::set(info, ib::port_info::kMasterSmLid, kSmLid);
            ib::set(info, ib::port_info::kPortState, static_cast<unsigned>(to));
        };
    };
    REQUIRE(set_port_info(to_state(ib::PortState::kArmed)) == 0);
    REQUIRE(set_port_info(to_state(ib::PortState::kActive)) == 0);
    REQUIRE(port().is_active());
    take_events();
}

ib::Mad PortBench::ask(const ib::Mad& smp) {
    take_sent();
    inject(MadPacket{}, smp);
    const auto replies = take_sent();
    REQUIRE(replies.size() == 1);
    return mad_of(replies[0]);
}

void PortBench::inject(const Bytes& packet) {
    REQUIRE(::pib::test::send(*peer, packet));
    pump();
}

void PortBench::pump() {
    for (bool moved = true; moved;) {
        moved = std::exchange(host.woken, false);
        if (moved && ports.run()) {
            host.wake();
        }
        ports.flush();
        const Bytes sent = host.take_link(1);
        if (!sent.empty() && peer) {
            moved = true;
            if (auto fed = feed(*peer, sent); !fed) {
                peer_error = fed.error().text;
            }
        }
        if (std::exchange(host.links[1].blocked, false)) {
            moved = true;
            port().link_writable();
        }
        if (peer && !peer->output().empty()) {
            moved = true;
            const Bytes out(peer->output().begin(), peer->output().end());
            peer->consume_output(out.size());
            port().link_rx(out);
        }
    }
}

void PortBench::advance(uint64_t ns) {
    const uint64_t until = host.clock_ns + ns;
    while (ports.next_deadline() <= until) {
        host.clock_ns = std::max(host.clock_ns, ports.next_deadline());
        ports.timer(host.clock_ns);
        pump();
    }
    host.clock_ns = until;
}

std::vector<ib::Mad> PortBench::take_sent_mads() {
    std::vector<ib::Mad> mads;
    for (const Bytes& packet : take_sent()) {
        mads.push_back(mad_of(packet));
    }
    return mads;
}

uint32_t PortBench::take_events() {
    uint32_t flags = 0;
    last_event_count = 0;
    for (;;) {
        REQUIRE(eq_consumer_ < 1u << kEqLogDepth);  // first pass over the ring
        const auto eqe = host.peek<pib_hca_eqe>(eq_addr_ + sizeof(pib_hca_eqe) * eq_consumer_);
        if ((eqe.owner & PIB_HCA_OWNER_BIT) == 0) {
            return flags;
        }
        ++eq_consumer_;
        ++last_event_count;
        REQUIRE(eqe.type == PIB_HCA_EVENT_PORT);
        REQUIRE(eqe.port == 1);
        flags |= eqe.data;
    }
}

bool PortBench::send_data(uint16_t dlid, size_t payload, uint8_t sl, uint8_t static_rate) {
    const Bytes packet = ::pib::test::make_packet(0, dlid, payload, port().lid(), sl);
    const auto room = port().begin({.dlid = dlid,
                                    .sl = sl,
                                    .vl15 = false,
                                    .bytes = static_cast<uint32_t>(packet.size()),
                                    .static_rate = static_rate});
    if (room.packets == 0) {
        return false;
    }
    std::ranges::copy(packet, room.bytes().begin());
    port().commit(ib::BurstSize::of(packet.size()), {});
    return true;
}

}  // namespace pib::hca::test
