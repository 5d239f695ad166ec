// SPDX-License-Identifier: GPL-2.0-or-later
// A port without a link: what it is given to send waits in a queue until the test takes it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "port.h"

namespace pib::hca::test {

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
        return pending_;
    }
    void commit_packet() override {
        if (active) {
            sent.push_back(pending_);
        }
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
    uint16_t lid_;
    std::vector<uint8_t> pending_;
};

}  // namespace pib::hca::test
