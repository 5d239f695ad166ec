// SPDX-License-Identifier: GPL-2.0-or-later
// Shared receive queues (IBA vol. 1, 10.2.9): several QPs take receive WQEs from one queue, one at
// a time and in order. A taken WQE belongs to its QP.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/table.h"
#include "memory/guest_buffer.h"
#include "memory/mpt.h"
#include "queues/cq.h"
#include "queues/eq.h"
#include "queues/work_queue.h"

// Structures of the register interface (pib_hca_hw.h).
struct pib_hca_create_srq;
struct pib_hca_modify_srq;
struct pib_hca_query_srq;

namespace pib::hca {

struct SharedReceiveQueue {
    GuestBuffer buffer;
    WorkQueue queue;
    uint32_t pd = 0;
    uint32_t limit = 0;  // 0: SRQ_LIMIT_REACHED is not armed
    uint32_t users = 0;  // number of QPs that use the SRQ
    uint32_t xrcd = 0;   // XRC domain; 0: no XRC SRQ
    uint32_t cqn = 0;    // XRC: the CQ of received messages; 0: none
    bool privileged = false;
    bool error = false;  // after the loss of its memory, or an impossible producer: gives no WQEs
    // With TestKnobs::shuffle_srq: copied WQEs that no QP has taken yet; the last is taken next.
    std::vector<std::vector<uint8_t>> pool;

    uint32_t waiting() const { return queue.ready() + static_cast<uint32_t>(pool.size()); }

    KeyUser key_user() const { return {.pd = pd, .privileged = privileged}; }
};

class SrqTable {
  public:
    SrqTable(Host& host, EqTable& eqs, CqTable& cqs, uint32_t max_srqs, Strict* strict = nullptr);

    // The caller has checked PD and XRC domain.
    CmdResult<uint32_t> create(const pib_hca_create_srq& in);
    // Sets all attributes of the mask, or none.
    Verdict modify(uint32_t srqn, const pib_hca_modify_srq& in);
    // Bytes of WQEs that modify() has moved since the last call.
    uint64_t take_moved() { return std::exchange(moved_, 0); }
    CmdResult<pib_hca_query_srq> query(uint32_t srqn);
    Verdict destroy(uint32_t srqn);  // BUSY while QPs use it
    SharedReceiveQueue* find(uint32_t srqn) { return srqs_.find(srqn); }
    uint32_t count() const { return srqs_.count(); }
    uint32_t srqs_of_pd(uint32_t pd);      // number of SRQs, for FREE_PD
    uint32_t srqs_of_xrcd(uint32_t xrcd);  // number of SRQs, for FREE_XRCD
    void clear();
    template <typename F>
    void for_each(F&& f) {
        srqs_.for_each(f);
    }

    enum class Take : uint8_t {
        kOk,
        kNone,   // no WQE waits
        kError,  // the SRQ is in error or does not exist
    };
    // Copies the oldest waiting WQE (with shuffling: a random one); take() removes it.
    // SRQ_ERROR is raised once, when the SRQ enters the error state.
    Take peek(uint32_t srqn, std::vector<uint8_t>& to);
    // A QP takes the WQE of the last peek(). May raise SRQ_LIMIT_REACHED (IBA 10.2.9.4).
    void take(uint32_t srqn);

    void set_knobs(const TestKnobs& knobs) {
        shuffle_ = knobs.shuffle_srq;
        srqs_.set_choice(knobs.number_choice);
    }
    // Puts the SRQ into error, as a loss of its memory does; false: there is no such SRQ, or it is
    // in error already.
    [[nodiscard]] bool inject_error(uint32_t srqn);

  private:
    Verdict resize(uint32_t srqn, SharedReceiveQueue& srq, const pib_hca_modify_srq& in);
    [[nodiscard]] bool copy_waiting(const SharedReceiveQueue& srq, const GuestBuffer& buffer,
                                    const WorkQueue& queue);
    // Reads the producer; an impossible one, or memory that is not accessible, is an SRQ error.
    [[nodiscard]] bool refresh(uint32_t srqn, SharedReceiveQueue& srq);
    // Does the same as refresh(), but raises no SRQ error.
    QueueRead read_producer(uint32_t srqn, SharedReceiveQueue& srq);
    void watch_header(uint32_t srqn, const SharedReceiveQueue& srq, uint32_t before,
                      QueueRead result);
    [[nodiscard]] bool copy_wqe(uint32_t srqn, SharedReceiveQueue& srq, std::span<uint8_t> to);
    [[nodiscard]] bool fill_pool(uint32_t srqn, SharedReceiveQueue& srq);
    void check_limit(uint32_t srqn, SharedReceiveQueue& srq);
    void fail(uint32_t srqn, SharedReceiveQueue& srq);

    Host& host_;
    EqTable& eqs_;
    CqTable& cqs_;
    Table<SharedReceiveQueue> srqs_;
    uint64_t pages_left_;
    Strict* strict_;
    bool shuffle_ = false;
    uint64_t moved_ = 0;
    std::minstd_rand random_;
};

}  // namespace pib::hca
