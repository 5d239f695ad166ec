// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/record_format.h"

namespace pib::hca::record {
namespace {

struct Row {
    std::string_view name;
    unsigned fields = 0;
};

// Row 0 is tag 1.
constexpr Row kEntries[] = {
    {"load", 3},          {"store", 4},          {"reset", 1},
    {"exit from D0", 0},  {"kick", 1},           {"run", 0},
    {"timer", 0},         {"link connected", 2}, {"link received", 2},
    {"link writable", 1}, {"link closed", 1},    {"link shared", 3},
    {"link poll", 1},     {"memory changed", 0}, {"bus mastering off", 0},
};
static_assert(std::size(kEntries) == static_cast<size_t>(kLastEntry));

constexpr std::string_view kAnswers[] = {
    "a DMA read",
    "a DMA read of payload",
    "a DMA read that failed",
    "a DMA write",
    "a DMA write that failed",
    "a compare-and-swap",
    "a compare-and-swap that failed",
    "a read of the clock",
    "a read of the real clock",
    "a query of an interrupt vector",
    "a write to a link",
    "a read of a ring's position",
    "bytes of a ring",
    "payload of a ring",
};
static_assert(std::size(kAnswers) ==
              static_cast<size_t>(kLastAnswer) - static_cast<size_t>(kFirstAnswer) + 1);

}  // namespace

std::string_view name_of(Tag tag) {
    const auto number = static_cast<size_t>(tag);
    const auto first = static_cast<size_t>(kFirstAnswer);
    if (number >= 1 && number <= std::size(kEntries)) {
        return kEntries[number - 1].name;
    }
    return number >= first && number - first < std::size(kAnswers) ? kAnswers[number - first]
                                                                   : "a mark";
}

unsigned fields_of(Tag entry) {
    return kEntries[static_cast<size_t>(entry) - 1].fields;
}

}  // namespace pib::hca::record
