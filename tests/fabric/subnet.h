// SPDX-License-Identifier: GPL-2.0-or-later
// A whole subnet in one thread: HCAs with fake hosts and mini drivers at the ports of the real
// switch, on one clock that moves from deadline to deadline. The same seed gives the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "device.h"
#include "fake_host.h"
#include "links/switch_endpoint.h"
#include "mini_driver.h"
#include "switch/switch.h"

namespace pib::test {

// Peer of a guest's fabric link.
class Cable {
  public:
    virtual ~Cable() = default;
    // Takes bytes from the device, always all of them.
    virtual void carry(std::span<const uint8_t> bytes) = 0;
    // Stores in `bytes` what has arrived for the device since the last call; false without any.
    virtual bool take(std::vector<uint8_t>& bytes) = 0;

    // Whether the device may ask for shared memory.
    virtual bool can_share() const { return false; }
    // Returns the shared memory for the device once, if it came with the bytes that take() returns
    // next.
    virtual std::optional<link::LinkRings> handed_over() { return std::nullopt; }
    // Gives the far end a turn; false if it did nothing. `kicked`: the device has woken it.
    virtual bool serve(bool /*kicked*/) { return false; }
    // Whether the far end has woken the device since the last call.
    virtual bool take_kick() { return false; }
};

// How frames travel between guests and the switch.
enum class LinkMode {
    kStream,
    kShared,
    kMixed,  // the guests with even numbers as kShared, the others as kStream
};
// Link mode from the environment variable PIB_LINK_MODE: "stream" (the default), "shared" or
// "mixed". In shared memory messages go as bursts of packets, unless PIB_BURSTS is "off".
LinkMode default_link_mode();

// One virtual machine as the fabric sees it: an HCA, what its driver has set up, and a cable.
class Guest {
  public:
    // `base`: the configuration of its HCA, without GUIDs and name.
    Guest(unsigned index, uint64_t now_ns, const hca::Config& base = {},
          const hca::record::Options& recording = {});
    static uint64_t port_guid(unsigned index) { return 0x5254000000010001 + index * 0x100; }

    // Starts the driver, or after Device::reset() restarts it: command queue, async EQ, PD, CQ.
    void start();

    void connect(std::unique_ptr<Cable> cable);
    void disconnect();
    // Runs the device and carries bytes both ways, once; false when there was nothing to do.
    bool move();

    // PORT_EVENT flags since the last call, or-ed.
    uint32_t take_port_events();
    pib_hca_query_port query_port();
    uint64_t counter(pib_hca_counter which);

    hca::test::FakeHost host;
    std::unique_ptr<hca::Device> device;
    hca::test::MiniDriver driver;
    hca::test::MiniEq async_eq;
    hca::test::MiniCq cq;
    uint32_t pd = 0;
    bool is_stalled = false;  // Subnet gives the guest no turns, as if its VM did not run

  private:
    bool serve_rings();

    std::unique_ptr<Cable> cable_;
    bool sharing_ = false;
    bool asleep_ = false;           // in shared memory: waits for a kick
    std::vector<uint8_t> carried_;  // buffer for bytes in transit, of either direction
};

// Runs all guests, whatever their links are.
class World {
  public:
    virtual ~World() = default;
    // Runs everything that is due at this instant.
    virtual void settle() = 0;
    // Runs until done() is true; false if that takes longer than `within_ns`.
    virtual bool run_until(const std::function<bool()>& done,
                           uint64_t within_ns = 60'000'000'000) = 0;
};

class Subnet final : public World {
  public:
    static constexpr unsigned kSmallRing = 16;  // log of a ring's size; small, so that it fills up
    explicit Subnet(unsigned guests, LinkMode mode = default_link_mode(),
                    unsigned log_ring = kSmallRing, const hca::Config& base = {},
                    std::span<const hca::record::Options> recordings = {});

    Guest& guest(unsigned index) { return *guests_[index]; }
    unsigned guest_count() const { return static_cast<unsigned>(guests_.size()); }
    uint64_t now_ns() const { return now_ns_; }

    // Connects a guest's cable to the switch again after disconnect().
    void connect(unsigned guest);
    // Replaces the switch by a new one, as after a crash, and connects all cables again.
    void restart_switch();

    void settle() override;
    // Moves the clock to the next deadline and settles; false when there is none up to `limit_ns`.
    bool step_clock(uint64_t limit_ns = UINT64_MAX);
    void advance(uint64_t ns);
    // `within_ns` is virtual time.
    bool run_until(const std::function<bool()>& done, uint64_t within_ns = 60'000'000'000) override;

    // Sets the faults of all packets that guests send, with a different seed for each guest.
    void set_faults(fabric::FaultSpec faults);
    fabric::FaultCounts fault_counts();

    fabric::Switch sw;

  private:
    const LinkMode mode_;
    const unsigned log_ring_;
    std::vector<std::unique_ptr<Guest>> guests_;
    uint64_t now_ns_ = 1'000'000;
};

}  // namespace pib::test
