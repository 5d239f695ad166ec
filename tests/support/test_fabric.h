// SPDX-License-Identifier: GPL-2.0-or-later
// A switch with channel adapters at its ports, all in memory and in one thread. The test moves the
// clock. Each adapter answers SMPs with the code of the HCA's SMA.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ib/mgmt/mad_agent.h"
#include "ib/mgmt/smi.h"
#include "link_pair.h"
#include "links/switch_endpoint.h"
#include "switch/switch.h"

namespace pib::test {

class TestFabric;

// A channel adapter with one port, on a connection to the switch.
class FakeHca : public LinkRecorder, public fabric::SwitchEndpoint::Owner {
  public:
    FakeHca(fabric::Admission& fabric, const link::Hello& hello,
            const link::LinkEndpoint::Buffers& buffers = make_buffers());
    ~FakeHca() override = default;

    // Carries bytes both ways once; false when there were none.
    virtual bool carry();
    void disconnect();

    // Sends an SMP: along its directed route, whose first hop is the adapter's port 1, or by LID to
    // the switch.
    void send_smp(ib::Mad smp);
    bool send_packet(const Bytes& packet) { return test::send(endpoint_, packet); }

    // Received SMPs that are not for the SMA (responses and traps), in order.
    std::vector<ib::Mad> answers;
    std::vector<ib::Lrh> smp_lrhs;  // LRH of every received SMP
    std::vector<ib::Mad> requests;  // SMPs that the SMA answered
    std::vector<std::string> notes;
    std::string error;  // why the switch closed the connection
    std::unique_ptr<fabric::SwitchEndpoint> sw_link;
    ib::SmaNode node;
    bool read_output = true;  // false: the adapter does not read the switch's output
    unsigned ready = 0;       // number of times that the switch asked for publish()

    [[nodiscard]] link::LinkEndpoint& own_end() { return endpoint_; }
    [[nodiscard]] unsigned port() const { return sw_link ? sw_link->port_number() : 0; }
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override;

  private:
    void link_output_ready() override { ++ready; }
    void link_note(const std::string& text) override { notes.push_back(text); }
    void smp_arrived(const ib::Burst& packet, ib::Mad smp);

    link::LinkEndpoint endpoint_;
};

class TestFabric {
  public:
    // With `timers`, which outlive the fabric, the switch works only at its deadlines, as in the
    // program.
    explicit TestFabric(unsigned hcas = 0, fabric::SwitchConfig config = default_config(),
                        fabric::TimerQueue* timers = nullptr);

    static fabric::SwitchConfig default_config();
    FakeHca& add_hca(uint64_t guid, const link::LinkEndpoint::Buffers& buffers = make_buffers());
    FakeHca& add(std::unique_ptr<FakeHca> hca);
    [[nodiscard]] FakeHca& hca(unsigned index) { return *hcas_[index]; }

    // Carries bytes until nothing moves any more.
    void settle();
    void advance(uint64_t ns);
    [[nodiscard]] uint64_t now_ns() const { return now_ns_; }

    // A Get or Set from the first adapter along `path` (switch ports after the adapter's own), and
    // its answer.
    std::optional<ib::Mad> query(ib::Method method, uint16_t attribute, uint32_t modifier,
                                 std::span<const uint8_t> data = {},
                                 std::vector<uint8_t> path = {});
    // Changes fields in the PortInfo of a switch port; returns the status of the answer.
    struct Change {
        ib::Field field;
        uint64_t value;
    };
    uint16_t set_port_info(unsigned port, std::vector<Change> changes);

    // Acts as a subnet manager: assigns LIDs 1, 2, ... to the adapters and 100 to the switch, sets
    // the LFT and SM LID 1, and makes all connected ports Active.
    void make_active();
    static constexpr uint16_t kSwitchLid = 100;
    static uint16_t lid_of(unsigned hca_index) { return static_cast<uint16_t>(hca_index + 1); }
    [[nodiscard]] uint64_t count(unsigned port, ib::Counter counter) {
        return sw.counters(port).value(counter);
    }

    fabric::Switch sw;

  private:
    void move_clock();

    fabric::TimerQueue* timers_;
    std::vector<std::unique_ptr<FakeHca>> hcas_;
    uint64_t now_ns_ = 1'000'000'000;
    uint64_t next_transaction_ = 0x1000;
};

// The traps with this number that have reached an adapter, in order.
std::vector<ib::Mad> traps_of(const FakeHca& hca, uint16_t number);
// The packet that carries an SMP.
Bytes smp_packet(const ib::Mad& smp, ib::Lid dlid, ib::Lid slid);
ib::Mad make_smp(ib::Method method, uint16_t attribute, uint32_t modifier,
                 std::span<const uint8_t> data = {});

}  // namespace pib::test
