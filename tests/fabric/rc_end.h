// SPDX-License-Identifier: GPL-2.0-or-later
// Two guests with one RC connection between them.
#pragma once

#include <cstdint>

#include "mini_sm.h"
#include "subnet.h"

namespace pib::test {

// One guest's QP, with an EQ, a CQ and a memory region for this QP alone.
struct RcEnd {
    Guest& guest;
    hca::test::MiniMr mr;
    hca::test::MiniEq eq;
    hca::test::MiniCq cq;
    hca::test::MiniQp qp;

    RcEnd(Guest& its_guest, uint64_t bytes);
    // `path` has all attributes but the peer's LID and QPN.
    void connect(const RcEnd& to, uint16_t dlid, hca::test::RcPath path) const;
};

// The ends of a connection between the guests 0 and 1 of a subnet, each with a region of `bytes`
// bytes.
struct RcEnds {
    RcEnd a, b;

    RcEnds(Guest& guest_0, Guest& guest_1, uint64_t bytes) : a(guest_0, bytes), b(guest_1, bytes) {}
    // Connects the ends. `sm` must have given the guests their LIDs.
    void connect(const MiniSm& sm, const hca::test::RcPath& path) const;
};

// A subnet of two guests with an RC connection between them.
struct ConnectedSubnet {
    Subnet subnet{2};
    MiniSm sm{subnet, subnet.guest(0)};
    RcEnds ends;

    ConnectedSubnet(uint64_t bytes, const hca::test::RcPath& path);
};

// A work request that moves `bytes` bytes between the starts of two regions.
hca::test::SendWr remote_request(pib_hca_wqe_opcode opcode, const hca::test::MiniMr& local,
                                 const hca::test::MiniMr& remote, uint32_t bytes);

}  // namespace pib::test
