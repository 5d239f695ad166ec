// SPDX-License-Identifier: GPL-2.0-or-later
// Completion queues (IBA vol. 1, 10.8): CQEs in guest memory, arming, overrun.
#pragma once

#include <cstdint>

#include "eq.h"
#include "guest_buffer.h"
#include "table.h"

namespace pib::hca {

enum class CqArm : uint8_t { kNone, kSolicited, kNext };

struct CompletionQueue {
    GuestBuffer buffer;
    uint32_t eqn = 0;
    uint32_t uar = 0;
    uint32_t producer = 0;
    uint32_t solicited_producer = 0;  // producer after the last CQE that a solicited arm waits for
    uint8_t log_depth = 0;
    CqArm arm = CqArm::kNone;
    bool error = false;  // overrun or its memory vanished; takes no more CQEs
    uint32_t users = 0;  // QP ends that complete here
};

class CqTable {
  public:
    CqTable(Host& host, EqTable& eqs, uint32_t max_cqs);

    CmdResult<uint32_t> create(const pib_hca_create_cq& in);  // checks the EQ; the UAR is checked before
    CmdStatus destroy(uint32_t cqn);                          // BUSY while QPs use it
    CompletionQueue* find(uint32_t cqn) { return cqs_.find(cqn); }
    // UAR doorbell; false when the CQ is not this UAR's.
    bool doorbell(uint32_t uar, uint64_t value);
    void clear();

    // Writes the body, then the owner bit; fires if armed. The table fills in timestamp and owner.
    // `solicited` is also true for every unsuccessful completion (IBA 11.4.2.2). False when the CQ is
    // (now) in error: the caller moves its QP to Error with PIB_HCA_EVENT_QP_FATAL. The CQ_ERROR event
    // is raised here, once.
    bool post(uint32_t cqn, pib_hca_cqe cqe, bool solicited);

  private:
    Host& host_;
    EqTable& eqs_;
    Table<CompletionQueue> cqs_;
};

}  // namespace pib::hca
