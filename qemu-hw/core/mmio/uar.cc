// SPDX-License-Identifier: GPL-2.0-or-later
#include "mmio/uar.h"

#include "mmio/registers.h"
#include "pib_hca_hw.h"
#include "qp/qp_checks.h"

namespace pib::hca {

namespace {

// The UAR page of the access that is being handled.
struct Page {
    DeviceObjects& objects;
    uint32_t uar;

    uint64_t clock() { return objects.host.now_ns(); }

    void send(uint64_t value) {
        objects.counters.add(HcaCounter::kSendDoorbells, Counters::kNoPort);
        if (!objects.doorbells.send(uar, static_cast<uint32_t>(value))) {
            ignore(PIB_HCA_UAR_SEND, why_no_qp(value));
        } else if (objects.counters.strict != nullptr) [[unlikely]] {
            check_doorbell(objects.host, *objects.counters.strict,
                           *objects.transport.verbs().look_at(static_cast<uint32_t>(value)));
        }
    }
    void recv(uint64_t value) {
        if (!objects.doorbells.recv(uar, static_cast<uint32_t>(value))) {
            ignore(PIB_HCA_UAR_RECV, why_no_qp(value));
        }
    }
    void arm_cq(uint64_t value) {
        if (!objects.cqs.doorbell(uar, value)) {
            ignore(PIB_HCA_UAR_CQ_ARM, why_no_cq(value));
        }
    }
    void kick(uint64_t value) {
        objects.counters.add(HcaCounter::kSendDoorbells, Counters::kNoPort);
        if (!objects.shadow_doorbells.kick(uar)) {
            ignore(PIB_HCA_UAR_KICK, refuse(Rule::kKickPage, value, uar));
        }
    }
    void eq(uint64_t value) {
        if (uar != kKernelUar || !objects.eqs.doorbell(value)) {
            ignore(PIB_HCA_UAR_EQ, why_no_eq(value));
        }
    }

    void ignore(uint64_t offset, const Verdict& verdict) {
        objects.counters.add(HcaCounter::kForeignDoorbell, Counters::kNoPort);
        objects.refusals.ignored_store(PIB_HCA_BAR_UAR,
                                       uint64_t{uar} * PIB_HCA_UAR_PAGE_SIZE + offset, verdict);
    }

    // why_no_…() return the rule that an ignored doorbell breaks. They are called for ignored
    // doorbells only, so that accepted doorbells stay fast.
    Verdict why_no_qp(uint64_t value) {
        const auto* qp = objects.transport.verbs().look_at(static_cast<uint32_t>(value));
        return qp == nullptr ? refuse(Rule::kDoorbellQp, value)
                             : refuse(Rule::kDoorbellQpUar, value, qp->uar);
    }
    Verdict why_no_cq(uint64_t value) {
        if (has_reserved_bits(value)) {
            return refuse(Rule::kArmBits, value);
        }
        const CompletionQueue* cq = objects.cqs.find(number_in(value));
        return cq == nullptr ? refuse(Rule::kArmCq, value)
                             : refuse(Rule::kArmCqUar, value, cq->uar);
    }
    Verdict why_no_eq(uint64_t value) {
        if (uar != kKernelUar) {
            return refuse(Rule::kEqPage, value, uar);
        }
        if (has_reserved_bits(value)) {
            return refuse(Rule::kEqBits, value);
        }
        const EventQueue* eq = objects.eqs.find(number_in(value));
        return eq == nullptr ? refuse(Rule::kEqNumber, value)
                             : refuse(Rule::kEqCounter, value, eq->producer);
    }
    static uint32_t number_in(uint64_t value) {
        return static_cast<uint32_t>(value) & PIB_HCA_DB_NUMBER_MASK;
    }
    // CQ_ARM and EQ doorbells have their flag in the same bit.
    static bool has_reserved_bits(uint64_t value) {
        static_assert(PIB_HCA_DB_CQ_SOLICITED == PIB_HCA_DB_EQ_ARM);
        return (static_cast<uint32_t>(value) & ~(PIB_HCA_DB_NUMBER_MASK | PIB_HCA_DB_EQ_ARM)) != 0;
    }
};

constexpr Register<Page> kPage[] = {
    {PIB_HCA_UAR_SEND, 4, nullptr, writes<Page, &Page::send>},
    {PIB_HCA_UAR_RECV, 4, nullptr, writes<Page, &Page::recv>},
    {PIB_HCA_UAR_CQ_ARM, 8, nullptr, writes<Page, &Page::arm_cq>, true},
    {PIB_HCA_UAR_EQ, 8, nullptr, writes<Page, &Page::eq>, true},
    {PIB_HCA_UAR_KICK, 4, nullptr, writes<Page, &Page::kick>},
    {PIB_HCA_UAR_CLOCK, 8, reads<Page, &Page::clock>, nullptr},
};

}  // namespace

bool UarPages::read(uint64_t offset, unsigned size, uint64_t& value) {
    Page page{objects_, static_cast<uint32_t>(offset / PIB_HCA_UAR_PAGE_SIZE)};
    return objects_.has_uar(page.uar) &&
           read_register<Page>(kPage, page, offset % PIB_HCA_UAR_PAGE_SIZE, size, value);
}

// The host may report the store late, when software has removed the page or reset the device, and
// it may report a store to one UAR for several UARs.
void UarPages::kick(uint32_t uar) {
    if (objects_.shadow_doorbells.has(uar)) {
        Page{objects_, uar}.kick(0);
    }
}

bool UarPages::write(uint64_t offset, unsigned size, uint64_t value) {
    Page page{objects_, static_cast<uint32_t>(offset / PIB_HCA_UAR_PAGE_SIZE)};
    if (!objects_.has_uar(page.uar)) {
        page.ignore(offset % PIB_HCA_UAR_PAGE_SIZE, refuse(Rule::kPageFree, value, page.uar));
        return true;
    }
    return write_register<Page>(kPage, page, offset % PIB_HCA_UAR_PAGE_SIZE, size, value);
}

}  // namespace pib::hca
