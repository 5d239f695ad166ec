// SPDX-License-Identifier: GPL-2.0-or-later
// Watches the page lists of REG_MR WQEs on a strict device: their tables lie in guest memory, and
// software must not change them between its store of sq_producer and the WQE's completion. Keeps a
// hash of each list, made when the device copies the WQE.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/host.h"
#include "memory/mpt.h"
#include "qp/qp.h"
#include "strict/strict.h"

namespace pib::hca {

class RegListWatch {
  public:
    RegListWatch(Host& host, Strict& strict) : host_(host), strict_(strict) {}

    // Each function ignores requests that are not a REG_MR with tables.
    // The device has copied the WQE.
    void copied(const QueuePair& qp, const SendRequest& request);
    // The device is about to execute the WQE, and to read the tables.
    void executing(const QueuePair& qp, const SendRequest& request);
    // The WQE is about to complete, or its QP is about to be destroyed. Compares the list, unless
    // software may know that the device has read it, and may therefore write to it again: the
    // region no longer has the key that the WQE gave it, or a request of the peer has arrived since
    // the device executed the WQE, perhaps as the answer to a later WQE.
    void completing(const QueuePair& qp, const SendRequest& request, const Mpt& mpt);
    // The QP is reset or destroyed: its WQEs do not complete.
    void forget(uint32_t qpn);
    void clear() { lists_.clear(); }

  private:
    struct Watched {
        uint64_t hash = 0;
        std::optional<ib::Psn> expected_psn;  // the responder's value when the WQE was executed
    };
    using Lists = std::map<std::pair<uint32_t, uint32_t>, Watched>;  // by QP number and counter

    // Hash of the pages that the list names; no value: it has no tables, or they cannot be read.
    [[nodiscard]] std::optional<uint64_t> hash(const PageList& list);
    void compare(const QueuePair& qp, const SendRequest& request, const Watched& watched);
    Lists::iterator find(const QueuePair& qp, const SendRequest& request);

    Host& host_;
    Strict& strict_;
    Lists lists_;
};

}  // namespace pib::hca
