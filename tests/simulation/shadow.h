// SPDX-License-Identifier: GPL-2.0-or-later
// The model of a region's bytes: their present values, and the writes of work requests that have
// been posted and may have been executed in part.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "guest_memory.h"

namespace pib::simulation {

using Bytes = std::vector<uint8_t>;

// Memory that a check compares.
enum class Extent {
    kWritten,  // pages that the guest has written, or that the device has reported as written
    kAll,
};

class Shadow {
  public:
    Shadow(const hca::test::GuestMemory& memory, std::string name);

    // A store of the guest's own processor.
    void store(uint64_t offset, std::span<const uint8_t> data);
    // From now on the device may write `data`; returns the write's id. `whole`: all bytes at once,
    // as an atomic does.
    uint64_t expect(uint64_t offset, Bytes data, bool whole = false);
    // Adds a write that must not happen; returns its id.
    uint64_t forbid(uint64_t offset, Bytes data);
    // Ends an executed write; checks that its bytes, or those of later writes, are there.
    void finish(uint64_t id);
    // Bytes once all expected writes have been executed.
    Bytes after_all(uint64_t offset, size_t length) const;
    // Checks that each byte has its value, or one that an expected write gives it.
    void check(Extent extent);
    // The key has been destroyed: from now on the expected writes must not change anything.
    void seal();
    // Ends all writes, whose work requests will not complete.
    void adopt();

  private:
    struct Write {
        uint64_t id;
        uint64_t offset;
        Bytes data;
        bool whole;
        bool sealed;
        bool complete;  // all bytes were there when it was sealed

        uint64_t end() const { return offset + data.size(); }
        bool covers(uint64_t at) const { return !sealed && at >= offset && at < end(); }
    };
    bool is_as_expected(size_t page) const;
    void check_page(size_t page) const;
    bool may_be(uint8_t actual, uint64_t at) const;
    bool is_there(size_t index) const;
    void adopt_pages();
    void check_report(const Write& write);
    [[noreturn]] void fail(const std::string& what, uint64_t at) const;
    [[noreturn]] void fail_unreported(size_t page) const;
    // Calls visit(offset, bytes of the memory) for the part of the range in each page.
    template <typename Visit>
    [[nodiscard]] bool all_parts(uint64_t offset, size_t length, Visit&& visit) const;
    void change(uint64_t offset, std::span<const uint8_t> data);

    hca::test::GuestMemory memory_;
    const std::string name_;
    Bytes expected_;             // whole pages
    Bytes differs_;              // whether a page may differ from `expected_`
    std::vector<Write> writes_;  // in the order of their execution
    uint64_t next_id_ = 1;
};

}  // namespace pib::simulation
