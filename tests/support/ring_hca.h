// SPDX-License-Identifier: GPL-2.0-or-later
// A channel adapter at a switch whose frames go through shared memory once the handshake is over.
#pragma once

#include <stdexcept>
#include <utility>

#include "shared_memory.h"
#include "test_fabric.h"

namespace pib::test {

class RingHca : public FakeHca {
  public:
    // `features`: the features in HELLO, which include kFeatureSharedMemory.
    RingHca(fabric::Admission& fabric, unsigned index, uint32_t features, uint32_t blocks = 8192)
        : FakeHca(fabric, hello(index, features), make_buffers(blocks)) {}

    bool carry() override {
        const bool moved = FakeHca::carry();
        return exchange() || moved;
    }

    // The two parts of a turn of the switch: it reads its ring, and publishes its output.
    void serve() { must(sw_link->receive(kTurnBytes).has_value(), "the switch ended the link"); }
    void publish() { (void)sw_link->publish(); }

    // Gives the adapter a turn; returns the number of received packets.
    size_t drain() {
        while (true) {
            const auto more = own_end().receive(kTurnBytes);
            must(more.has_value(), "the adapter ended the link");
            (void)own_end().channel().publish();
            if (!*more) {
                return std::exchange(arrived_, 0);
            }
        }
    }
    bool counting = false;  // packets are counted, and not kept

  private:
    static constexpr unsigned kLogRing = 19;  // as in pib-switch
    static constexpr size_t kTurnBytes = 128 * 1024;
    static constexpr uint64_t kFirstGuid = 0x0650000000001000;

    static link::Hello hello(unsigned index, uint32_t features) {
        auto made = make_hello(kFirstGuid + 16 * index);
        made.features = features;
        return made;
    }
    static void must(bool fine, const char* what) {
        if (!fine) {
            throw std::runtime_error(what);
        }
    }
    std::optional<link::LinkRings> link_share() override {
        memory_ = link::SharedMemory::create(kLogRing).value();
        return link::LinkRings{.out = memory_->ring(1), .in = memory_->ring(0)};
    }
    std::optional<link::LinkRings> link_rings() override {
        return link::LinkRings{.out = memory_->ring(0), .in = memory_->ring(1)};
    }

  protected:
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override {
        if (!counting) {
            return FakeHca::link_burst(burst, payload);
        }
        arrived_ += burst.count();
        own_end().release(burst.lrh().vl.value(), link::burst_blocks(burst));
        return burst.count();
    }

  private:
    bool exchange() {
        if (!sw_link || !own_end().channel().is_shared() || !sw_link->is_shared()) {
            return false;
        }
        const bool to_switch = own_end().channel().publish();
        serve();
        const bool to_adapter = sw_link->publish();
        (void)sw_link->may_sleep();
        must(own_end().receive(kTurnBytes).has_value(), "the adapter ended the link");
        const bool answered = own_end().channel().publish();
        (void)own_end().may_sleep();
        return to_switch || to_adapter || answered;
    }

    std::optional<link::SharedMemory> memory_;
    size_t arrived_ = 0;
};

}  // namespace pib::test
