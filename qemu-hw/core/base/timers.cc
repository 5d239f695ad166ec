// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/timers.h"

namespace pib::hca {

void Timers::place(uint32_t index, const Entry& entry) {
    heap_[index] = entry;
    index_of_[entry.id] = index;
}

// Puts `entry` into the free place `index` and moves it up or down the heap to where it belongs.
void Timers::settle(uint32_t index, Entry entry) {
    while (index > 0 && earlier(entry, heap_[(index - 1) / 2])) {
        place(index, heap_[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * index + 1;
        if (child >= heap_.size()) {
            break;
        }
        if (child + 1 < heap_.size() && earlier(heap_[child + 1], heap_[child])) {
            ++child;
        }
        if (!earlier(heap_[child], entry)) {
            break;
        }
        place(index, heap_[child]);
        index = child;
    }
    place(index, entry);
}

void Timers::set(uint32_t id, uint64_t deadline_ns) {
    if (id >= index_of_.size()) {
        index_of_.resize(id + 1, kNone);
    }
    if (index_of_[id] == kNone) {
        index_of_[id] = static_cast<uint32_t>(heap_.size());
        heap_.push_back({deadline_ns, id});
    }
    settle(index_of_[id], {deadline_ns, id});
}

void Timers::remove(uint32_t index) {
    index_of_[heap_[index].id] = kNone;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (index < heap_.size()) {
        settle(index, last);
    }
}

void Timers::cancel(uint32_t id) {
    if (id < index_of_.size() && index_of_[id] != kNone) {
        remove(index_of_[id]);
    }
}

void Timers::clear() {
    heap_.clear();
    index_of_.clear();
}

uint32_t Timers::take_due(uint64_t now_ns) {
    if (next() > now_ns || heap_.empty()) {
        return kNone;
    }
    const uint32_t id = heap_.front().id;
    remove(0);
    return id;
}

}  // namespace pib::hca
