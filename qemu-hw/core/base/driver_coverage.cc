// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/driver_coverage.h"

#include <algorithm>

#include "base/json.h"
#include "base/rule_number.h"

namespace pib::hca {

namespace {

uint32_t little_endian(std::span<const uint8_t> bytes) {
    uint32_t value = 0;
    for (size_t i = bytes.size(); i-- > 0;) {
        value = value << 8 | bytes[i];
    }
    return value;
}

template <typename Ranges>
void widen(Ranges& ranges, std::span<const uint8_t> bytes, size_t width) {
    ranges.resize(bytes.size() / width);
    for (size_t i = 0; i < ranges.size(); ++i) {
        const uint32_t value = little_endian(bytes.subspan(i * width, width));
        ranges[i].least = std::min(ranges[i].least, value);
        ranges[i].most = std::max(ranges[i].most, value);
    }
}

template <typename Ranges>
void write_ranges(JsonWriter& out, const char* key, const Ranges& ranges) {
    out.begin_array(key);
    for (const auto& range : ranges) {
        out.begin_array();
        out.member("", range.least);
        out.member("", range.most);
        out.end_array();
    }
    out.end_array();
}

template <typename Counts>
void write_counts(JsonWriter& out, const char* key, const Counts& counts) {
    out.begin_array(key);
    for (const uint64_t count : counts) {
        out.member("", count);
    }
    out.end_array();
}

template <typename Rows>
void write_rows(JsonWriter& out, const char* key, const Rows& rows) {
    out.begin_array(key);
    for (const auto& row : rows) {
        write_counts(out, "", row);
    }
    out.end_array();
}

}  // namespace

// The command queue calls this for known opcodes only, so that a guest cannot make the map grow.
void DriverCoverage::command(uint16_t opcode, uint8_t status) {
    ++commands_[opcode].statuses[status % kOperations];
}

void DriverCoverage::input(uint16_t opcode, std::span<const uint8_t> bytes) {
    Command& command = commands_[opcode];
    command.values.resize(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
        command.values[i].set(bytes[i]);
    }
    widen(command.halves, bytes, 2);
    widen(command.words, bytes, 4);
}

void DriverCoverage::write(JsonWriter& out, const std::array<Place, kPlaces>& places) {
    for (size_t i = 0; i < places.size(); ++i) {
        const Place& place = places[i];
        if (place.loads == 0 && place.stores == 0) {
            continue;
        }
        out.begin_object();
        out.member("offset", i * 4);
        out.member("loads", place.loads);
        out.member("stores", place.stores);
        out.hex("bits", place.bits);
        out.end_object();
    }
}

void DriverCoverage::write(JsonWriter& out, uint16_t opcode, const Command& command) {
    out.begin_object();
    out.member("opcode", opcode);
    write_counts(out, "statuses", command.statuses);
    out.begin_array("values");
    for (const std::bitset<256>& seen : command.values) {
        std::vector<uint8_t> values;
        for (unsigned value = 0; value < seen.size(); ++value) {
            if (seen[value]) {
                values.push_back(static_cast<uint8_t>(value));
            }
        }
        out.hex("", values);
    }
    out.end_array();
    write_ranges(out, "halves", command.halves);
    write_ranges(out, "words", command.words);
    out.end_object();
}

std::string DriverCoverage::json() const {
    JsonWriter out;
    out.begin_object();
    out.begin_array("registers");
    write(out, registers_);
    out.end_array();
    out.begin_array("doorbells");
    write(out, doorbells_);
    out.end_array();
    out.begin_array("commands");
    for (const auto& [opcode, command] : commands_) {
        write(out, opcode, command);
    }
    out.end_array();
    write_rows(out, "send_wqes", send_wqes_);
    out.member("recv_wqes", recv_wqes_);
    write_rows(out, "cqes", cqes_);
    out.member("cqe_flags", cqe_flags_);
    write_counts(out, "events", events_);
    out.member("port_events", port_events_);
    write_counts(out, "causes", causes_);
    out.begin_object("rules");
    for (const auto& [rule, count] : rules_) {
        out.member(dotted_number(rule), count);
    }
    out.end_object();
    out.end_object();
    return out.text();
}

}  // namespace pib::hca
