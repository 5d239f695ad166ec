// SPDX-License-Identifier: GPL-2.0-or-later
#include "queues/cq.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/config.h"
#include "pib_hca_hw.h"
#include "queues/cq_checks.h"
#include "queues/cqe_poison.h"
#include "queues/interface_pages.h"

namespace pib::hca {

namespace {

constexpr uint64_t buffer_bytes(unsigned log_depth) {
    return PIB_HCA_QUEUE_HEADER_SIZE + (uint64_t{sizeof(pib_hca_cqe)} << log_depth);
}

// Longest delay by `event_may_wait`, for send completions of SMPs: far longer than the round trip
// of an SMP, and far shorter than the timeout of its sender.
constexpr uint64_t kModerationFloorNs = 1'000'000;

// Checks for CREATE_CQ and RESIZE_CQ.
template <typename T>
Verdict check_fields(const T& in, Rule reserved, Rule deep) {
    if (std::ranges::any_of(in.reserved, [](uint8_t byte) { return byte != 0; })) {
        return refuse(reserved);
    }
    if (in.log_depth > PIB_HCA_MAX_CQ_LOG_DEPTH) {
        return refuse(deep, in.log_depth, PIB_HCA_MAX_CQ_LOG_DEPTH);
    }
    return check_reserved(in.pages);
}

// Takes the buffer's pages from `pages_left`.
CmdResult<GuestBuffer> load(Host& host, const pib_hca_pages& pages, unsigned log_depth,
                            uint64_t& pages_left) {
    const uint64_t bytes = buffer_bytes(log_depth);
    return GuestBuffer::load_queue(host, page_list(pages), bytes, pages_covering(bytes), pages_left,
                                   DmaPurpose::kCq);
}

constexpr uint64_t cqe_offset(uint32_t counter, unsigned log_depth) {
    const uint32_t index = counter & ((1u << log_depth) - 1);
    return PIB_HCA_QUEUE_HEADER_SIZE + uint64_t{index} * sizeof(pib_hca_cqe);
}

constexpr uint8_t owner_bit(uint32_t counter, unsigned log_depth) {
    return (counter >> log_depth & 1) == 0 ? PIB_HCA_OWNER_BIT : 0;
}

pib_hca_cqe encode(const Completion& completion) {
    pib_hca_cqe cqe{};
    cqe.qpn = completion.qpn;
    cqe.wqe_counter = completion.wqe_counter;
    cqe.byte_count = completion.byte_count;
    cqe.imm_data = completion.imm_data;
    cqe.src_qp = completion.src_qp;
    cqe.slid = completion.slid;
    cqe.pkey_index = completion.pkey_index;
    cqe.opcode = static_cast<uint8_t>(completion.opcode);
    cqe.status = static_cast<uint8_t>(completion.error.status);
    cqe.vendor_error = static_cast<uint8_t>(completion.error.detail());
    cqe.flags = completion.flags;
    cqe.sl = completion.sl;
    cqe.dlid_path_bits = completion.dlid_path_bits;
    cqe.port = completion.port;
    cqe.srqn = completion.srqn;
    return cqe;
}

bool read_consumer(Host& host, CompletionQueue& cq) {
    uint32_t consumer;
    if (!cq.buffer.read(host, offsetof(pib_hca_cq_header, consumer),
                        {reinterpret_cast<uint8_t*>(&consumer), sizeof consumer})) {
        return false;
    }
    cq.consumer = consumer;
    return true;
}

// The guest may set the consumer counter to any value. At worst it stops its own queue or has its
// own entries overwritten, because every entry is inside the buffer.
bool has_room(Host& host, CompletionQueue& cq) {
    const uint32_t depth = 1u << cq.log_depth;
    if (cq.producer - cq.consumer < depth) {
        return true;
    }
    return read_consumer(host, cq) && cq.producer - cq.consumer < depth;
}

// Copies some of the CQEs that software has not polled. Refuses if the old or the new ring has
// fewer entries than there are such CQEs.
Verdict copy_waiting(Host& host, const CompletionQueue& from, CqResize& resize) {
    CompletionQueue& to = resize.to;
    const uint32_t waiting = from.producer - resize.first;
    if (waiting > 1u << from.log_depth || waiting > 1u << to.log_depth) {
        return refuse(Rule::kResizeWaiting, to.log_depth, waiting);
    }
    const uint32_t end = std::min(waiting, resize.copied + CqTable::kCqesPerCall);
    for (uint32_t& i = resize.copied; i < end; ++i) {
        pib_hca_cqe cqe;
        const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(&cqe), sizeof cqe);
        const uint64_t old_place = cqe_offset(resize.first + i, from.log_depth);
        const bool read = from.buffer.read(host, old_place, bytes);
        cqe.owner = owner_bit(i, to.log_depth);
        if (!read || !to.buffer.write(host, cqe_offset(i, to.log_depth), bytes)) {
            return refuse(Rule::kResizeMemory, resize.root);
        }
    }
    return CmdStatus::kOk;
}

// Gives the CQ a new buffer with its unpolled CQEs, which begin with the one of counter `first`.
void take_buffer(CompletionQueue& cq, CompletionQueue& to, uint32_t first) {
    const uint32_t waiting = cq.producer - first;
    std::swap(cq.buffer, to.buffer);
    cq.log_depth = to.log_depth;
    cq.solicited_producer = waiting - (cq.producer - cq.solicited_producer);
    cq.held_from = waiting - (cq.producer - cq.held_from);
    cq.consumer = 0;
    cq.producer = waiting;
    cq.told_at -= first;
    cq.armed_at -= first;
}

// Whether the CQ has a completion from `consumer` on that `arm` has to report.
bool missed(const CompletionQueue& cq, CqArm arm, uint32_t consumer) {
    const uint32_t unseen = cq.producer - consumer;
    if (arm == CqArm::kNext) {
        return unseen != 0;
    }
    return cq.producer - cq.solicited_producer < unseen;
}

}  // namespace

CqTable::CqTable(Host& host, EqTable& eqs, uint32_t max_cqs, Strict* strict,
                 DriverCoverage* coverage)
    : host_(host),
      eqs_(eqs),
      cqs_(1, max_cqs),
      pages_left_(Limits::kCqPages),
      strict_(strict),
      coverage_(coverage) {}

CmdResult<uint32_t> CqTable::create(const pib_hca_create_cq& in) {
    if (const Verdict verdict = check_fields(in, Rule::kCqReserved, Rule::kCqDeep);
        verdict != CmdStatus::kOk) {
        return std::unexpected(verdict);
    }
    EventQueue* eq = eqs_.find(in.eqn);
    if (eq == nullptr) {
        return std::unexpected(refuse(Rule::kCqEq, in.eqn));
    }
    if (cqs_.count() == cqs_.capacity()) {
        return std::unexpected(refuse(Rule::kObjectLimit, 0, cqs_.capacity()));
    }
    auto buffer = load(host_, in.pages, in.log_depth, pages_left_);
    if (!buffer) {
        return std::unexpected(buffer.error());
    }
    CompletionQueue cq;
    cq.buffer = std::move(*buffer);
    cq.eqn = in.eqn;
    cq.uar = in.uar;
    cq.log_depth = in.log_depth;
    ++eq->users;
    const uint32_t cqn = cqs_.insert(std::move(cq));
    if (strict_ != nullptr) [[unlikely]] {
        check_new_cq(*strict_, cqn, *cqs_.find(cqn));
    }
    return cqn;
}

// The counters restart at 0, so that a zeroed buffer of any depth has no valid CQE.
Verdict CqTable::resize(uint32_t cqn, const pib_hca_resize_cq& in) {
    CompletionQueue* cq = cqs_.find(cqn);
    if (cq == nullptr) {
        return refuse(Rule::kNoCq, cqn);
    }
    if (const Verdict verdict = check_fields(in, Rule::kResizeReserved, Rule::kResizeDeep);
        verdict != CmdStatus::kOk) {
        return verdict;
    }
    if (cq->error) {
        return refuse(Rule::kResizeError, cqn);
    }
    auto buffer = load(host_, in.pages, in.log_depth, pages_left_);
    if (!buffer) {
        return buffer.error();
    }
    resize_ = CqResize{.cqn = cqn, .root = in.pages.root};
    resize_->to.buffer = std::move(*buffer);
    resize_->to.log_depth = in.log_depth;
    if (strict_ != nullptr) [[unlikely]] {
        check_cq_header(host_, *strict_, cqn, *cq);
        check_new_cq(*strict_, cqn, resize_->to);
    }
    if (!read_consumer(host_, *cq)) {
        return end_resize(refuse(Rule::kResizeMemory, in.pages.root));
    }
    resize_->first = cq->consumer;
    return resize_more();
}

Verdict CqTable::resize_more() {
    CompletionQueue& cq = *cqs_.find(resize_->cqn);
    const Verdict verdict =
        cq.error ? refuse(Rule::kResizeError, resize_->cqn) : copy_waiting(host_, cq, *resize_);
    if (verdict != CmdStatus::kOk) {
        return end_resize(verdict);
    }
    if (resize_->copied != cq.producer - resize_->first) {
        return verdict;  // more CQEs have to be copied
    }
    take_buffer(cq, resize_->to, resize_->first);
    return end_resize(verdict);
}

// Gives up the buffer that the CQ does not use: the new one if the resize is refused.
Verdict CqTable::end_resize(const Verdict& verdict) {
    const GuestBuffer unused = std::move(resize_->to.buffer);
    pages_left_ += unused.listed_pages();
    if (strict_ != nullptr) [[unlikely]] {
        const uint32_t cqn = resize_->cqn;
        strict_->memory_released({Thing::kCq, cqn}, unused, cqs_.find(cqn)->buffer);
    }
    resize_.reset();
    return verdict;
}

Verdict CqTable::destroy(uint32_t cqn) {
    CompletionQueue* cq = cqs_.find(cqn);
    if (cq == nullptr) {
        return refuse(Rule::kNoCq, cqn);
    }
    if (cq->users != 0) {
        return refuse(Rule::kCqBusy, cqn, cq->users);
    }
    if (strict_ != nullptr) [[unlikely]] {
        check_cq_header(host_, *strict_, cqn, *cq);
        check_cq_ring(*strict_, cqn, *cq);
        strict_->queue_destroyed({Thing::kCq, cqn});
    }
    timers_.cancel(cqn);
    eqs_.forget_completion(cq->eqn, cqn);
    eqs_.forget_events(EventSource::kCq, cqn);
    --eqs_.find(cq->eqn)->users;
    pages_left_ += cq->buffer.listed_pages();
    cqs_.erase(cqn);
    return CmdStatus::kOk;
}

uint32_t CqTable::cqs_of_uar(uint32_t uar) {
    uint32_t n = 0;
    cqs_.for_each([&](uint32_t, const CompletionQueue& cq) { n += cq.uar == uar ? 1 : 0; });
    return n;
}

bool CqTable::doorbell(uint32_t uar, uint64_t value) {
    const uint32_t cqn = static_cast<uint32_t>(value) & PIB_HCA_DB_NUMBER_MASK;
    CompletionQueue* cq = cqs_.find(cqn);
    const uint32_t reserved =
        ~(PIB_HCA_DB_NUMBER_MASK | PIB_HCA_DB_CQ_SOLICITED) & static_cast<uint32_t>(value);
    if (cq == nullptr || cq->uar != uar || reserved != 0) {
        return false;
    }
    const auto consumer = static_cast<uint32_t>(value >> PIB_HCA_DB_COUNTER_SHIFT);
    const CqArm arm = (value & PIB_HCA_DB_CQ_SOLICITED) != 0 ? CqArm::kSolicited : CqArm::kNext;
    if (strict_ != nullptr) [[unlikely]] {
        check_cq_header(host_, *strict_, cqn, *cq);
        check_cq_arming(*strict_, cqn, *cq, consumer, missed(*cq, arm, consumer));
    }
    // A pending request for the next completion is not reduced to one for a solicited completion
    // (IBA vol. 1, 11.4.2.2).
    cq->arm = std::max(cq->arm, arm);
    if (arm == CqArm::kSolicited && missed(*cq, arm, consumer)) {
        fire(cqn, *cq);
    } else if (cq->arm == CqArm::kNext && missed(*cq, CqArm::kNext, consumer)) {
        tell(cqn, *cq, cq->producer - consumer);
    } else {
        stop_holding(cqn, *cq);  // software has polled these completions
    }
    return true;
}

void CqTable::clear() {
    cqs_.clear();
    timers_.clear();
    resize_.reset();
    pages_left_ = Limits::kCqPages;
}

bool CqTable::inject_error(uint32_t cqn) {
    CompletionQueue* cq = cqs_.find(cqn);
    if (cq == nullptr || cq->error) {
        return false;
    }
    fail(cqn, *cq, CqErrorSyndrome::kOverrun);
    return true;
}

bool CqTable::post(uint32_t cqn, const Completion& completion, bool solicited,
                   bool event_may_wait) {
    CompletionQueue* cq = cqs_.find(cqn);
    if (cq == nullptr || cq->error) {
        return false;
    }
    if (strict_ != nullptr) [[unlikely]] {
        check_cq_header(host_, *strict_, cqn, *cq);
    }
    if (!has_room(host_, *cq)) {
        fail(cqn, *cq, CqErrorSyndrome::kOverrun);
        return false;
    }
    if (strict_ != nullptr) [[unlikely]] {
        check_cq_ring(*strict_, cqn, *cq);
        const auto opcode = static_cast<uint8_t>(completion.opcode);
        cq->received = cq->received || (opcode & PIB_HCA_CQE_IS_RECV) != 0;
    }
    if (!write(*cq, completion)) {
        fail(cqn, *cq, CqErrorSyndrome::kMemory);
        return false;
    }
    ++cq->producer;
    const uint32_t depth = 1u << cq->log_depth;
    if (solicited) {
        cq->solicited_producer = cq->producer;
    } else if (cq->producer - cq->solicited_producer > depth) {
        // Advances an old solicited_producer: it would look new after the counters overflow.
        cq->solicited_producer = cq->producer - depth;
    }
    if (cq->arm != CqArm::kNone && solicited) {
        fire(cqn, *cq);  // a solicited or failed completion: raise the event now
    } else if (cq->arm == CqArm::kNext && event_may_wait && !cq->moderated()) {
        hold(cqn, *cq, 1, kModerationFloorNs);
    } else if (cq->arm == CqArm::kNext) {
        tell(cqn, *cq, 1);
    }
    return true;
}

void CqTable::tell(uint32_t cqn, CompletionQueue& cq, uint32_t unseen) {
    if (!cq.moderated()) {
        fire(cqn, cq);
        return;
    }
    hold(cqn, cq, unseen, uint64_t{cq.moderation_period} * 1000);
    if (cq.moderation_count != 0 && cq.producer - cq.held_from >= cq.moderation_count) {
        fire(cqn, cq);
    }
}

void CqTable::hold(uint32_t cqn, CompletionQueue& cq, uint32_t unseen, uint64_t at_most_ns) {
    if (cq.held) {
        return;
    }
    cq.held = true;
    cq.held_from = cq.producer - unseen;
    if (at_most_ns != 0) {
        timers_.set(cqn, host_.now_ns() + at_most_ns);
    }
}

void CqTable::fire(uint32_t cqn, CompletionQueue& cq) {
    stop_holding(cqn, cq);
    cq.arm = CqArm::kNone;
    cq.told_at = cq.consumer;
    eqs_.completion_event(cq.eqn, cqn);
}

void CqTable::stop_holding(uint32_t cqn, CompletionQueue& cq) {
    if (cq.held) {
        cq.held = false;
        timers_.cancel(cqn);
    }
}

Verdict CqTable::moderate(uint32_t cqn, const pib_hca_moderate_cq& in) {
    if (std::ranges::any_of(in.reserved, [](uint8_t byte) { return byte != 0; })) {
        return refuse(Rule::kModerateReserved);
    }
    CompletionQueue* cq = cqs_.find(cqn);
    if (cq == nullptr) {
        return refuse(Rule::kNoCq, cqn);
    }
    if (cq->held) {
        fire(cqn, *cq);
    }
    cq->moderation_count = in.count;
    cq->moderation_period = in.period;
    return CmdStatus::kOk;
}

void CqTable::timer(uint64_t now_ns) {
    for (uint32_t cqn = timers_.take_due(now_ns); cqn != Timers::kNone;
         cqn = timers_.take_due(now_ns)) {
        if (CompletionQueue* cq = cqs_.find(cqn); cq != nullptr && cq->held) {
            fire(cqn, *cq);
        }
    }
}

bool CqTable::write(CompletionQueue& cq, const Completion& completion) {
    pib_hca_cqe cqe = encode(completion);
    if (coverage_ != nullptr) {
        coverage_->cqe(cqe.opcode, cqe.status, cqe.flags);
    }
    const uint64_t offset = cqe_offset(cq.producer, cq.log_depth);
    if (poison_) [[unlikely]] {
        poison_unspecified(cqe);
    }
    cqe.timestamp = host_.now_ns();
    cqe.owner = owner_bit(cq.producer, cq.log_depth);
    constexpr size_t kBody = offsetof(pib_hca_cqe, owner);
    const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(&cqe), sizeof cqe);
    if (!cq.buffer.write(host_, offset, bytes.first(kBody))) {
        return false;
    }
    host_.dma_barrier();
    cq.past.add(cqe.timestamp, completion);
    return cq.buffer.write(host_, offset + kBody, bytes.subspan(kBody));
}

void CqTable::fail(uint32_t cqn, CompletionQueue& cq, CqErrorSyndrome syndrome) {
    cq.error = true;
    if (strict_ != nullptr && syndrome == CqErrorSyndrome::kMemory) {
        strict_->memory_lost({Thing::kCq, cqn});
    }
    eqs_.async_event(Event::kCqError, cqn, static_cast<uint32_t>(syndrome));
}

}  // namespace pib::hca
