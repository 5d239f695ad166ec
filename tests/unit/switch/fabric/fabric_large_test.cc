// SPDX-License-Identifier: GPL-2.0-or-later
// 2,000 hosts and 155 switches in one process: what a subnet manager's heavy sweep asks of them.
#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <map>
#include <set>

#include "topology_net.h"

namespace pib::test {
namespace {

namespace ni = ib::node_info;
namespace pi = ib::port_info;

constexpr unsigned kPods = 10, kLeaves = 10, kHosts = 20, kMiddles = 5;
constexpr unsigned kAllHosts = kPods * kLeaves * kHosts;
constexpr unsigned kAllSwitches = kPods * (kLeaves + kMiddles) + kMiddles;
constexpr unsigned kAllLinks = kAllHosts + kPods * kLeaves * kMiddles + kPods * kMiddles;
constexpr unsigned kPorts = 36;
constexpr std::uint64_t kOwnGuid = 0x9000;

std::string name(const char* kind, unsigned pod, unsigned number) {
    return kind + std::to_string(pod) + "-" + std::to_string(number);
}

std::string port(unsigned own, const std::string& peer, unsigned peers) {
    return "[" + std::to_string(own) + "] \"" + peer + "\"[" + std::to_string(peers) + "]\n";
}

std::string node(const char* kind, unsigned ports, const std::string& id) {
    return std::string("\n") + kind + " " + std::to_string(ports) + " \"" + id + "\"\n";
}

// A fat tree of three levels: each leaf of a pod has a link to each middle switch of the pod, and
// each of these one to the core switch of its number.
std::string fat_tree() {
    std::string text;
    for (unsigned pod = 0; pod < kPods; ++pod) {
        for (unsigned leaf = 0; leaf < kLeaves; ++leaf) {
            const auto id = name("leaf", pod, leaf);
            text += node("Switch", kPorts, id);
            for (unsigned host = 0; host < kHosts; ++host) {
                text += port(1 + host, name("host", pod * kLeaves + leaf, host), 1);
            }
            for (unsigned middle = 0; middle < kMiddles; ++middle) {
                text += port(1 + kHosts + middle, name("middle", pod, middle), 1 + leaf);
            }
            for (unsigned host = 0; host < kHosts; ++host) {
                text += node("Ca", 1, name("host", pod * kLeaves + leaf, host));
                text += port(1, id, 1 + host);
            }
        }
        for (unsigned middle = 0; middle < kMiddles; ++middle) {
            text += node("Switch", kPorts, name("middle", pod, middle));
            text += port(1 + kLeaves, name("core", 0, middle), 1 + pod);
        }
    }
    for (unsigned core = 0; core < kMiddles; ++core) {
        text += node("Switch", kPorts, name("core", 0, core));
    }
    return text;
}

struct Found {
    std::vector<std::uint8_t> path;
    bool is_switch = false;
};

// As a subnet manager discovers: by directed routes, each node once, through all ports that are up.
class Sweep {
  public:
    Sweep(TopologyNet& net, FakeHca& own) : net_(net), own_(own) {}

    void run() {
        visit({});
        while (!unseen_.empty()) {
            const auto path = unseen_.front();
            unseen_.pop_front();
            look_through_ports(path);
        }
    }

    ib::Mad ask(ib::Method method, std::uint16_t attribute, std::uint32_t modifier,
                const std::vector<std::uint8_t>& path, std::span<const std::uint8_t> data = {}) {
        own_.answers.clear();
        const auto got = net_.query(method, attribute, modifier, path, data);
        REQUIRE(got);
        REQUIRE(got->status() == 0);
        ++asked;
        return *got;
    }

    std::map<std::uint64_t, Found> nodes;
    unsigned ends_up = 0;  // ports of switches whose link is up
    unsigned asked = 0;

  private:
    void visit(const std::vector<std::uint8_t>& path) {
        const ib::Mad info = ask(ib::Method::kGet, ib::attr::kNodeInfo, 0, path);
        const bool is_switch = ib::get(info.smp_data(), ni::kNodeType) == 2;
        const auto guid = ib::get(info.smp_data(), ni::kNodeGuid);
        if (nodes.try_emplace(guid, Found{path, is_switch}).second && is_switch) {
            unseen_.push_back(path);
        }
    }
    void look_through_ports(const std::vector<std::uint8_t>& path) {
        for (std::uint8_t number = 1; number <= kPorts; ++number) {
            const ib::Mad info = ask(ib::Method::kGet, ib::attr::kPortInfo, number, path);
            if (ib::get(info.smp_data(), pi::kPortState) ==
                static_cast<unsigned>(ib::PortState::kDown)) {
                continue;
            }
            ++ends_up;
            auto next = path;
            next.push_back(number);
            visit(next);
        }
    }

    TopologyNet& net_;
    FakeHca& own_;
    std::deque<std::vector<std::uint8_t>> unseen_;
};

}  // namespace

TEST_CASE("a fabric of 2,000 hosts: every node answers a sweep and takes its LID") {
    const std::string text = fat_tree();
    TopologyNet net(text.c_str());
    FakeHca& own = net.connect("host0-0", kOwnGuid);
    Sweep sweep(net, own);
    sweep.run();
    CHECK(sweep.nodes.size() == kAllHosts + kAllSwitches);
    // Each link between switches was seen from both ends, the others from the switch.
    CHECK(sweep.ends_up == 2 * kAllLinks - kAllHosts);

    std::set<std::string> descriptions;
    std::uint16_t lid = 0;
    for (const auto& [guid, found] : sweep.nodes) {
        if (found.is_switch || guid == kOwnGuid) {
            continue;
        }
        const auto what = sweep.ask(ib::Method::kGet, ib::attr::kNodeDescription, 0, found.path);
        const auto* chars = reinterpret_cast<const char*>(what.smp_data().data());
        descriptions.emplace(chars, ::strnlen(chars, what.smp_data().size()));
        ib::Mad info = sweep.ask(ib::Method::kGet, ib::attr::kPortInfo, 1, found.path);
        ib::set(info.smp_data(), pi::kLid, ++lid);
        ib::set(info.smp_data(), pi::kMasterSmLid, 1);
        ib::set(info.smp_data(), pi::kPortPhysicalState, 0);
        ib::set(info.smp_data(), pi::kPortState, static_cast<unsigned>(ib::PortState::kArmed));
        info = sweep.ask(ib::Method::kSet, ib::attr::kPortInfo, 1, found.path, info.smp_data());
        CHECK(ib::get(info.smp_data(), pi::kLid) == lid);
    }
    CHECK(lid == kAllHosts - 1);
    CHECK(descriptions.size() == kAllHosts - 1);
    CHECK(descriptions.contains("host99-19"));
    CHECK(sweep.asked > 10'000);
}

}  // namespace pib::test
