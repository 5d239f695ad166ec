// SPDX-License-Identifier: GPL-2.0-or-later
// Two guests whose devices are recorded in memory, and traffic of each kind between them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mini_sm.h"
#include "subnet.h"

namespace pib::test {

// A file in memory. It is full after `room` bytes.
class MemorySink final : public hca::record::Sink {
  public:
    bool write(std::span<const uint8_t> bytes) override {
        if (content.size() + bytes.size() > room) {
            ++refusals;
            return false;
        }
        content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return true;
    }
    std::string content;
    size_t room = SIZE_MAX;
    unsigned refusals = 0;
};

struct RecordedSubnet {
    explicit RecordedSubnet(const hca::record::Options& options = {}, const hca::Config& base = {});

    // The recording of a guest's device up to now.
    const std::string& recording(unsigned guest);

    std::array<MemorySink, 2> sinks;
    Subnet subnet;
    MiniSm sm;
};

// One end of a connection, or of datagrams.
struct RecordedEnd {
    RecordedEnd(Guest& its_guest, pib_hca_qp_type type, uint32_t xrcd = 0);

    // Takes the QP from Reset to RTS with the attributes of its type.
    void connect(const RecordedEnd& peer, uint16_t dlid, uint8_t timeout);
    void post_recv(uint32_t bytes);
    hca::test::SendWr request(pib_hca_wqe_opcode opcode, const RecordedEnd& peer, uint32_t bytes);

    Guest& guest;
    hca::test::MiniMr mr;
    hca::test::MiniCq cq;
    hca::test::MiniQp qp;
};

// Makes an SRQ of an XRC domain, full of receives; returns its number.
uint32_t make_srq(Guest& guest, hca::test::MiniCq& cq, const hca::test::MiniMr& mr, uint32_t xrcd);

inline constexpr uint32_t kMrBytes = 256 * 1024;

// Each function runs requests of all operations of its transport until they have completed.
void run_reliable(RecordedSubnet& world, uint32_t bytes);
void run_unreliable(RecordedSubnet& world, uint32_t bytes);
void run_datagrams(RecordedSubnet& world);
void run_xrc(RecordedSubnet& world, uint32_t bytes);
// A datagram to a group in which each guest has a QP.
void run_multicast(RecordedSubnet& world);
// Requests that kicks announce instead of doorbells: stores to the UAR page, and kicks that the
// host delivers. The devices have shadow doorbells.
void run_kicks(RecordedSubnet& world);
// Requests from and to on-demand regions, all of whose pages are absent at first. Returns the
// number of page faults.
unsigned run_on_demand(RecordedSubnet& world);
// A connection that migrates to its alternate path, at both ends.
void run_migration(RecordedSubnet& world);
// Resets the first guest's device while it sends, and starts it again.
void run_reset(RecordedSubnet& world);

}  // namespace pib::test
