// SPDX-License-Identifier: GPL-2.0-or-later
#include "mini_sm.h"

#include <algorithm>
#include <stdexcept>

#include "ib/mgmt/smi.h"

namespace pib::test {

// ---- special QPs

MadQp::MadQp(Guest& guest, pib_hca_qp_type type) : guest_(guest) {
    hca::test::MiniDriver& driver = guest.driver;
    cq_ = driver.create_cq(driver.create_eq(2).eqn, 8);
    mr_ = driver.create_mr(guest.pd, 2 * kSlots * kSlotBytes, PIB_HCA_ACCESS_LOCAL_WRITE);
    hca::test::QpShape shape;
    shape.type = type;
    shape.pd = guest.pd;
    shape.send_cq = shape.recv_cq = cq_.cqn;
    shape.port = 1;
    shape.log_sq_depth = shape.log_rq_depth = 6;
    qp_ = driver.create_qp(shape);
    qkey_ = type == PIB_HCA_QP_GSI ? ib::kGsiQKey.value() : 0;
    driver.connect_ud(qp_, 1, qkey_);
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
        post_recv(slot);
    }
}

void MadQp::post_recv(uint32_t slot) {
    const pib_hca_sge sge = guest_.driver.sge(mr_, slot * kSlotBytes, kGrhBytes + ib::kMadSize);
    guest_.driver.post_recv(qp_, {&sge, 1});
}

void MadQp::send(const ib::Mad& mad, uint16_t dlid, uint32_t dest_qp) {
    const uint32_t offset = (kSlots + next_send_++ % kSlots) * kSlotBytes;
    mr_.memory.write(offset, mad.bytes);
    hca::test::SendWr request;
    request.sges = {guest_.driver.sge(mr_, offset, ib::kMadSize)};
    request.av.dlid = dlid;
    request.av.port = 1;
    request.dest_qpn = dest_qp;
    request.qkey = qkey_;
    guest_.driver.post_send(qp_, request);
}

std::vector<MadQp::Received> MadQp::receive() {
    std::vector<Received> received;
    while (const auto cqe = guest_.driver.poll(cq_)) {
        if ((cqe->opcode & PIB_HCA_CQE_IS_RECV) == 0) {
            failed_sends += cqe->status != PIB_HCA_WC_SUCCESS;
            continue;
        }
        const uint32_t slot = next_recv_++ % kSlots;
        Received one{.mad = {}, .cqe = *cqe};
        mr_.memory.read(slot * kSlotBytes + kGrhBytes, one.mad.bytes);
        received.push_back(one);
        post_recv(slot);
    }
    return received;
}

// ---- requests

std::optional<ib::Mad> MiniSm::ask(ib::Method method, uint16_t attribute, uint32_t modifier,
                                   const Path& path, std::span<const uint8_t> data) {
    ib::Mad mad;
    mad.set(ib::mad_header::kBaseVersion, 1);
    mad.set(ib::mad_header::kMgmtClass, static_cast<unsigned>(ib::MgmtClass::kSubnDirectedRoute));
    mad.set(ib::mad_header::kClassVersion, 1);
    mad.set(ib::mad_header::kMethod, static_cast<unsigned>(method));
    mad.set(ib::mad_header::kTransactionId, next_transaction_++);
    mad.set(ib::mad_header::kAttributeId, attribute);
    mad.set(ib::mad_header::kAttributeModifier, modifier);
    mad.set(ib::smp::kDrSlid, 0xffff);
    mad.set(ib::smp::kDrDlid, 0xffff);
    mad.set(ib::smp::kHopCount, path.size());
    std::ranges::copy(path, initial_path(mad).begin() + 1);
    std::ranges::copy(data, mad.smp_data().begin());
    const auto way = ib::smi_send(mad, {.num_ports = 1}, 1);
    if (way.action == ib::SmiAction::kLocal) {
        pib_hca_mad_ifc in{};
        std::ranges::copy(mad.bytes, in.mad);
        in.slid = 0xffff;
        ib::Mad out;
        const auto outcome = home_.driver.command_in_out(PIB_HCA_CMD_MAD_IFC, 1, in, out.bytes);
        const bool replied = (outcome.result & PIB_HCA_MAD_RESULT_REPLY) != 0;
        return outcome.ok() && replied ? std::optional(out) : std::nullopt;
    }
    answers_.clear();
    const auto answered = [&] {
        collect();
        return !answers_.empty() && answers_.back().transaction_id() == mad.transaction_id();
    };
    for (unsigned i = 0; i < tries; ++i) {
        qp0_.send(mad, ib::Lid::kPermissiveValue, 0);
        if (world_.run_until(answered, 100'000'000)) {
            return answers_.back();
        }
    }
    return std::nullopt;
}

void MiniSm::collect() {
    for (const auto& [mad, cqe] : qp0_.receive()) {
        if (mad.method() == ib::Method::kTrap) {
            traps_.push_back(mad);
            ib::Mad repress = mad;
            repress.set(ib::mad_header::kMethod, static_cast<unsigned>(ib::Method::kTrapRepress));
            qp0_.send(repress, cqe.slid, 0);
        } else {
            answers_.push_back(mad);
        }
    }
}

std::vector<ib::Mad> MiniSm::take_traps() {
    collect();
    world_.settle();
    return std::exchange(traps_, {});
}

ib::Mad MiniSm::must(std::optional<ib::Mad> answer) {
    if (!answer || answer->status() != 0) {
        throw std::runtime_error(answer ? "an SMP was refused with status " +
                                              std::to_string(answer->status())
                                        : "an SMP was not answered");
    }
    return *answer;
}

// ---- the sweep

void MiniSm::discover() {
    nodes_.clear();
    const auto get = [&](uint16_t attribute, uint32_t modifier, const Path& path) {
        return must(ask(ib::Method::kGet, attribute, modifier, path));
    };
    const ib::Mad own = get(ib::attr::kNodeInfo, 0, {});
    const ib::Mad middle = get(ib::attr::kNodeInfo, 0, {1});
    if (ib::get(middle.smp_data(), ib::node_info::kNodeType) != 2) {
        throw std::runtime_error("there is no switch");
    }
    const auto own_port =
        static_cast<uint8_t>(ib::get(middle.smp_data(), ib::node_info::kLocalPortNum));
    nodes_.push_back({ib::get(own.smp_data(), ib::node_info::kPortGuid), own_port, {}});
    const auto ports = ib::get(middle.smp_data(), ib::node_info::kNumPorts);
    for (uint8_t port = 1; port <= ports; ++port) {
        const ib::Mad info = get(ib::attr::kPortInfo, port, {1});
        if (port == own_port || ib::get(info.smp_data(), ib::port_info::kPortState) < 2) {
            continue;
        }
        const ib::Mad node = get(ib::attr::kNodeInfo, 0, {1, port});
        nodes_.push_back({ib::get(node.smp_data(), ib::node_info::kPortGuid), port, {1, port}});
    }
}

void MiniSm::set_port(const Path& path, uint32_t port, const std::vector<Change>& changes) {
    ib::Mad info = must(ask(ib::Method::kGet, ib::attr::kPortInfo, port, path));
    ib::set(info.smp_data(), ib::port_info::kPortState, 0);
    ib::set(info.smp_data(), ib::port_info::kPortPhysicalState, 0);
    for (const Change& change : changes) {
        ib::set(info.smp_data(), change.field, change.value);
    }
    must(ask(ib::Method::kSet, ib::attr::kPortInfo, port, path, info.smp_data()));
}

void MiniSm::route() {
    std::array<std::array<uint8_t, ib::kLftEntriesPerBlock>, 2> lft;
    for (auto& block : lft) {
        block.fill(0xff);
    }
    lft[kSwitchLid / 64][kSwitchLid % 64] = 0;
    for (const Node& node : nodes_) {
        const uint16_t lid = lids_.at(node.port_guid);
        lft.at(lid / 64)[lid % 64] = node.switch_port;
    }
    ib::Mad info = must(ask(ib::Method::kGet, ib::attr::kSwitchInfo, 0, {1}));
    ib::set(info.smp_data(), ib::switch_info::kLinearFdbTop, 127);
    ib::set(info.smp_data(), ib::switch_info::kPortStateChange, 1);  // 1 clears it
    must(ask(ib::Method::kSet, ib::attr::kSwitchInfo, 0, {1}, info.smp_data()));
    for (uint32_t block = 0; block < lft.size(); ++block) {
        must(ask(ib::Method::kSet, ib::attr::kLinearForwardingTable, block, {1}, lft[block]));
    }
}

// Sets the state of both ends of each link that are in state `from`.
void MiniSm::set_state(ib::PortState from, ib::PortState to) {
    const auto step = [&](const Path& path, uint32_t port) {
        const ib::Mad info = must(ask(ib::Method::kGet, ib::attr::kPortInfo, port, path));
        if (ib::get(info.smp_data(), ib::port_info::kPortState) == static_cast<unsigned>(from)) {
            set_port(path, port, {{ib::port_info::kPortState, static_cast<unsigned>(to)}});
        }
    };
    for (const Node& node : nodes_) {
        step({1}, node.switch_port);
        step(node.path, 1);
    }
}

void MiniSm::sweep() {
    world_.settle();
    discover();
    for (const Node& node : nodes_) {
        if (lids_.try_emplace(node.port_guid, next_lid_).second) {
            ++next_lid_;
        }
    }
    const uint16_t sm_lid = lids_.at(nodes_[0].port_guid);
    set_port({1}, 0, {{ib::port_info::kLid, kSwitchLid}, {ib::port_info::kMasterSmLid, sm_lid}});
    for (const Node& node : nodes_) {
        set_port(node.path, 1,
                 {{ib::port_info::kLid, lids_.at(node.port_guid)},
                  {ib::port_info::kMasterSmLid, sm_lid},
                  {ib::port_info::kSubnetTimeOut, 8}});
    }
    route();
    set_state(ib::PortState::kInitialize, ib::PortState::kArmed);
    set_state(ib::PortState::kArmed, ib::PortState::kActive);
    world_.settle();
}

void MiniSm::set_group(uint16_t mlid, const std::vector<unsigned>& guests) {
    std::array<uint8_t, ib::kSmpDataSize> block{};
    uint16_t mask = 0;
    for (const unsigned guest : guests) {
        const auto node = std::ranges::find(nodes_, Guest::port_guid(guest), &Node::port_guid);
        mask = static_cast<uint16_t>(mask | 1u << node->switch_port);
    }
    ib::store_be(&block[2 * (mlid - ib::Lid::kMulticastFirst)], mask);
    must(ask(ib::Method::kSet, ib::attr::kMulticastForwardingTable, 0, {1}, block));
}

uint16_t MiniSm::lid_of(unsigned guest) const {
    return lids_.at(Guest::port_guid(guest));
}

}  // namespace pib::test
