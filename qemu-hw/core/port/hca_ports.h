// SPDX-License-Identifier: GPL-2.0-or-later
// The ports of one HCA with the SMA and PMA that they share, for the device and its commands.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/config.h"
#include "base/counters.h"
#include "base/host.h"
#include "port/hca_pma.h"
#include "port/hca_sma.h"
#include "port/port.h"
#include "queues/eq.h"

namespace pib::hca {

class HcaPort;
class PeerCopy;

class HcaPorts {
  public:
    HcaPorts(const Config& config, Host& host, EqTable& eqs, Counters& counters,
             PeerCopy* peer_copy = nullptr);
    ~HcaPorts();

    // Sets the receiver of packets, the transport. Only ports() may be called before, to create the
    // transport.
    void set_client(PortClient& client);
    std::span<Port* const> ports() const { return views_; }
    HcaPort* find(uint32_t number);  // ports count from 1; nullptr: there is no such port
    HcaSma& sma() { return sma_; }
    HcaPma& pma() { return pma_; }

    // The device calls run() and timer() from its own functions of these names, and calls run()
    // again if it returned true. At the end of each entry point it calls flush(), and sets the
    // host's timer to next_deadline().
    [[nodiscard]] bool run();
    void timer(uint64_t now_ns);
    uint64_t next_deadline() const;
    void flush();
    void reset(bool cold);  // call after the reset of the EQs and the transport

  private:
    HcaSma sma_;
    HcaPma pma_;
    std::vector<std::unique_ptr<HcaPort>> ports_;
    std::vector<Port*> views_;
};

}  // namespace pib::hca
