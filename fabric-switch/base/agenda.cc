// SPDX-License-Identifier: GPL-2.0-or-later
// See agenda.h.
#include "base/agenda.h"

#include <algorithm>

namespace pib::fabric {

Timed::~Timed() {
    if (agenda_ != nullptr) {
        agenda_->forget(*this);
    }
}

void Agenda::touch(Timed& timed) {
    if (timed.touched_) {
        return;
    }
    timed.touched_ = true;
    if (timed.agenda_ == nullptr) {
        timed.agenda_ = this;
        timed.serial_ = serial_++;
    }
    touched_.push_back(&timed);
}

void Agenda::advance(std::uint64_t now_ns) {
    clock_.now_ns = std::max(clock_.now_ns, now_ns);
    update();
    while (next_deadline() <= clock_.now_ns) {
        Timed& timed = *due_.begin()->timed;
        due_.erase(due_.begin());
        timed.due_ns_ = UINT64_MAX;
        timed.time_has_come(clock_.now_ns);
        touch(timed);  // update() asks for the next deadline, so this loop always ends
    }
}

void Agenda::update() {
    for (std::size_t i = 0; i < touched_.size(); ++i) {
        Timed& timed = *touched_[i];
        timed.touched_ = false;
        const std::uint64_t due_ns = timed.next_deadline();
        if (due_ns == timed.due_ns_) {
            continue;
        }
        due_.erase({{timed.due_ns_, timed.serial_}, &timed});
        timed.due_ns_ = due_ns;
        if (due_ns != UINT64_MAX) {
            due_.insert({{due_ns, timed.serial_}, &timed});
        }
    }
    touched_.clear();
}

void Agenda::forget(Timed& timed) {
    due_.erase({{timed.due_ns_, timed.serial_}, &timed});
    std::erase(touched_, &timed);
}

}  // namespace pib::fabric
