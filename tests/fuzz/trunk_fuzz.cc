// SPDX-License-Identifier: GPL-2.0-or-later
// A trunk between switches of two processes, with a hostile peer at the connecting end, which waits
// for WELCOME, or at the listening end, which waits for HELLO. This process's fabric stays
// consistent, and its output is well-formed.
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "fabric/fabric.h"
#include "fabric/topology.h"
#include "fuzz_target.h"
#include "link_parts.h"
#include "link_steps.h"
#include "links/switch_endpoint.h"
#include "managed_switch.h"

namespace pib::fuzz {
namespace {

using namespace link;
using fabric::Fabric;

constexpr unsigned kMaxSteps = 128;
constexpr uint64_t kFarGuid = 0x200;
constexpr const char* kTopology =
    "switchguid=0x100\nSwitch 8 \"left\"\n[1] \"a\"[1]\n[7] \"right\"[7]\n[8] \"right\"[8]\n\n"
    "switchguid=0x200\nSwitch 8 \"right\"\n[1] \"b\"[1]\n\ncaguid=0x10\nCa 1 \"a\"\n\n"
    "caguid=0x20\nCa 1 \"b\"\n";

std::unique_ptr<Fabric> left_half() {
    auto topology = fabric::parse_topology(kTopology, "trunk");
    auto made = Fabric::make(std::move(*topology), {}, {"left"});
    return std::move(*made);
}

// One end of a connection. It disconnects when the peer breaks the protocol.
class End final : private fabric::SwitchEndpoint::Owner {
  public:
    explicit End(Fabric& fabric) : link_(fabric, *this) {}
    explicit End(fabric::Trunk& trunk) : link_(trunk, *this) {}

    void feed(std::span<const uint8_t> bytes) {
        while (!bytes.empty() && open_) {
            const auto space = link_.input_space();
            const auto head = bytes.first(std::min(bytes.size(), space.size()));
            std::ranges::copy(head, space.begin());
            bytes = bytes.subspan(head.size());
            const auto fed = link_.feed_input(head.size());
            require(fed || !fed.error().text.empty(), "every failure has a text");
            open_ = fed.has_value();
        }
    }
    void read() {
        while (!link_.output().empty()) {
            const auto space = reader_.space();
            const size_t n = std::min(space.size(), link_.output().size());
            std::copy_n(link_.output().begin(), n, space.begin());
            reader_.commit(n);
            link_.consume_output(n);
            auto frame = reader_.next();
            for (; frame && *frame; frame = reader_.next()) {
            }
            require(frame.has_value(), "output is well-formed");
        }
    }
    [[nodiscard]] bool open() const { return open_; }

  private:
    void link_output_ready() override {}
    void link_note(const std::string& text) override {
        require(!text.empty() && text.find('\n') == std::string::npos, "a note is a line");
    }

    fabric::SwitchEndpoint link_;
    FrameReader reader_;
    bool open_ = true;
};

class Bench {
  public:
    // `connects`: this side opens the connection, as with --connect.
    explicit Bench(bool connects) : fabric_(left_half()), connects_(connects) {
        if (connects) {
            trunks_ = fabric_->trunks_to({}).value();
            for (fabric::Trunk* trunk : trunks_) {
                trunk->set_connects();
            }
        }
    }
    void step(Input& in) {
        const uint8_t op = in.byte();
        auto& end = ends_[op >> 7];
        switch (op % 8) {
            case 0:
                reconnect(op >> 7);
                break;
            case 1:
                fabric_->advance(now_ns_ += uint64_t{in.byte()} << 20);
                break;
            case 2:
                activate(*fabric_->switches().front(), 8);
                break;
            case 3:
                if (end) {
                    end->read();
                }
                break;
            default:
                if (end) {
                    end->feed(steps_.next(in));
                }
                break;
        }
        for (unsigned turn = 0; fabric_->deliver(); ++turn) {
            require(turn < 10'000, "each packet ends");
        }
        if (end && !end->open()) {
            end.reset();
        }
    }
    void finish() {
        for (auto& end : ends_) {
            end.reset();
        }
        for (const fabric::Switch* one : fabric_->switches()) {
            require(one->held_packets() == 0, "packets go with their links");
        }
    }

  private:
    void reconnect(unsigned index) {
        ends_[index].reset();
        if (!connects_) {
            ends_[index].emplace(*fabric_);
        } else if (index < trunks_.size()) {
            ends_[index].emplace(*trunks_[index]);
        }
    }

    std::unique_ptr<Fabric> fabric_;
    bool connects_;
    std::vector<fabric::Trunk*> trunks_;
    std::array<std::optional<End>, 2> ends_;
    LinkSteps steps_{{.hello = {.role = Role::kSwitch,
                                .port_number = 7,
                                .node_guid = ib::Guid(kFarGuid),
                                .port_guid = ib::Guid(kFarGuid),
                                .node_description = "right"},
                      .welcome = {.switch_guid = ib::Guid(kFarGuid), .port_number = 7}}};
    uint64_t now_ns_ = 1;
};

}  // namespace

std::vector<Bytes> seeds() {
    std::vector<Bytes> all;
    for (const uint8_t connects : {0, 1}) {
        Bytes bytes = {connects, 0};
        for (const Bytes& step : LinkSteps::opening(connects != 0)) {
            bytes.push_back(4);
            std::ranges::copy(step, std::back_inserter(bytes));
        }
        bytes.insert(bytes.end(), {2, 1, 10});
        for (const Bytes& step : LinkSteps::packets()) {
            bytes.push_back(4);
            std::ranges::copy(step, std::back_inserter(bytes));
        }
        bytes.insert(bytes.end(), {3, 1, 100, 0x80, 0});
        all.push_back(bytes);
    }
    return all;
}

void run(std::span<const uint8_t> input) {
    Input in(input);
    Bench bench((in.byte() & 1) != 0);
    for (unsigned step = 0; step < kMaxSteps && !in.empty(); ++step) {
        bench.step(in);
    }
    bench.finish();
}

}  // namespace pib::fuzz
