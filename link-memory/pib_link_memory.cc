// SPDX-License-Identifier: GPL-2.0-or-later
#include "pib_link_memory.h"

#include <cstring>
#include <memory>
#include <utility>

#include "shared_memory.h"

using pib::link::RingView;
using pib::link::SharedMemory;

struct PibLinkMemory {
    SharedMemory memory;
};

namespace {

PibLinkRing to_c(const RingView& ring) {
    return {.control = ring.control, .bytes = ring.bytes, .size = ring.size};
}

}  // namespace

extern "C" {

PibLinkMemory* pib_link_memory_map(int memfd, char** error) {
    auto memory = SharedMemory::map(memfd);
    if (!memory) {
        *error = strdup(memory.error().c_str());
        return nullptr;
    }
    return std::make_unique<PibLinkMemory>(std::move(*memory)).release();
}

void pib_link_memory_unmap(PibLinkMemory* memory) {
    delete memory;
}

PibLinkRing pib_link_memory_out(const PibLinkMemory* memory) {
    return to_c(memory->memory.ring(0));
}

PibLinkRing pib_link_memory_in(const PibLinkMemory* memory) {
    return to_c(memory->memory.ring(1));
}

uint32_t* pib_link_memory_wakes(const PibLinkMemory* memory) {
    static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
    return reinterpret_cast<uint32_t*>(&memory->memory.ring(1).control->wakes);
}

}  // extern "C"
