// SPDX-License-Identifier: GPL-2.0-or-later
// Received bytes of a link without shared memory: turns bound the work that they cause.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace pib::hca {

class StreamInput {
  public:
    // Passes the bytes that wait, then `bytes`, to `handle` in steps. `handle` returns the work of
    // its step in bytes; bytes that are left when the work exceeds a turn wait for the next call.
    // If `handle` throws, drops these bytes: while bytes wait the host reads no more, and after the
    // exception nothing would request the next call.
    template <typename Handle>
    void receive(std::span<const uint8_t> bytes, Handle&& handle) {
        if (!waits()) [[likely]] {
            const auto left = bytes.subspan(turn(bytes, handle));
            waiting_.assign(left.begin(), left.end());
            done_ = 0;
            return;
        }
        waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
        std::vector<uint8_t> all = std::exchange(waiting_, {});
        size_t done = std::exchange(done_, 0);
        done += turn(std::span<const uint8_t>(all).subspan(done), handle);
        if (done < all.size()) {
            waiting_ = std::move(all);
            done_ = done;
        }
    }
    [[nodiscard]] bool waits() const { return done_ < waiting_.size(); }
    void clear() {
        waiting_.clear();
        done_ = 0;
    }

  private:
    // Returns the number of bytes handled.
    template <typename Handle>
    static size_t turn(std::span<const uint8_t> bytes, Handle& handle) {
        // The same step and turn as for a link in shared memory.
        constexpr size_t kStep = 4 * 1024;
        constexpr uint64_t kWorkOfTurn = 128 * 1024;
        size_t done = 0;
        for (uint64_t work = 0; done < bytes.size() && work < kWorkOfTurn;) {
            const auto step = bytes.subspan(done, std::min(kStep, bytes.size() - done));
            work += handle(step);
            done += step.size();
        }
        return done;
    }

    std::vector<uint8_t> waiting_;
    size_t done_ = 0;  // handled bytes of waiting_
};

}  // namespace pib::hca
