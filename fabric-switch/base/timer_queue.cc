// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/timer_queue.h"

#include <algorithm>

namespace pib::fabric {

TimerClient::~TimerClient() {
    if (timers_ != nullptr) {
        timers_->forget(*this);
    }
}

void TimerQueue::touch(TimerClient& client) {
    if (client.touched_) {
        return;
    }
    client.touched_ = true;
    if (client.timers_ == nullptr) {
        client.timers_ = this;
        client.serial_ = serial_++;
    }
    touched_.push_back(&client);
}

void TimerQueue::advance(uint64_t now_ns) {
    clock_.now_ns = std::max(clock_.now_ns, now_ns);
    update();
    while (next_deadline() <= clock_.now_ns) {
        TimerClient& client = *due_.begin()->client;
        due_.erase(due_.begin());
        client.due_ns_ = UINT64_MAX;
        client.on_deadline(clock_.now_ns);
        touch(client);  // only update() queues the client again, so this loop always ends
    }
}

void TimerQueue::update() {
    for (size_t i = 0; i < touched_.size(); ++i) {
        TimerClient& client = *touched_[i];
        client.touched_ = false;
        const uint64_t due_ns = client.next_deadline();
        if (due_ns == client.due_ns_) {
            continue;
        }
        due_.erase({{client.due_ns_, client.serial_}, &client});
        client.due_ns_ = due_ns;
        if (due_ns != UINT64_MAX) {
            due_.insert({{due_ns, client.serial_}, &client});
        }
    }
    touched_.clear();
}

void TimerQueue::forget(TimerClient& client) {
    due_.erase({{client.due_ns_, client.serial_}, &client});
    std::erase(touched_, &client);
}

}  // namespace pib::fabric
