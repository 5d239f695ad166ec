// SPDX-License-Identifier: GPL-2.0-or-later
// A port without a link: what it is given to send waits in a queue until the test takes it. Runs
// are taken apart at once, so that tests see packets whatever is sent; with PIB_RUNS=on.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "port.h"

namespace pib::hca::test {

inline bool runs_wanted() {
    const char* runs = std::getenv("PIB_RUNS");
    return runs != nullptr && std::string_view(runs) == "on";
}

class FakePort : public Port {
  public:
    explicit FakePort(uint16_t lid) : lid_(lid) {
        gids.resize(1);
        gids[0][0] = 0xfe;
        gids[0][1] = 0x80;
        gids[0][14] = static_cast<uint8_t>(lid >> 8);
        gids[0][15] = static_cast<uint8_t>(lid);
    }

    // ---- Port
    std::span<uint8_t> begin_packet(const TxRequest& request) override {
        if (sent.size() >= capacity) {
            refused = true;
            return {};
        }
        last_request = request;
        pending_.assign(request.bytes, 0xee);
        is_run_ = false;
        return pending_;
    }
    void commit_packet() override {
        if (active && is_run_) {
            take_apart();
        } else if (active) {
            sent.push_back(pending_);
        }
    }
    uint32_t run_limit(const TxRequest&, uint32_t run_mtu) override {
        const size_t room = capacity - std::min(capacity, sent.size());
        const auto most = static_cast<uint32_t>(std::min(room, ib::kMaxRunPayload / run_mtu));
        return takes_runs ? most : 0;
    }
    std::span<uint8_t> begin_run(const TxRequest& request, const ib::RunSize& size) override {
        last_request = request;
        pending_.assign(size.body(), 0xee);
        is_run_ = true;
        return pending_;
    }
    bool is_active() const override { return active; }
    uint16_t lid() const override { return lid_; }
    uint8_t lmc() const override { return 0; }
    bool owns_lid(uint16_t dlid) const override { return dlid == lid_; }
    uint32_t mtu_bytes() const override { return mtu; }
    uint16_t pkey(unsigned index) const override {
        return index < pkeys.size() ? pkeys[index] : uint16_t{0};
    }
    unsigned pkey_count() const override { return static_cast<unsigned>(pkeys.size()); }
    const uint8_t* gid(unsigned index) const override {
        return index < gids.size() ? gids[index].data() : nullptr;
    }
    void pkey_violation(const ib::PacketView&) override { ++pkey_violations; }
    void qkey_violation(const ib::PacketView&) override { ++qkey_violations; }
    void mad_dropped(bool vl15) override { ++(vl15 ? vl15_dropped : qp1_dropped); }

    // ---- what the test sets and sees
    bool active = true;
    uint32_t mtu = 4096;
    size_t capacity = 64;
    bool takes_runs = runs_wanted();
    unsigned runs_sent = 0;
    std::vector<uint16_t> pkeys = {0xffff, 0x8001, 0x0002, 0};
    std::vector<std::array<uint8_t, 16>> gids;
    std::deque<std::vector<uint8_t>> sent;
    TxRequest last_request{};
    bool refused = false;
    unsigned pkey_violations = 0;
    unsigned qkey_violations = 0;
    unsigned vl15_dropped = 0;
    unsigned qp1_dropped = 0;

  private:
    void take_apart() {
        const std::span<const uint8_t> body(pending_);
        const auto run = ib::PacketRun::parse(body.first<ib::kRunPayload>(), body);
        if (!run) {
            throw std::runtime_error(std::string("malformed run: ") + ib::to_string(run.error()));
        }
        ++runs_sent;
        ib::RunHeaders room;
        for (uint32_t i = 0; i < run->size().packets; ++i) {
            const ib::PacketBytes packet = run->packet(i, room);
            packet.copy_to(sent.emplace_back(packet.size()));
        }
    }

    uint16_t lid_;
    std::vector<uint8_t> pending_;
    bool is_run_ = false;
};

}  // namespace pib::hca::test
