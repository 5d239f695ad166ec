// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/shared_rings.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

namespace pib::fabric {
namespace {

// log2 of a ring's bytes: large enough that the two ends of a busy link need not wait for each
// other at every message, small enough to stay in the processors' caches.
constexpr unsigned kLogRing = 19;

}  // namespace

std::expected<SharedRings, std::string> SharedRings::create() {
    auto memory = link::SharedMemory::create(kLogRing);
    if (!memory) {
        return std::unexpected(memory.error());
    }
    UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake) {
        return std::unexpected(std::string("eventfd: ") + std::strerror(errno));
    }
    return SharedRings(std::move(*memory), std::move(wake));
}

void SharedRings::wake_peer() const {
    std::atomic<uint32_t>& wakes = memory_.ring(1).control->wakes;
    wakes.fetch_add(1, std::memory_order_release);
    ::syscall(SYS_futex, &wakes, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace pib::fabric
