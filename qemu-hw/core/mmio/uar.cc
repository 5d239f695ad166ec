// SPDX-License-Identifier: GPL-2.0-or-later
#include "mmio/uar.h"

#include "mmio/registers.h"
#include "pib_hca_hw.h"

namespace pib::hca {

namespace {

// One page during one access.
struct Page {
    DeviceObjects& objects;
    uint32_t uar;

    uint64_t clock() { return objects.host.now_ns(); }

    void send(uint64_t value) {
        objects.counters.add(HcaCounter::kSendDoorbells, Counters::kNoPort);
        count(objects.transport.send_doorbell(uar, static_cast<uint32_t>(value)));
    }
    void recv(uint64_t value) {
        count(objects.transport.recv_doorbell(uar, static_cast<uint32_t>(value)));
    }
    void arm_cq(uint64_t value) { count(objects.cqs.doorbell(uar, value)); }
    void kick(uint64_t) {
        objects.counters.add(HcaCounter::kSendDoorbells, Counters::kNoPort);
        count(objects.shadow_doorbells.kick(uar));
    }
    void eq(uint64_t value) { count(uar == kKernelUar && objects.eqs.doorbell(value)); }

    void count(bool accepted) {
        if (!accepted) {
            objects.counters.add(HcaCounter::kForeignDoorbell, Counters::kNoPort);
        }
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

void UarPages::kick(uint32_t uar) {
    Page{objects_, uar}.kick(0);
}

bool UarPages::write(uint64_t offset, unsigned size, uint64_t value) {
    Page page{objects_, static_cast<uint32_t>(offset / PIB_HCA_UAR_PAGE_SIZE)};
    if (!objects_.has_uar(page.uar)) {
        page.count(false);
        return true;
    }
    return write_register<Page>(kPage, page, offset % PIB_HCA_UAR_PAGE_SIZE, size, value);
}

}  // namespace pib::hca
