// SPDX-License-Identifier: GPL-2.0-or-later
// MADs and other packets into the port of an HCA: from the link, by loopback, and by MAD_IFC. The
// input is a sequence of steps. The port's state stays legal, and its output is well-formed.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>

#include "commands/port_operations.h"
#include "fake_host.h"
#include "fuzz_target.h"
#include "ib/mgmt/smi.h"
#include "ib/wire/mad.h"
#include "port/hca_port.h"
#include "port/hca_ports.h"

namespace pib::fuzz {
namespace {

using namespace link;

constexpr unsigned kMaxSteps = 64;
constexpr uint16_t kLid = 0x10;
constexpr uint16_t kSmLid = 2;

hca::Config a_config() {
    hca::Config config;
    config.port_count = 2;
    config.node_guid = 1;
    config.port_guids = {2, 3, 0, 0};
    config.node_description = "fuzzed";
    return config;
}

// Receives the packets for the guest.
class Guest final : public hca::PortClient {
  public:
    uint32_t burst_in(unsigned port, const ib::Burst& burst, ib::Placement&) override {
        require(port == 1, "packets come in by the port that has a link");
        const ib::PacketView& packet = burst.first();
        if (packet.bth().dest_qp != ib::kQp0) {
            return 1;
        }
        require(packet.lrh().vl == ib::kVl15, "QP0 hears VL15 only");
        require(packet.payload().size() == ib::kMadSize, "SMPs have one size");
        ib::Mad mad;
        std::ranges::copy(packet.payload(), mad.bytes.begin());
        require(mad.is_smp(), "QP0 gets SMPs");
        require(!ib::smp_is_for_sma(mad), "the device answers for the SMA itself");
        return 1;
    }
    void port_ready(unsigned) override {}
    void port_changed(unsigned) override {}
};

class Bench final : private hca::EqTable::Events {
  public:
    Bench() : eqs_(host_, *this, hca::Limits::kEqs, 1), ports_(a_config(), host_, eqs_, counters_) {
        ports_.set_client(guest_);
        connect();
        bring_up();
        require(port().is_active(), "a port comes up");
    }
    void step(Input& in);
    void check();

  private:
    void eq_fatal(uint32_t) override { require(false, "there is no event queue"); }
    void interrupt_raised(const hca::RaisedInterrupt&) override {}

    hca::HcaPort& port() { return *ports_.find(1); }
    ib::PortAttrs& attrs() { return ports_.sma().port(1); }
    void connect();
    void bring_up();
    void from_link(Input& in);
    void from_guest(Input& in);
    void by_command(Input& in);
    void pass_time(uint8_t amount);
    void check_output();

    hca::test::FakeHost host_;
    hca::Counters counters_;
    hca::EqTable eqs_;
    Guest guest_;
    hca::HcaPorts ports_;
    std::optional<FrameReader> sent_;
    uint16_t epoch_ = 0;
};

void Bench::connect() {
    port().link_closed();
    host_.take_link(1);
    sent_.emplace();
    port().link_connected(false);
    Bytes bytes;
    append(bytes, Welcome{.switch_guid = ib::Guid(9), .port_number = 1});
    append(bytes, Link{.up = true,
                       .width_enabled = 2,
                       .speed_enabled = 7,
                       .speed_ext_enabled = 15,
                       .mtu_cap = 5,
                       .vl_cap = 4,
                       .epoch = ++epoch_});
    for (uint8_t vl = 0; vl < 8; ++vl) {
        append(bytes, Credit{.vl = vl, .epoch = 1, .limit = 100});
    }
    port().link_rx(bytes);
}

// Configures the port as a subnet manager does, unless the input has disabled the port.
void Bench::bring_up() {
    if (!attrs().link_is_up()) {
        return;
    }
    attrs().set(ib::port_info::kLid, kLid);
    attrs().set(ib::port_info::kMasterSmLid, kSmLid);
    attrs().set(ib::port_info::kPortState, static_cast<unsigned>(ib::PortState::kActive));
    port().apply(ib::PortEvent::kStateChange);
}

// A packet with a MAD. The input chooses the addresses, the common header and some of the data.
Bytes a_packet(Input& in) {
    const uint8_t choice = in.byte();
    const bool vl15 = (choice & 1) != 0;
    const uint8_t lids = in.byte();
    ib::PacketHeaders headers{};
    headers.lrh = {.vl = vl15 ? ib::kVl15 : ib::Vl(choice >> 6),
                   .sl = ib::Sl(choice >> 4),
                   .lnh = (choice & 2) != 0 ? ib::Lnh::kIbaGlobal : ib::Lnh::kIbaLocal,
                   .dlid = (lids & 1) != 0 ? ib::kPermissiveLid : ib::Lid(kLid + (lids >> 1 & 3)),
                   .slid = (lids & 8) != 0 ? ib::kPermissiveLid : ib::Lid(lids >> 4)};
    if ((choice & 2) != 0) {
        headers.grh = ib::Grh{};
    }
    headers.bth.opcode = ib::opcode::kUdSendOnly;
    headers.bth.pkey = (choice & 4) != 0 ? ib::PKey(in.byte()) : ib::kDefaultPKey;
    headers.bth.dest_qp = vl15 ? ib::kQp0 : ib::kQp1;
    headers.deth = {.qkey = (choice & 8) != 0 ? ib::QKey(in.byte()) : ib::kGsiQKey,
                    .src_qp = vl15 ? ib::kQp0 : ib::kQp1};
    Bytes out(ib::kMaxHeaders + ib::kMadSize);
    auto builder = ib::PacketBuilder::begin(out, headers, ib::kMadSize, ib::Crcs::kElided);
    const auto mad = in.take(in.byte());
    std::ranges::fill(builder->payload(), uint8_t{0});
    std::ranges::copy(mad, builder->payload().begin());
    out.resize(builder->finish().size());
    return out;
}

void Bench::from_link(Input& in) {
    Bytes frame;
    append_packet(frame, a_packet(in), true);
    port().link_rx(frame);
}

void Bench::from_guest(Input& in) {
    const Bytes packet = a_packet(in);
    const auto lrh = ib::Lrh::parse(std::span(packet).first<8>());
    const auto room = port().begin({.dlid = lrh.dlid.value(),
                                    .sl = lrh.sl.value(),
                                    .vl15 = lrh.vl == ib::kVl15,
                                    .bytes = static_cast<uint32_t>(packet.size())});
    if (room.packets != 0) {
        require(room.bytes().size() == packet.size(), "room is what was asked for");
        std::ranges::copy(packet, room.bytes().begin());
        port().commit(ib::BurstSize::of(packet.size()), {});
    }
}

void Bench::by_command(Input& in) {
    pib_hca_mad_ifc input{};
    input.flags = in.byte() & 3;
    input.slid = in.byte();
    std::ranges::copy(in.take(in.byte()), input.mad);
    const auto reply = mad_ifc(ports_, 1 + in.byte() % 2, input, host_.clock_ns);
    require(reply.has_value(), "a well-formed MAD_IFC is not refused");
    if (reply->has_mad()) {
        const bool response = (reply->mad.bytes[3] & ib::kResponseBit) != 0;
        require(response, "a reply is a response");
    }
}

void Bench::pass_time(uint8_t amount) {
    host_.clock_ns += uint64_t{amount} * amount * 1'000'000;
    ports_.timer(host_.clock_ns);
}

void Bench::step(Input& in) {
    switch (in.byte() % 8) {
        case 0:
        case 1:
        case 2:
            from_link(in);
            break;
        case 3:
            from_guest(in);
            break;
        case 4:
            by_command(in);
            break;
        case 5:
            pass_time(in.byte());
            break;
        case 6:  // a packet of any bytes
            port().link_rx([&] {
                Bytes frame;
                append_packet(frame, in.take(in.byte()), true);
                return frame;
            }());
            break;
        default:
            if ((in.byte() & 1) != 0) {
                ports_.reset((in.byte() & 1) != 0);
            } else {
                connect();
            }
            bring_up();
    }
    for (unsigned turns = 0; std::exchange(host_.woken, false); ++turns) {
        require(turns < 100, "packets to the own port come to an end");
        if (ports_.run()) {
            host_.wake();
        }
    }
    ports_.flush();
    check_output();
}

void Bench::check_output() {
    Bytes bytes = host_.take_link(1);
    for (std::span<const uint8_t> left = bytes; !left.empty();) {
        const auto space = sent_->space();
        const auto head = left.first(std::min(left.size(), space.size()));
        std::ranges::copy(head, space.begin());
        sent_->commit(head.size());
        left = left.subspan(head.size());
        auto frame = sent_->next();
        for (; frame && *frame; frame = sent_->next()) {
            if ((*frame)->type == FrameType::kPacket) {
                const auto packet = ib::PacketView::parse((*frame)->body, ib::Crcs::kElided);
                require(packet.has_value(), "a port sends packets");
                const bool qp0 = packet->bth().dest_qp == ib::kQp0;
                require(qp0 == (packet->lrh().vl == ib::kVl15), "QP0 and VL15 belong together");
            }
        }
        require(frame.has_value(), "output is well-formed");
    }
}

void Bench::check() {
    for (unsigned number = 1; number <= 2; ++number) {
        const ib::PortAttrs& port = ports_.sma().port(number);
        const bool up = port.state() >= ib::PortState::kInitialize;
        require(up == (port.phys_state() == ib::PhysState::kLinkUp), "the states agree");
        require(port.traps.pending.size() <= ib::TrapQueue::kMaxPending, "traps are bounded");
        require(ports_.find(number)->lid() == port.lid().value(), "the port knows its LID");
        require(ports_.find(number)->is_active() == port.may_send_data(), "and its state");
        require(query_port(ports_, number).has_value(), "a port can be queried");
    }
    require(ports_.sma().port(2).state() == ib::PortState::kDown, "port 2 has no link");
}

}  // namespace

std::vector<Bytes> seeds() {
    std::vector<Bytes> all;
    const auto add = [&](uint8_t kind, uint8_t choice, uint8_t lids, ib::MgmtClass mgmt_class,
                         ib::Method method, uint16_t attribute) {
        ib::Mad mad;
        mad.set(ib::mad_header::kBaseVersion, 1);
        mad.set(ib::mad_header::kMgmtClass, static_cast<unsigned>(mgmt_class));
        mad.set(ib::mad_header::kClassVersion, 1);
        mad.set(ib::mad_header::kMethod, static_cast<unsigned>(method));
        mad.set(ib::mad_header::kAttributeId, attribute);
        if (mad.is_directed_route()) {
            mad.set(ib::smp::kHopPointer, 1);
            mad.set(ib::smp::kHopCount, 1);
            mad.set(ib::smp::kDrSlid, 0xffff);
            mad.set(ib::smp::kDrDlid, 0xffff);
        }
        Bytes bytes = {kind, choice, lids, 192};
        std::ranges::copy(std::span(mad.bytes).first(192), std::back_inserter(bytes));
        bytes.insert(bytes.end(), {5, 200, 7, 1, 0});
        all.push_back(bytes);
    };
    using ib::Method;
    using ib::MgmtClass;
    for (const uint8_t kind : {0, 3}) {
        for (const Method method : {Method::kGet, Method::kSet}) {
            for (uint16_t attribute = 0x10; attribute < 0x22; ++attribute) {
                add(kind, 1, 9, MgmtClass::kSubnDirectedRoute, method, attribute);
                add(kind, 1, 0x20, MgmtClass::kSubnLidRouted, method, attribute);
                add(kind, 0, 0x20, MgmtClass::kPerf, method, attribute);
            }
        }
        add(kind, 1, 0x20, MgmtClass::kSubnLidRouted, Method::kTrapRepress, ib::attr::kNotice);
        add(kind, 1, 0x20, MgmtClass::kSubnLidRouted, Method::kTrap, ib::attr::kNotice);
        add(kind, 12, 0x20, MgmtClass::kPerf, Method::kGet, ib::attr::kPortCounters);
    }
    return all;
}

void run(std::span<const uint8_t> input) {
    Bench bench;
    Input in(input);
    for (unsigned step = 0; step < kMaxSteps && !in.empty(); ++step) {
        bench.step(in);
        bench.check();
    }
}

}  // namespace pib::fuzz
