// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/state_entry.h"

#include <charconv>
#include <map>
#include <utility>

namespace pib::hca::record {
namespace {

std::string hex(uint64_t number) {
    char text[17];
    const auto end = std::to_chars(text, text + sizeof text, number, 16).ptr;
    return "0x" + std::string(text, end);
}

using Hashes = std::map<std::pair<StateKind, uint64_t>, uint64_t>;

Hashes by_object(const State& state) {
    Hashes hashes;
    for (const StateEntry& entry : state) {
        hashes[{entry.kind, entry.number}] = entry.hash;
    }
    return hashes;
}

}  // namespace

std::string to_string(StateKind kind, uint64_t number) {
    struct Words {
        const char* before;
        bool numbered;
        const char* after;
    };
    static constexpr Words kWords[kStateKinds] = {
        {"the device itself", false, ""},
        {"counters of port ", true, ""},
        {"the journal", false, ""},
        {"port ", true, " (attributes)"},
        {"port ", true, " (counters)"},
        {"port ", true, " (link)"},
        {"eq ", true, ""},
        {"cq ", true, ""},
        {"srq ", true, ""},
        {"qp ", true, ""},
        {"qp ", true, " (requester)"},
        {"qp ", true, " (responder)"},
        {"mr ", true, ""},
    };
    const Words& words = kWords[static_cast<uint8_t>(kind)];
    const bool in_hex = kind >= StateKind::kQp;
    const std::string name = in_hex ? hex(number) : std::to_string(number);
    return words.before + (words.numbered ? name : "") + words.after;
}

std::string differences(const State& recorded, const State& replayed, unsigned most) {
    Hashes left = by_object(replayed);
    std::string text;
    unsigned found = 0;
    const auto tell = [&](const std::pair<StateKind, uint64_t>& object, const char* how) {
        if (found++ < most) {
            text += (text.empty() ? "" : ", ") + to_string(object.first, object.second) + how;
        }
    };
    for (const auto& [object, hash] : by_object(recorded)) {
        const auto it = left.find(object);
        if (it == left.end()) {
            tell(object, " is missing");
        } else if (it->second != hash) {
            tell(object, " differs");
        }
        if (it != left.end()) {
            left.erase(it);
        }
    }
    for (const auto& [object, hash] : left) {
        tell(object, " is only in the replay");
    }
    return found > most ? text + " and " + std::to_string(found - most) + " more" : text;
}

}  // namespace pib::hca::record
