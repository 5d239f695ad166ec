// SPDX-License-Identifier: GPL-2.0-or-later
// Shadow doorbells: each UAR may have a page of guest memory in which software marks the QPs with
// new send requests before a kick. A kick needs no value, so the host can deliver it by an eventfd
// without stopping the guest's processor.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "base/adversary.h"
#include "base/host.h"
#include "base/ring.h"
#include "base/timers.h"
#include "base/verdict.h"
#include "memory/guest_buffer.h"
#include "pib_hca_hw.h"
#include "transport/transport.h"

namespace pib::hca {

class ShadowDoorbells {
  public:
    ShadowDoorbells(Host& host, Transport& transport, Strict* strict, Adversary* adversary)
        : host_(host), transport_(transport), strict_(strict), adversary_(adversary) {}

    // Sets the UAR's page to this bus address; 0 removes it. Errors: BAD_PARAM, not aligned;
    // BAD_MEMORY, not RAM; BAD_STATE, the UAR has a page already, or none to remove.
    Verdict set(uint32_t uar, uint64_t bus_addr);
    [[nodiscard]] bool has(uint32_t uar) const { return shadows_.contains(uar); }
    void clear();

    // Takes the bits of the page and rings the doorbells of a bounded number of QPs; run() does the
    // rest. An adversarial device delays some kicks. False: the UAR has no page.
    [[nodiscard]] bool kick(uint32_t uar);
    // Serves the delayed kicks that are due.
    void timer(uint64_t now_ns);
    uint64_t next_deadline() const { return late_.next(); }
    // Continues the work that kick() has left; call this after Transport::run(). True: work is left
    // that does not wait for the transport.
    [[nodiscard]] bool run();

  private:
    struct Shadow {
        GuestBuffer page;
        // Bit mask of the words of pib_hca_shadow_page.rung with doorbells that are still to be
        // rung; taken from pib_hca_shadow_page.summary.
        uint64_t words = 0;
        std::array<uint64_t, PIB_HCA_SHADOW_WORDS> rung{};  // taken from the page
        bool awake = false;   // the awake flag is set, so the guest need not kick
        bool queued = false;  // the UAR is in owed_
    };
    // Reason to read a page again: the transport still has work, or the page needs more work than
    // one call of serve() may do.
    enum class Left : uint8_t { kNothing, kTransport, kMore };

    [[nodiscard]] bool waits(uint32_t uar);
    [[nodiscard]] bool kick_now(uint32_t uar);
    Left serve(uint32_t uar, Shadow& shadow);
    // Calls serve(), and adds the page to owed_ if work is left.
    Left go_on(uint32_t uar, Shadow& shadow);
    void take(Shadow& shadow);
    uint64_t take_word(Shadow& shadow, uint64_t offset);
    unsigned ring(uint32_t uar, Shadow& shadow, unsigned budget);
    void ring_slot(uint32_t uar, uint32_t slot);
    void publish_awake(Shadow& shadow, bool awake);
    [[nodiscard]] bool may_sleep(Shadow& shadow);

    Host& host_;
    Transport& transport_;
    Strict* strict_;              // nullptr unless the device is strict
    Adversary* const adversary_;  // nullptr: no kick waits
    Timers late_;                 // by UAR
    std::map<uint32_t, Shadow> shadows_;
    Ring<uint32_t> owed_;  // UARs whose page run() reads again
};

}  // namespace pib::hca
