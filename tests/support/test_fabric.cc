// SPDX-License-Identifier: GPL-2.0-or-later
// See test_fabric.h.
#include "test_fabric.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace pib::test {
namespace {

constexpr uint64_t kFirstGuid = 0x0650000000001000;

}  // namespace

Bytes smp_packet(const ib::Mad& smp, ib::Lid dlid, ib::Lid slid) {
    Bytes out(ib::kMaxHeaders + ib::kMadSize);
    ib::PacketHeaders headers{};
    headers.lrh = {
        .vl = ib::kVl15, .sl = {}, .lnh = ib::Lnh::kIbaLocal, .dlid = dlid, .slid = slid};
    headers.bth.opcode = ib::opcode::kUdSendOnly;
    headers.bth.pkey = ib::kDefaultPKey;
    auto builder = ib::PacketBuilder::begin(out, headers, ib::kMadSize, ib::Crcs::kElided);
    std::ranges::copy(smp.bytes, builder->payload().begin());
    const auto packet = builder->finish();
    return {packet.begin(), packet.end()};
}

std::vector<ib::Mad> traps_of(const FakeHca& hca, uint16_t number) {
    std::vector<ib::Mad> traps;
    std::ranges::copy_if(hca.answers, std::back_inserter(traps), [&](const ib::Mad& mad) {
        return mad.method() == ib::Method::kTrap &&
               ib::get(mad.smp_data(), ib::notice::kTrapNumber) == number;
    });
    return traps;
}

ib::Mad make_smp(ib::Method method, uint16_t attribute, uint32_t modifier,
                 std::span<const uint8_t> data) {
    ib::Mad smp;
    smp.set(ib::mad_header::kBaseVersion, ib::kMadBaseVersion);
    smp.set(ib::mad_header::kMgmtClass, static_cast<unsigned>(ib::MgmtClass::kSubnDirectedRoute));
    smp.set(ib::mad_header::kClassVersion, ib::kSmpClassVersion);
    smp.set(ib::mad_header::kMethod, static_cast<unsigned>(method));
    smp.set(ib::mad_header::kAttributeId, attribute);
    smp.set(ib::mad_header::kAttributeModifier, modifier);
    smp.set(ib::smp::kDrSlid, 0xFFFF);
    smp.set(ib::smp::kDrDlid, 0xFFFF);
    std::ranges::copy(data, smp.smp_data().begin());
    return smp;
}

// ---- the adapter

FakeHca::FakeHca(fabric::Admission& fabric, const link::Hello& hello,
                 const link::LinkEndpoint::Buffers& buffers)
    : sw_link(std::make_unique<fabric::SwitchEndpoint>(fabric, *this)),
      endpoint_(hello, buffers, *this) {
    endpoint = &endpoint_;
    node.node_guid = node.system_image_guid = hello.node_guid;
    node.set_description(hello.node_description);
    node.ports.push_back(ib::make_port({.guid = hello.port_guid}));
    auto parameters = make_parameters();
    parameters.vl_cap = 4;
    endpoint_.training().set_parameters(parameters);
}

bool FakeHca::carry() {
    if (!sw_link) {
        return false;
    }
    bool moved = false;
    while (sw_link && !endpoint_.output().empty()) {
        const auto out = endpoint_.output();
        const auto space = sw_link->input_space();
        const size_t n = std::min(out.size(), space.size());
        std::ranges::copy(out.first(n), space.begin());
        endpoint_.consume_output(n);
        moved = true;
        if (const auto fed = sw_link->feed_input(n); !fed) {
            error = fed.error().text;
            const auto goodbye = sw_link->output();
            (void)feed(endpoint_, goodbye);
            disconnect();
        }
    }
    while (sw_link && read_output && !sw_link->output().empty()) {
        const auto out = sw_link->output();
        const Bytes bytes(out.begin(), out.end());
        sw_link->consume_output(bytes.size());
        moved = true;
        if (const auto fed = feed(endpoint_, bytes); !fed) {
            throw std::runtime_error("the switch sent nonsense: " + fed.error().text);
        }
    }
    return moved;
}

void FakeHca::disconnect() {
    sw_link.reset();
    endpoint_.training().close();
}

void FakeHca::send_smp(ib::Mad smp) {
    const ib::SmiNode self{ib::NodeType::kChannelAdapter, 1};
    if (smp.is_directed_route()) {
        if (ib::smi_send(smp, self, 1).action != ib::SmiAction::kPort) {
            throw std::logic_error("this SMP does not leave its adapter");
        }
        send_packet(smp_packet(smp, ib::kPermissiveLid, ib::kPermissiveLid));
    } else {
        send_packet(smp_packet(smp, ib::Lid(TestFabric::kSwitchLid), ib::Lid(1)));
    }
}

uint32_t FakeHca::link_burst(ib::Burst& burst, ib::Placement& payload) {
    const auto view = ib::PacketView::parse(burst.bytes(), ib::Crcs::kElided);
    const bool smp = burst.lrh().vl == ib::kVl15 && view && view->bth().dest_qp == ib::kQp0 &&
                     view->payload().size() == ib::kMadSize;
    if (!smp) {
        return LinkRecorder::link_burst(burst, payload);
    }
    ib::Mad mad;
    std::ranges::copy(view->payload(), mad.bytes.begin());
    smp_lrhs.push_back(burst.lrh());
    smp_arrived(burst, mad);
    return 1;
}

void FakeHca::smp_arrived(const ib::Burst& packet, ib::Mad smp) {
    const ib::SmiNode self{ib::NodeType::kChannelAdapter, 1};
    if (smp.is_directed_route() && ib::smi_receive(smp, self, 1).action != ib::SmiAction::kLocal) {
        return;
    }
    if (!ib::smp_is_for_sma(smp)) {
        answers.push_back(smp);
        return;
    }
    requests.push_back(smp);
    auto answer = ib::sma_answer(node, smp, {.port = 1, .slid = packet.lrh().slid, .now_ns = 0});
    if (answer.disposition == ib::SmaDisposition::kReply && smp.is_directed_route() &&
        ib::smi_send(answer.reply, self, 1, packet.lrh().slid).action == ib::SmiAction::kPort) {
        send_packet(smp_packet(answer.reply, ib::kPermissiveLid, ib::kPermissiveLid));
    }
}

// ---- the fabric

fabric::SwitchConfig TestFabric::default_config() {
    fabric::SwitchConfig config;
    config.node_guid = ib::Guid(0x0650000000000001);
    config.num_ports = 8;
    return config;
}

TestFabric::TestFabric(unsigned hcas, fabric::SwitchConfig config, fabric::TimerQueue* timers)
    : sw(config, timers), timers_(timers) {
    move_clock();
    for (unsigned i = 0; i < hcas; ++i) {
        add_hca(kFirstGuid + 16 * i);
    }
    settle();
}

FakeHca& TestFabric::add_hca(uint64_t guid, const link::LinkEndpoint::Buffers& buffers) {
    return add(std::make_unique<FakeHca>(sw.admission(), make_hello(guid), buffers));
}

FakeHca& TestFabric::add(std::unique_ptr<FakeHca> hca) {
    hcas_.push_back(std::move(hca));
    settle();
    return *hcas_.back();
}

void TestFabric::move_clock() {
    if (timers_ != nullptr) {
        timers_->advance(now_ns_);
    } else {
        sw.advance(now_ns_);
    }
}

void TestFabric::settle() {
    bool moved = true;
    while (moved) {
        moved = false;
        move_clock();
        for (const auto& hca : hcas_) {
            moved = hca->carry() || moved;
        }
    }
}

void TestFabric::advance(uint64_t ns) {
    now_ns_ += ns;
    settle();
}

std::optional<ib::Mad> TestFabric::query(ib::Method method, uint16_t attribute, uint32_t modifier,
                                         std::span<const uint8_t> data, std::vector<uint8_t> path) {
    ib::Mad smp = make_smp(method, attribute, modifier, data);
    const uint64_t transaction = next_transaction_++;
    smp.set(ib::mad_header::kTransactionId, transaction);
    path.insert(path.begin(), 1);
    smp.bytes[7] = static_cast<uint8_t>(path.size());
    std::ranges::copy(path, initial_path(smp).begin() + 1);
    hca(0).send_smp(smp);
    settle();
    const auto answer = std::ranges::find(hca(0).answers, transaction, &ib::Mad::transaction_id);
    return answer == hca(0).answers.end() ? std::nullopt : std::optional(*answer);
}

uint16_t TestFabric::set_port_info(unsigned port, std::vector<Change> changes) {
    auto got = query(ib::Method::kGet, ib::attr::kPortInfo, port);
    auto data = got.value().smp_data();
    ib::set(data, ib::port_info::kPortState, 0);
    ib::set(data, ib::port_info::kPortPhysicalState, 0);
    for (const Change& change : changes) {
        ib::set(data, change.field, change.value);
    }
    return query(ib::Method::kSet, ib::attr::kPortInfo, port, data).value().status();
}

void TestFabric::make_active() {
    namespace pi = ib::port_info;
    set_port_info(0, {{pi::kLid, kSwitchLid}, {pi::kMasterSmLid, 1}});
    std::array<uint8_t, 64> info{};
    std::ranges::copy(query(ib::Method::kGet, ib::attr::kSwitchInfo, 0).value().smp_data(),
                      info.begin());
    ib::set(info, ib::switch_info::kLinearFdbTop, 200);
    query(ib::Method::kSet, ib::attr::kSwitchInfo, 0, info);
    std::array<uint8_t, 64> block;
    block.fill(fabric::kNoPort);
    for (unsigned i = 0; i < hcas_.size(); ++i) {
        block[lid_of(i)] = static_cast<uint8_t>(hca(i).port());
    }
    query(ib::Method::kSet, ib::attr::kLinearForwardingTable, 0, block);
    for (const auto& hca : hcas_) {
        for (const auto state : {ib::PortState::kArmed, ib::PortState::kActive}) {
            set_port_info(hca->port(), {{pi::kPortState, static_cast<unsigned>(state)}});
        }
    }
}

}  // namespace pib::test
