// SPDX-License-Identifier: GPL-2.0-or-later
#include "fabric_sweep.h"

#include <catch2/catch_test_macros.hpp>

namespace pib::test {

namespace ni = ib::node_info;
namespace pi = ib::port_info;

void FabricSweep::run() {
    visit({});
    while (!unseen_.empty()) {
        const Found found = unseen_.front();
        unseen_.pop_front();
        look_through_ports(found);
    }
}

ib::Mad FabricSweep::ask(ib::Method method, uint16_t attribute, uint32_t modifier, const Path& path,
                         std::span<const uint8_t> data) {
    own_.answers.clear();
    own_.smp_lrhs.clear();
    const auto got = net_.query(method, attribute, modifier, path, data);
    REQUIRE(got);
    REQUIRE(got->status() == 0);
    ++asked;
    return *got;
}

void FabricSweep::visit(const Path& path) {
    const ib::Mad info = ask(ib::Method::kGet, ib::attr::kNodeInfo, 0, path);
    const bool is_switch = ib::get(info.smp_data(), ni::kNodeType) == 2;
    const auto ports = static_cast<uint8_t>(ib::get(info.smp_data(), ni::kNumPorts));
    const auto guid = ib::get(info.smp_data(), ni::kNodeGuid);
    const Found found{path, is_switch ? ports : uint8_t{0}};
    if (nodes.try_emplace(guid, found).second && is_switch) {
        unseen_.push_back(found);
    }
}

void FabricSweep::look_through_ports(const Found& found) {
    for (uint8_t number = 1; number <= found.switch_ports; ++number) {
        const ib::Mad info = ask(ib::Method::kGet, ib::attr::kPortInfo, number, found.path);
        if (ib::get(info.smp_data(), pi::kPortState) ==
            static_cast<unsigned>(ib::PortState::kDown)) {
            continue;
        }
        ++ends_up;
        auto next = found.path;
        next.push_back(number);
        visit(next);
    }
}

}  // namespace pib::test
