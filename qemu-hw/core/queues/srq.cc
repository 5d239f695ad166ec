// SPDX-License-Identifier: GPL-2.0-or-later
#include "queues/srq.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/config.h"
#include "pib_hca_hw.h"
#include "queues/interface_pages.h"
#include "queues/work_queue.h"

namespace pib::hca {

namespace {

constexpr uint32_t kAllFlags = PIB_HCA_SRQ_PRIVILEGED | PIB_HCA_SRQ_XRC;
constexpr uint32_t kAllAttributes = PIB_HCA_SRQ_ATTR_MAX_WR | PIB_HCA_SRQ_ATTR_LIMIT;

template <typename T>
bool all_zero(const T& reserved) {
    return std::ranges::all_of(reserved, [](auto x) { return x == 0; });
}

uint64_t buffer_bytes(const WorkQueue& queue) {
    return queue.offset + (uint64_t{queue.depth()} << queue.log_stride);
}

// Takes the buffer's pages from `pages_left`.
CmdResult<GuestBuffer> load(Host& host, const PageList& pages, const WorkQueue& queue,
                            uint64_t& pages_left) {
    const uint64_t bytes = buffer_bytes(queue);
    return GuestBuffer::load_queue(host, pages, bytes, pages_covering(bytes), pages_left,
                                   DmaPurpose::kSrq);
}

WorkQueue make_queue(const pib_hca_create_srq& in) {
    return {.offset = in.offset,
            .log_depth = in.log_depth,
            .log_stride = in.log_stride,
            .present = true};
}

// Number of WQEs that are shuffled: enough for a visible effect, few enough to copy ahead.
constexpr size_t kShufflePool = 8;

Verdict check_fields(const pib_hca_create_srq& in) {
    const bool xrc = (in.flags & PIB_HCA_SRQ_XRC) != 0;
    constexpr uint32_t kMaxOffset = 1u << kMaxLogWqeStride;
    if ((in.flags & ~kAllFlags) != 0) {
        return refuse(Rule::kSrqFlags, in.flags, kAllFlags);
    }
    if (!all_zero(in.reserved)) {
        return refuse(Rule::kSrqReserved);
    }
    if (!all_zero(in.reserved2)) {
        return refuse(Rule::kSrqReserved2);
    }
    if (!xrc && (in.xrcd != 0 || in.cq != 0)) {
        return refuse(Rule::kSrqXrcFields, in.xrcd, in.cq);
    }
    if (in.offset % 64 != 0 || in.offset < PIB_HCA_QUEUE_HEADER_SIZE || in.offset > kMaxOffset) {
        return refuse(Rule::kSrqOffset, in.offset, kMaxOffset);
    }
    if (in.log_depth > kMaxWqLogDepth) {
        return refuse(Rule::kSrqDeep, in.log_depth, kMaxWqLogDepth);
    }
    if (in.log_stride < kMinLogRqStride || in.log_stride > kMaxLogWqeStride) {
        return refuse(Rule::kSrqStride, in.log_stride, kMaxLogWqeStride);
    }
    return check_reserved(in.pages);
}

Verdict check_fields(const pib_hca_modify_srq& in, const SharedReceiveQueue& srq) {
    if ((in.attr_mask & ~kAllAttributes) != 0) {
        return refuse(Rule::kSrqMask, in.attr_mask, kAllAttributes);
    }
    if (!all_zero(in.reserved)) {
        return refuse(Rule::kSrqModifyReserved);
    }
    const bool resizes = (in.attr_mask & PIB_HCA_SRQ_ATTR_MAX_WR) != 0;
    if (resizes && in.log_depth > kMaxWqLogDepth) {
        return refuse(Rule::kSrqModifyDeep, in.log_depth, kMaxWqLogDepth);
    }
    const uint32_t depth = 1u << (resizes ? in.log_depth : srq.queue.log_depth);
    if ((in.attr_mask & PIB_HCA_SRQ_ATTR_LIMIT) != 0 && in.limit > depth) {
        return refuse(Rule::kSrqLimit, in.limit, depth);
    }
    return resizes ? check_reserved(in.pages) : CmdStatus::kOk;
}

}  // namespace

SrqTable::SrqTable(Host& host, EqTable& eqs, CqTable& cqs, uint32_t max_srqs, Strict* strict)
    : host_(host),
      eqs_(eqs),
      cqs_(cqs),
      srqs_(1, max_srqs),
      pages_left_(Limits::kSrqPages),
      strict_(strict) {}

CmdResult<uint32_t> SrqTable::create(const pib_hca_create_srq& in) {
    if (const Verdict s = check_fields(in); s != CmdStatus::kOk) {
        return std::unexpected(s);
    }
    if ((in.flags & PIB_HCA_SRQ_XRC) != 0 && cqs_.find(in.cq) == nullptr) {
        return std::unexpected(refuse(Rule::kSrqCq, in.cq));
    }
    if (srqs_.count() == srqs_.capacity()) {
        return std::unexpected(refuse(Rule::kObjectLimit, 0, srqs_.capacity()));
    }
    SharedReceiveQueue srq;
    srq.queue = make_queue(in);
    auto buffer = load(host_, page_list(in.pages), srq.queue, pages_left_);
    if (!buffer) {
        return std::unexpected(buffer.error());
    }
    srq.buffer = std::move(*buffer);
    srq.pd = in.pd;
    srq.xrcd = in.xrcd;
    srq.cqn = in.cq;
    if (srq.cqn != 0) {
        ++cqs_.find(srq.cqn)->users;
    }
    srq.privileged = (in.flags & PIB_HCA_SRQ_PRIVILEGED) != 0;
    const uint32_t srqn = srqs_.insert(std::move(srq));
    if (strict_ != nullptr) [[unlikely]] {
        const SharedReceiveQueue& placed = *srqs_.find(srqn);
        strict_->queue_created(
            {Thing::kSrq, srqn}, placed.buffer,
            {.bytes = buffer_bytes(placed.queue), .header = PIB_HCA_QUEUE_HEADER_SIZE});
    }
    return srqn;
}

Verdict SrqTable::modify(uint32_t srqn, const pib_hca_modify_srq& in) {
    SharedReceiveQueue* srq = srqs_.find(srqn);
    if (srq == nullptr) {
        return refuse(Rule::kNoSrq, srqn);
    }
    if (const Verdict s = check_fields(in, *srq); s != CmdStatus::kOk) {
        return s;
    }
    if (srq->error) {
        return refuse(Rule::kSrqError, srqn);
    }
    if ((in.attr_mask & PIB_HCA_SRQ_ATTR_MAX_WR) != 0) {
        if (!refresh(srqn, *srq)) {
            return refuse(Rule::kSrqError, srqn);
        }
        if (const Verdict s = resize(srqn, *srq, in); s != CmdStatus::kOk) {
            return s;
        }
    }
    if ((in.attr_mask & PIB_HCA_SRQ_ATTR_LIMIT) != 0) {
        srq->limit = in.limit;
        check_limit(srqn, *srq);
    }
    return CmdStatus::kOk;
}

// Moves waiting WQEs, with their counters, to the corresponding places of the new ring.
Verdict SrqTable::resize(uint32_t srqn, SharedReceiveQueue& srq, const pib_hca_modify_srq& in) {
    WorkQueue queue = srq.queue;
    queue.log_depth = in.log_depth;
    if (queue.ready() > queue.depth()) {
        return refuse(Rule::kSrqWaiting, in.log_depth, queue.ready());
    }
    auto buffer = load(host_, page_list(in.pages), queue, pages_left_);
    if (!buffer) {
        return buffer.error();
    }
    if (!copy_waiting(srq, *buffer, queue)) {
        pages_left_ += buffer->listed_pages();
        return refuse(Rule::kSrqMemory, in.pages.root);
    }
    pages_left_ += srq.buffer.listed_pages();
    if (strict_ != nullptr) [[unlikely]] {
        strict_->queue_destroyed({Thing::kSrq, srqn});
        strict_->queue_created({Thing::kSrq, srqn}, *buffer, {.bytes = buffer_bytes(queue)});
    }
    srq.buffer = std::move(*buffer);
    srq.queue = queue;
    return CmdStatus::kOk;
}

// Copies the waiting WQEs, at most as many as the queue has entries, and the producer.
bool SrqTable::copy_waiting(const SharedReceiveQueue& srq, const GuestBuffer& buffer,
                            const WorkQueue& queue) {
    moved_ += uint64_t{queue.ready()} * queue.stride();
    std::vector<uint8_t> wqe(queue.stride());
    for (uint32_t counter = queue.consumer; counter != queue.producer; ++counter) {
        if (!copy_entry(host_, srq.buffer, srq.queue, counter, wqe) ||
            !buffer.write(host_, entry_offset(queue, counter), wqe)) {
            return false;
        }
    }
    const uint32_t producer = queue.producer;
    return buffer.write(host_, offsetof(pib_hca_srq_header, producer),
                        {reinterpret_cast<const uint8_t*>(&producer), sizeof producer});
}

CmdResult<pib_hca_query_srq> SrqTable::query(uint32_t srqn) {
    SharedReceiveQueue* srq = srqs_.find(srqn);
    if (srq == nullptr) {
        return std::unexpected(refuse(Rule::kNoSrq, srqn));
    }
    if (!srq->error) {
        (void)refresh(srqn, *srq);
    }
    pib_hca_query_srq out{};
    out.limit = srq->limit;
    out.waiting = srq->waiting();
    out.log_depth = srq->queue.log_depth;
    out.is_error = srq->error ? 1 : 0;
    return out;
}

Verdict SrqTable::destroy(uint32_t srqn) {
    SharedReceiveQueue* srq = srqs_.find(srqn);
    if (srq == nullptr) {
        return refuse(Rule::kNoSrq, srqn);
    }
    if (srq->users != 0) {
        return refuse(Rule::kSrqBusy, srqn, srq->users);
    }
    if (srq->cqn != 0) {
        --cqs_.find(srq->cqn)->users;
    }
    if (strict_ != nullptr) [[unlikely]] {
        (void)read_producer(srqn, *srq);
        strict_->queue_destroyed({Thing::kSrq, srqn});
    }
    eqs_.forget_events(EventSource::kSrq, srqn);
    pages_left_ += srq->buffer.listed_pages();
    srqs_.erase(srqn);
    return CmdStatus::kOk;
}

uint32_t SrqTable::srqs_of_pd(uint32_t pd) {
    uint32_t n = 0;
    srqs_.for_each([&](uint32_t, const SharedReceiveQueue& srq) { n += srq.pd == pd ? 1 : 0; });
    return n;
}

uint32_t SrqTable::srqs_of_xrcd(uint32_t xrcd) {
    uint32_t n = 0;
    srqs_.for_each([&](uint32_t, const SharedReceiveQueue& srq) { n += srq.xrcd == xrcd ? 1 : 0; });
    return n;
}

void SrqTable::clear() {
    srqs_.clear();
    pages_left_ = Limits::kSrqPages;
}

SrqTable::Take SrqTable::peek(uint32_t srqn, std::vector<uint8_t>& to) {
    SharedReceiveQueue* srq = srqs_.find(srqn);
    if (srq == nullptr || srq->error) {
        return Take::kError;
    }
    if (shuffle_) {
        if (!fill_pool(srqn, *srq)) {
            return Take::kError;
        }
        if (srq->pool.empty()) {
            return Take::kNone;
        }
        to = srq->pool.back();
        return Take::kOk;
    }
    if (srq->queue.ready() == 0) {
        if (!refresh(srqn, *srq)) {
            return Take::kError;
        }
        if (srq->queue.ready() == 0) {
            return Take::kNone;
        }
    }
    to.resize(srq->queue.stride());
    return copy_wqe(srqn, *srq, to) ? Take::kOk : Take::kError;
}

void SrqTable::take(uint32_t srqn) {
    SharedReceiveQueue& srq = *srqs_.find(srqn);
    if (!srq.pool.empty()) {
        srq.pool.pop_back();
        // Chooses the next WQE here and not in peek(), so that two peeks return the same WQE.
        if (!srq.pool.empty()) {
            std::swap(srq.pool.back(), srq.pool[random_() % srq.pool.size()]);
        }
    } else {
        ++srq.queue.consumer;
    }
    check_limit(srqn, srq);
}

// Copies the next entry of the ring; false: its memory is no longer accessible.
bool SrqTable::copy_wqe(uint32_t srqn, SharedReceiveQueue& srq, std::span<uint8_t> to) {
    if (copy_entry(host_, srq.buffer, srq.queue, srq.queue.consumer, to)) {
        return true;
    }
    if (strict_ != nullptr) [[unlikely]] {
        strict_->memory_lost({Thing::kSrq, srqn});
    }
    fail(srqn, srq);
    return false;
}

// Copies WQEs from the ring to the empty pool. Software may then reuse their ring entries.
bool SrqTable::fill_pool(uint32_t srqn, SharedReceiveQueue& srq) {
    if (!srq.pool.empty()) {
        return true;
    }
    if (srq.queue.ready() == 0 && !refresh(srqn, srq)) {
        return false;
    }
    while (srq.pool.size() < kShufflePool && srq.queue.ready() != 0) {
        std::vector<uint8_t> wqe(srq.queue.stride());
        if (!copy_wqe(srqn, srq, wqe)) {
            return false;
        }
        srq.pool.push_back(std::move(wqe));
        ++srq.queue.consumer;
    }
    std::ranges::shuffle(srq.pool, random_);
    return true;
}

bool SrqTable::inject_error(uint32_t srqn) {
    SharedReceiveQueue* srq = srqs_.find(srqn);
    if (srq == nullptr || srq->error) {
        return false;
    }
    fail(srqn, *srq);
    return true;
}

bool SrqTable::refresh(uint32_t srqn, SharedReceiveQueue& srq) {
    const QueueRead result = read_producer(srqn, srq);
    if (result != QueueRead::kOk) {
        fail(srqn, srq);
    }
    return result == QueueRead::kOk;
}

QueueRead SrqTable::read_producer(uint32_t srqn, SharedReceiveQueue& srq) {
    const uint32_t before = srq.queue.producer;
    const QueueRead result =
        refresh_queue(host_, srq.buffer, offsetof(pib_hca_srq_header, producer), srq.queue, 0);
    if (strict_ != nullptr) [[unlikely]] {
        watch_header(srqn, srq, before, result);
    }
    return result;
}

// `before`: the producer before the header was read.
void SrqTable::watch_header(uint32_t srqn, const SharedReceiveQueue& srq, uint32_t before,
                            QueueRead result) {
    const Subject subject{Thing::kSrq, srqn};
    if (result == QueueRead::kMemory) {
        strict_->memory_lost(subject);
        return;
    }
    constexpr uint64_t kReserved = offsetof(pib_hca_srq_header, reserved);
    if (!is_zero(host_, srq.buffer, kReserved, PIB_HCA_QUEUE_HEADER_SIZE - kReserved)) {
        strict_->broken(Rule::kHeaderReserved, subject);
    }
    strict_->producer_moved(subject, {.passes = Rule::kSrqPasses, .back = Rule::kSrqBack}, before,
                            srq.queue.found, result == QueueRead::kOk,
                            srq.queue.consumer + srq.queue.depth());
}

// Raises one SRQ_LIMIT_REACHED for each limit that software sets. Reads the producer only if the
// known value is not enough.
void SrqTable::check_limit(uint32_t srqn, SharedReceiveQueue& srq) {
    if (srq.limit == 0 || srq.waiting() >= srq.limit || !refresh(srqn, srq)) {
        return;
    }
    if (srq.waiting() < srq.limit) {
        srq.limit = 0;
        eqs_.async_event(Event::kSrqLimitReached, srqn);
    }
}

void SrqTable::fail(uint32_t srqn, SharedReceiveQueue& srq) {
    if (!srq.error) {
        srq.error = true;
        eqs_.async_event(Event::kSrqError, srqn);
    }
}

}  // namespace pib::hca
