// SPDX-License-Identifier: GPL-2.0-or-later
#include "window.h"

#include <cstring>

namespace pib::simulation {
namespace {

constexpr uint32_t kAccess =
    PIB_HCA_ACCESS_REMOTE_WRITE | PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC;

template <typename T>
hca::test::SendWr request(pib_hca_wqe_opcode opcode, const T& segment) {
    hca::test::SendWr wr;
    wr.opcode = static_cast<uint8_t>(opcode);
    wr.segment.resize(sizeof segment);
    std::memcpy(wr.segment.data(), &segment, sizeof segment);
    return wr;
}

}  // namespace

Window::Window(test::Guest& guest, uint32_t pd, size_t bytes, const std::string& name)
    : guest_(guest), pd_(pd), bytes_(bytes), area_(guest, pd, bytes, name) {}

hca::test::SendWr Window::bind() {
    if (rkey_ == 0) {
        const pib_hca_alloc_mw in{
            .pd = pd_, .type = PIB_HCA_MW_TYPE_2, .key = 0x10, .reserved = {}};
        rkey_ = hca::test::MiniDriver::must(guest_.driver.command_in(PIB_HCA_CMD_ALLOC_MW, 0, in),
                                            "ALLOC_MW");
    }
    rkey_ = (rkey_ & ~0xffu) | ((rkey_ + 1) & 0xff);
    state_ = State::kBinding;
    return request(PIB_HCA_WQE_BIND_MW, pib_hca_wqe_bind{.rkey = rkey_,
                                                         .lkey = area_.key(),
                                                         .access = kAccess,
                                                         .reserved = 0,
                                                         .addr = area_.address(0),
                                                         .length = bytes_});
}

hca::test::SendWr Window::invalidate() {
    state_ = State::kClosing;
    return request(PIB_HCA_WQE_LOCAL_INV, pib_hca_wqe_key{.key = rkey_, .reserved = {}});
}

void Window::closed() {
    area_.shadow.seal();
    state_ = State::kUnbound;
}

void Window::qp_destroyed() {
    area_.shadow.adopt();
    state_ = State::kUnbound;
}

void Window::release() {
    if (rkey_ != 0) {
        guest_.driver.destroy(PIB_HCA_CMD_DEALLOC_MW, rkey_);
    }
    area_.destroy_key();
}

void Window::lose() {
    area_.lose_key();
    state_ = State::kBroken;
    rkey_ = 0;
}

void Window::restore(uint32_t pd) {
    pd_ = pd;
    area_.create_key(pd);
}

}  // namespace pib::simulation
