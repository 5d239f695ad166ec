// SPDX-License-Identifier: GPL-2.0-or-later
#include "region.h"

namespace pib::simulation {
namespace {

constexpr uint32_t kAccess = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE |
                             PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC;

}  // namespace

Region::Region(test::Guest& guest, uint32_t pd, size_t bytes, const std::string& name)
    : guest_(guest),
      bytes_(bytes),
      mr_(guest.driver.create_mr(pd, bytes, kAccess)),
      shadow(mr_.memory, bytes, name) {}

void Region::create_key(uint32_t pd) {
    guest_.driver.register_mr(mr_, {.pd = pd,
                                    .access = kAccess,
                                    .bytes = bytes_,
                                    .page_offset = 0,
                                    .key_byte = next_key_byte_++});
    has_key_ = true;
}

void Region::destroy_key() {
    guest_.driver.destroy(PIB_HCA_CMD_DESTROY_MR, mr_.key);
    lose_key();
}

void Region::lose_key() {
    shadow.seal();
    has_key_ = false;
}

}  // namespace pib::simulation
