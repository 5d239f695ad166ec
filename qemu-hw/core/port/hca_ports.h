// SPDX-License-Identifier: GPL-2.0-or-later
// The ports of one HCA, with the SMA and PMA that they share: what the device and its commands see.
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
class OneCopy;

class HcaPorts {
  public:
    HcaPorts(const Config& config, Host& host, EqTable& eqs, Counters& counters,
             OneCopy* one_copy = nullptr);
    ~HcaPorts();

    // Before anything else: where packets go (the transport, which is made from ports()).
    void set_client(PortClient& client);
    std::span<Port* const> ports() const { return views_; }
    HcaPort* find(uint32_t number);  // port 1..; nullptr when there is no such port
    HcaSma& sma() { return sma_; }
    HcaPma& pma() { return pma_; }

    // The device calls run() in its own, and wakes itself when it returns true; timer() in its own;
    // and at the end of each of its entry points flush(), and next_deadline() for the host's timer.
    bool run();
    void timer(uint64_t now_ns);
    uint64_t next_deadline() const;
    void flush();
    void reset(bool cold);  // after the EQs and the transport have been reset

  private:
    HcaSma sma_;
    HcaPma pma_;
    std::vector<std::unique_ptr<HcaPort>> ports_;
    std::vector<Port*> views_;
};

}  // namespace pib::hca
