// SPDX-License-Identifier: GPL-2.0-or-later
// Coverage of the driver: which registers, commands, field values, WQEs, CQEs and events the driver
// has used since power-on. Entries have the numbers of the register interface;
// lab/develop/driver_coverage.py adds the names. The coverage has at most one entry for each known
// command and rule. Resets do not clear it.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/rule.h"

namespace pib::hca {

class JsonWriter;

class DriverCoverage {
  public:
    // Accesses to registers, or to doorbells by their offset in the UAR page.
    void loaded(bool doorbell, uint64_t offset) { ++place(doorbell, offset).loads; }
    void stored(bool doorbell, uint64_t offset, uint64_t value) {
        Place& at = place(doorbell, offset);
        ++at.stores;
        at.bits |= value;
    }
    void command(uint16_t opcode, uint8_t status);
    // The input of a command that was not refused.
    void input(uint16_t opcode, std::span<const uint8_t> bytes);
    // Operation and flags of a send WQE: its first two bytes.
    void send_wqe(uint8_t operation, uint8_t flags) {
        ++send_wqes_[operation % kOperations][flags % kFlags];
    }
    void recv_wqe() { ++recv_wqes_; }
    void cqe(uint8_t opcode, uint8_t status, uint8_t flags) {
        ++cqes_[(opcode & 0x80) >> 3 | opcode % kOperations][status % kStatuses];
        cqe_flags_ |= flags;
    }
    // `data`: for an event of a port, the bits of its changes.
    void event(uint8_t type, uint8_t port, uint32_t data) {
        ++events_[type % kOperations];
        port_events_ |= port != 0 ? data : 0;
    }
    void stopped(uint32_t cause) { ++causes_[cause % kOperations]; }
    void broken(Rule rule) { ++rules_[rule]; }

    std::string json() const;

  private:
    static constexpr size_t kPlaces = 32;  // 4 bytes each, from the start of BAR0 or a UAR page
    static constexpr size_t kOperations = 16;
    static constexpr size_t kFlags = 16;
    static constexpr size_t kStatuses = 32;

    struct Place {
        uint64_t loads = 0;
        uint64_t stores = 0;
        uint64_t bits = 0;  // all bits that were stored
    };
    struct Range {
        uint32_t least = UINT32_MAX;
        uint32_t most = 0;
    };
    struct Command {
        std::array<uint64_t, kOperations> statuses{};
        std::vector<std::bitset<256>> values;  // the values that each byte of the input has had
        std::vector<Range> halves;             // the range of each le16 in the input
        std::vector<Range> words;              // the range of each le32 in the input
    };

    Place& place(bool doorbell, uint64_t offset) {
        return (doorbell ? doorbells_ : registers_)[offset / 4 % kPlaces];
    }
    static void write(JsonWriter& out, const std::array<Place, kPlaces>& places);
    static void write(JsonWriter& out, uint16_t opcode, const Command& command);

    std::array<Place, kPlaces> registers_{};
    std::array<Place, kPlaces> doorbells_{};
    std::map<uint16_t, Command> commands_;
    std::array<std::array<uint64_t, kFlags>, kOperations> send_wqes_{};
    uint64_t recv_wqes_ = 0;
    std::array<std::array<uint64_t, kStatuses>, 2 * kOperations> cqes_{};
    uint8_t cqe_flags_ = 0;
    std::array<uint64_t, kOperations> events_{};
    uint32_t port_events_ = 0;
    std::array<uint64_t, kOperations> causes_{};
    std::map<Rule, uint64_t> rules_;
};

}  // namespace pib::hca
