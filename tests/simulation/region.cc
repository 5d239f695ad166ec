// SPDX-License-Identifier: GPL-2.0-or-later
#include "region.h"

namespace pib::simulation {
namespace {

constexpr uint32_t kReadOnly = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_READ;
constexpr uint32_t kAccess = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE |
                             PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC |
                             PIB_HCA_ACCESS_MW_BIND;

}  // namespace

Region::Region(test::Guest& guest, uint32_t pd, size_t bytes, const std::string& name)
    : guest_(guest),
      bytes_(bytes),
      mr_(guest.driver.create_mr(pd, bytes, kAccess)),
      shadow(mr_.memory, name) {
    guest_.driver.destroy(PIB_HCA_CMD_DESTROY_MR, mr_.key);
    read_only_ = foreign_ = mr_;
    create_key(pd);
}

void Region::create_key(uint32_t pd) {
    const auto give = [&](hca::test::MiniMr& mr, uint32_t its_pd, uint32_t access) {
        guest_.driver.register_mr(mr, {.pd = its_pd,
                                       .access = access,
                                       .bytes = bytes_,
                                       .page_offset = 0,
                                       .key_byte = next_key_byte_++});
    };
    foreign_pd_ = guest_.driver.alloc_pd();
    give(foreign_, foreign_pd_, kAccess);
    give(read_only_, pd, kReadOnly);
    give(mr_, pd, kAccess);
    has_key_ = true;
}

void Region::destroy_key() {
    for (const hca::test::MiniMr* mr : {&mr_, &read_only_, &foreign_}) {
        guest_.driver.destroy(PIB_HCA_CMD_DESTROY_MR, mr->key);
    }
    guest_.driver.destroy(PIB_HCA_CMD_FREE_PD, foreign_pd_);
    lose_key();
}

void Region::lose_key() {
    shadow.seal();
    has_key_ = false;
}

}  // namespace pib::simulation
