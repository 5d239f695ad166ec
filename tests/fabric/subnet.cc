// SPDX-License-Identifier: GPL-2.0-or-later
#include "subnet.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "shared_memory.h"

namespace pib::test {

namespace {

fabric::SwitchConfig switch_config() {
    fabric::SwitchConfig config;
    config.node_guid = ib::Guid(0x0002c90000000100);
    config.num_ports = 8;
    return config;
}

hca::Config hca_config(unsigned index, const hca::Config& base) {
    hca::Config config = base;
    config.port_guids[0] = Guest::port_guid(index);
    config.node_guid = Guest::port_guid(index) - 1;
    config.node_description = "vm" + std::to_string(index);
    const char* bursts = std::getenv("PIB_BURSTS");
    config.bursts = bursts == nullptr || std::string_view(bursts) != "off";
    return config;
}

// A cable to a switch in the same process.
class SwitchCable final : public Cable, private fabric::SwitchEndpoint::Owner {
  public:
    SwitchCable(fabric::Switch& sw, LinkMode mode, unsigned log_ring)
        : mode_(mode),
          log_ring_(log_ring),
          link_(sw.admission(), static_cast<fabric::SwitchEndpoint::Owner&>(*this)) {}

    void carry(std::span<const uint8_t> bytes) override {
        while (!bytes.empty()) {
            const auto space = link_.input_space();
            const size_t n = std::min(space.size(), bytes.size());
            std::copy_n(bytes.begin(), n, space.begin());
            if (const auto fed = link_.feed_input(n); !fed) {
                throw std::runtime_error("the HCA sent nonsense: " + fed.error().text);
            }
            bytes = bytes.subspan(n);
        }
    }
    bool take(std::vector<uint8_t>& bytes) override {
        bytes.assign(link_.output().begin(), link_.output().end());
        link_.consume_output(bytes.size());
        return !bytes.empty();
    }

    bool can_share() const override { return mode_ == LinkMode::kShared; }
    std::optional<link::LinkRings> handed_over() override {
        if (!memory_ || std::exchange(told_, true)) {
            return std::nullopt;
        }
        return link::LinkRings{.out = memory_->ring(0), .in = memory_->ring(1)};
    }
    // Serves only after a kick, as the program does, so that the tests find a missing kick.
    bool serve(bool kicked) override {
        asleep_ = asleep_ && !kicked;
        const bool awake = link_.is_shared() && !asleep_;
        if (awake) {
            if (const auto received = link_.receive(kTurnBytes); !received) {
                throw std::runtime_error("the HCA sent nonsense: " + received.error().text);
            }
        }
        const bool moved = std::exchange(ready_, false) || awake;
        kick_ = (moved && link_.publish()) || kick_;
        asleep_ = asleep_ && !(moved && link_.room_is_back());
        asleep_ = asleep_ || (awake && link_.may_sleep());
        return moved;
    }
    bool take_kick() override { return std::exchange(kick_, false); }

  private:
    static constexpr size_t kTurnBytes = 32 * 1024;

    void link_output_ready() override { ready_ = true; }
    void link_note(const std::string&) override {}
    std::optional<link::LinkRings> link_share() override {
        if (mode_ == LinkMode::kStream) {
            return std::nullopt;
        }
        memory_ = link::SharedMemory::create(log_ring_).value();
        return link::LinkRings{.out = memory_->ring(1), .in = memory_->ring(0)};
    }

    const LinkMode mode_;
    const unsigned log_ring_;
    bool told_ = false;
    bool ready_ = false;
    bool asleep_ = false;
    bool kick_ = false;
    std::optional<link::SharedMemory> memory_;
    fabric::SwitchEndpoint link_;
};

}  // namespace

Guest::Guest(unsigned index, uint64_t now_ns, const hca::Config& base,
             const hca::record::Options& recording)
    : device(hca::Device::create(hca_config(index, base), host, recording).value()),
      driver(host, *device) {
    host.clock_ns = now_ns;
}

void Guest::start() {
    if (!driver.enable()) {
        throw std::runtime_error("the device does not start");
    }
    async_eq = driver.create_eq(0, true, 8);
    cq = driver.create_cq(driver.create_eq(1).eqn, 10);
    pd = driver.alloc_pd();
}

LinkMode default_link_mode() {
    const char* mode = std::getenv("PIB_LINK_MODE");
    const std::string_view wanted = mode != nullptr ? mode : "stream";
    return wanted == "shared"  ? LinkMode::kShared
           : wanted == "mixed" ? LinkMode::kMixed
                               : LinkMode::kStream;
}

void Guest::connect(std::unique_ptr<Cable> cable) {
    cable_ = std::move(cable);
    sharing_ = false;
    device->links().connected(1, cable_->can_share());
}

void Guest::disconnect() {
    device->links().closed(1);  // before its memory is freed
    cable_.reset();
    host.take_link(1);
}

// Serves both ends of shared memory, each only if it is awake.
bool Guest::serve_rings() {
    bool moved = cable_->serve(std::exchange(host.links[1].kicks, 0) != 0);
    const bool woken = std::exchange(host.links[1].woken, false);
    asleep_ = asleep_ && !cable_->take_kick() && !woken;
    if (sharing_ && !asleep_) {
        asleep_ = !device->links().poll(1);
        moved = true;
    }
    return moved;
}

bool Guest::move() {
    bool moved = std::exchange(host.woken, false);
    if (moved) {
        device->run();
    }
    host.take_link(1, carried_);
    if (cable_ && !carried_.empty()) {
        cable_->carry(carried_);
        moved = true;
    }
    if (std::exchange(host.links[1].blocked, false)) {
        device->links().writable(1);
        moved = true;
    }
    if (cable_ && cable_->take(carried_)) {
        if (const auto rings = cable_->handed_over()) {
            device->links().shared(1, *rings);
            sharing_ = true;
            asleep_ = false;
        }
        device->links().received(1, carried_);
        moved = true;
    }
    return (cable_ && serve_rings()) || moved;
}

uint32_t Guest::take_port_events() {
    uint32_t flags = 0;
    while (const auto eqe = driver.poll(async_eq)) {
        if (eqe->type == PIB_HCA_EVENT_PORT) {
            flags |= eqe->data;
        }
    }
    return flags;
}

pib_hca_query_port Guest::query_port() {
    pib_hca_query_port out;
    driver.must(driver.command_out(PIB_HCA_CMD_QUERY_PORT, 1, out), "QUERY_PORT");
    return out;
}

uint64_t Guest::counter(pib_hca_counter which) {
    std::array<uint64_t, PIB_HCA_COUNTER_COUNT> out;
    driver.must(driver.command_out(PIB_HCA_CMD_QUERY_COUNTERS, 0, out), "QUERY_COUNTERS");
    return out[which];
}

Subnet::Subnet(unsigned guests, LinkMode mode, unsigned log_ring, const hca::Config& base,
               std::span<const hca::record::Options> recordings)
    : sw(switch_config()), mode_(mode), log_ring_(log_ring) {
    for (unsigned i = 0; i < guests; ++i) {
        guests_.push_back(std::make_unique<Guest>(
            i, now_ns_, base, i < recordings.size() ? recordings[i] : hca::record::Options{}));
        guests_.back()->start();
        connect(i);
        settle();
    }
}

void Subnet::connect(unsigned guest) {
    const bool even = guest % 2 == 0;
    const LinkMode mode =
        mode_ != LinkMode::kMixed ? mode_ : (even ? LinkMode::kShared : LinkMode::kStream);
    guests_[guest]->connect(std::make_unique<SwitchCable>(sw, mode, log_ring_));
}

void Subnet::restart_switch() {
    for (const auto& guest : guests_) {
        guest->disconnect();
    }
    std::destroy_at(&sw);
    std::construct_at(&sw, switch_config());
    sw.advance(now_ns_);
    for (unsigned i = 0; i < guests_.size(); ++i) {
        connect(i);
        settle();
    }
}

void Subnet::settle() {
    sw.advance(now_ns_);
    bool moved = true;
    while (moved) {
        moved = false;
        for (auto& guest : guests_) {
            moved |= !guest->is_stalled && guest->move();
        }
    }
}

bool Subnet::step_clock(uint64_t limit_ns) {
    uint64_t next = sw.next_deadline();
    for (const auto& guest : guests_) {
        next = std::min(next, guest->is_stalled ? UINT64_MAX : guest->host.timer_deadline_ns);
    }
    if (next == UINT64_MAX || next > limit_ns) {
        return false;
    }
    now_ns_ = std::max(now_ns_, next);
    for (auto& guest : guests_) {
        guest->host.clock_ns = now_ns_;
    }
    sw.advance(now_ns_);
    for (auto& guest : guests_) {
        if (!guest->is_stalled && guest->host.timer_deadline_ns <= now_ns_) {
            guest->host.timer_deadline_ns = hca::kNever;
            guest->device->timer();
        }
    }
    settle();
    return true;
}

void Subnet::advance(uint64_t ns) {
    const uint64_t until = now_ns_ + ns;
    settle();
    while (step_clock(until)) {
    }
    now_ns_ = until;
    for (auto& guest : guests_) {
        guest->host.clock_ns = now_ns_;
    }
}

bool Subnet::run_until(const std::function<bool()>& done, uint64_t within_ns) {
    const uint64_t until = now_ns_ + within_ns;
    settle();
    while (!done()) {
        if (!step_clock(until)) {
            return done();
        }
    }
    return true;
}

void Subnet::set_faults(fabric::FaultSpec faults) {
    for (unsigned number = 1; number <= sw.num_ports(); ++number) {
        faults.seed = faults.seed * 6364136223846793005u + number;
        sw.port(number).ingress_faults().set(faults);
    }
}

fabric::FaultCounts Subnet::fault_counts() {
    fabric::FaultCounts sum;
    for (unsigned number = 1; number <= sw.num_ports(); ++number) {
        const auto& counts = sw.port(number).ingress_faults().counts();
        sum.seen += counts.seen;
        sum.dropped += counts.dropped;
        sum.duplicated += counts.duplicated;
        sum.reordered += counts.reordered;
        sum.corrupted += counts.corrupted;
    }
    return sum;
}

}  // namespace pib::test
