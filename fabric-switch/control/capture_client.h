// SPDX-License-Identifier: GPL-2.0-or-later
// A control client that has asked for a capture: it gets packets until it closes its socket. A slow
// reader loses packets; it does not delay the switch.
#pragma once

#include "base/poller.h"
#include "base/unique_fd.h"
#include "control/capture_filter.h"
#include "control/capture_stream.h"
#include "fabric/fabric.h"
#include "switch/packet_tap.h"

namespace pib::fabric {

class CaptureClient final : public PollHandler, public PacketTap {
  public:
    // Poller and fabric outlive the client. `fd` is not polled yet.
    CaptureClient(Poller& poller, Fabric& fabric, UniqueFd fd, CaptureFilter filter);
    ~CaptureClient() override;

    // Whether the reader has gone, and the object can be destroyed.
    [[nodiscard]] bool is_over() const { return !fd_; }

    void ready(uint32_t events) override;
    void out_of_memory() override { end(); }
    void packet_seen(std::span<const uint8_t> packet, const Arrival& arrival) override;

  private:
    void write();
    void wait_for_room(bool wanted);
    void end();

    Poller& poller_;
    Fabric& fabric_;
    UniqueFd fd_;
    CaptureFilter filter_;
    CaptureStream stream_;
    bool waits_for_room_ = false;
};

}  // namespace pib::fabric
