// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/note_budget.h"

namespace pib::fabric {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;

}  // namespace

void NoteBudget::begin(uint64_t now_ns) {
    if (now_ns / kNsPerSecond != second_) {
        second_ = now_ns / kNsPerSecond;
        notes_ = 0;
        of_port_.clear();
        of_network_.clear();
    }
}

bool NoteBudget::count(unsigned& of_one) {
    if (of_one == kMostOfOne) {
        return false;
    }
    ++of_one;
    ++notes_;
    return true;
}

bool NoteBudget::permit_port(const std::string& port, uint64_t now_ns) {
    begin(now_ns);
    unsigned& of_one = of_port_[port];
    return (of_one == 0 || notes_ < kMost) && count(of_one);
}

// Adds no network after kMost notes, so that a host with many addresses cannot fill the memory.
bool NoteBudget::permit_newcomer(const std::string& network, uint64_t now_ns) {
    begin(now_ns);
    return notes_ < kMost && count(of_network_[network]);
}

}  // namespace pib::fabric
