// SPDX-License-Identifier: GPL-2.0-or-later
// A channel adapter for management only: it has an SMA, which sends traps, and a PMA, but no QPs
// for data. Each adapter of a topology file is a phantom until a virtual machine replaces it.
#pragma once

#include <memory>
#include <vector>

#include "base/link_modes.h"
#include "base/packet_pool.h"
#include "base/ring_queue.h"
#include "base/timer_queue.h"
#include "ib/mgmt/link_errors.h"
#include "ib/mgmt/mad_agent.h"
#include "ib/mgmt/perf_counters.h"
#include "ib/wire/packet.h"
#include "switch/neighbour.h"

namespace pib::fabric {

class PhantomHca final : public TimerClient {
  public:
    struct PortConfig {
        ib::Guid guid{};
        LinkModes modes;  // PortInfo:Link*Supported
    };
    struct Config {
        ib::Guid node_guid{};
        ib::Guid system_image_guid{};
        uint32_t vendor_id = 0;
        uint16_t device_id = 0;
        std::string description;
        std::vector<PortConfig> ports;
    };

    // `timers` and `pool` outlive the phantom.
    PhantomHca(const Config& config, TimerQueue& timers, PacketPool& pool);
    ~PhantomHca() override;

    [[nodiscard]] ib::SmaNode& node() { return node_; }
    [[nodiscard]] uint64_t smps_answered() const { return smps_answered_; }
    // The first port has the number 1.
    [[nodiscard]] LinkUser& port(unsigned number);
    [[nodiscard]] ib::PortCounters& counters(unsigned number) { return counters_[number - 1]; }
    // Plugs the cable in, or pulls it, which holds the link down.
    void set_cable(unsigned number, bool plugged);
    // Counts and reports the error as if the port had detected it.
    void raise(unsigned number, ib::LinkError error);

    void on_deadline(uint64_t now_ns) override;
    [[nodiscard]] uint64_t next_deadline() override;

  private:
    class Port;
    void smp_arrived(Port& port, const ib::PacketView& packet);
    void gmp_arrived(Port& port, const ib::PacketView& packet);
    void send_traps();
    [[nodiscard]] ib::PmaNode pma_node();

    TimerQueue& timers_;
    PacketPool& pool_;
    ib::SmaNode node_;
    std::vector<ib::PortCounters> counters_;
    ib::PortSampling sampling_;
    std::vector<std::unique_ptr<Port>> ports_;
    uint64_t smps_answered_ = 0;
    uint32_t next_psn_ = 0;
};

}  // namespace pib::fabric
