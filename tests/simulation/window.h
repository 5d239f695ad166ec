// SPDX-License-Identifier: GPL-2.0-or-later
// A memory window of type 2B. Work requests of the responder's own QP bind and invalidate it;
// messages of its peer may invalidate it too.
#pragma once

#include "region.h"

namespace pib::simulation {

class Window final : public Target {
  public:
    Window(test::Guest& guest, uint32_t pd, size_t bytes, const std::string& name);

    bool has_key() const override {
        return state_ == State::kBinding || state_ == State::kBound || state_ == State::kClosing;
    }
    bool opens(uint32_t key) const override { return state_ == State::kBound && key == rkey_; }
    uint32_t key() const override { return rkey_; }
    uint64_t address(uint64_t offset) const override { return area_.address(offset); }
    Shadow& bytes() override { return area_.shadow; }

    bool is_unbound() const { return state_ == State::kUnbound; }
    bool is_bound() const { return state_ == State::kBound; }
    // Requests that the responder posts; the state follows their completions.
    hca::test::SendWr bind();
    hca::test::SendWr invalidate();
    // The requester has posted a message that invalidates the window: no later request may use it.
    void doom() { state_ = State::kDoomed; }
    void bound() { state_ = State::kBound; }
    // The window is invalid from now on.
    void closed();
    // A request on the window has failed. Its effect is unknown until the QP has been destroyed.
    void broken() { state_ = State::kBroken; }

    // The QP has been destroyed, and the window's binding with it.
    void qp_destroyed();
    void release();
    void lose();
    void restore(uint32_t pd);

  private:
    enum class State { kUnbound, kBinding, kBound, kClosing, kDoomed, kBroken };

    test::Guest& guest_;
    uint32_t pd_;
    const size_t bytes_;
    Region area_;
    State state_ = State::kUnbound;
    uint32_t rkey_ = 0;  // 0: the device has no window yet
};

}  // namespace pib::simulation
