// SPDX-License-Identifier: GPL-2.0-or-later
// Buffers of guest memory while the memory map changes between and within accesses. The model is
// the map itself: an access succeeds if all of its pages are mapped, and then moves their bytes.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "fake_host.h"
#include "fuzz_target.h"
#include "memory/guest_buffer.h"

namespace pib::fuzz {
namespace {

using namespace hca;

constexpr uint64_t kPage = 4096;
constexpr unsigned kPages = 64;  // pages that a guest may map
constexpr unsigned kBuffers = 4;
constexpr unsigned kMaxSteps = 200;
// The last four page numbers stand for the last four pages of the bus.
constexpr uint64_t kHigh = uint64_t{0} - 4 * kPage;

uint64_t page_address(unsigned index) {
    return index % kPages < kPages - 4 ? (index % kPages) * kPage
                                       : kHigh + (index % kPages - (kPages - 4)) * kPage;
}

// RAM in heap blocks of exact size, so that the sanitizer finds stale pointers.
class ChangingHost final : public test::FakeHost {
  public:
    struct Piece {
        uint64_t base;
        std::vector<uint8_t> bytes;
        bool read_only;
        bool has_pointer;
    };

    void map(unsigned first, unsigned count, uint8_t kind) {
        const uint64_t base = page_address(first);
        const uint64_t bytes = std::min<uint64_t>(count * kPage, uint64_t{0} - base - 1);
        unmap(first, count);
        pieces_.push_back(
            std::make_unique<Piece>(Piece{base, std::vector<uint8_t>(bytes / kPage * kPage, kind),
                                          (kind & 1) != 0, (kind & 2) == 0}));
        ram_changed();
    }
    // Unmaps pages. Within an access the memory is freed after the access, as in QEMU.
    void unmap(unsigned first, unsigned count) {
        const uint64_t base = page_address(first);
        for (auto& piece : pieces_) {
            if (piece->base < base + count * kPage && base < piece->base + piece->bytes.size()) {
                gone_.push_back(std::move(piece));
            }
        }
        std::erase(pieces_, nullptr);
        ram_changed();
    }
    void forget() { gone_.clear(); }
    // A change of the map after `after` further accesses.
    struct Surprise {
        unsigned after;
        unsigned first;
        bool maps;
    };
    std::optional<Surprise> surprise;

    [[nodiscard]] Piece* piece(uint64_t addr, uint64_t length) const {
        for (const auto& piece : pieces_) {
            if (addr - piece->base < piece->bytes.size() &&
                length <= piece->bytes.size() - (addr - piece->base)) {
                return piece.get();
            }
        }
        return nullptr;
    }

    // ---- Host
    uint8_t* ram(uint64_t addr, uint64_t length) override {
        Piece* found = length == 0 ? nullptr : piece(addr, length);
        return found != nullptr && found->has_pointer && !found->read_only
                   ? &found->bytes[addr - found->base]
                   : nullptr;
    }
    void ram_written(uint64_t addr, uint64_t length) override {
        require(ram(addr, length) != nullptr || !gone_.empty(), "written where there is RAM");
    }
    bool dma_read(uint64_t addr, std::span<uint8_t> to) override {
        change();
        return each(addr, to.size(), false, [&](size_t at, uint8_t& byte) { to[at] = byte; });
    }
    bool dma_write(uint64_t addr, std::span<const uint8_t> from) override {
        change();
        return each(addr, from.size(), true, [&](size_t at, uint8_t& byte) { byte = from[at]; });
    }
    bool dma_cmpxchg64(uint64_t addr, uint64_t& expected, uint64_t desired) override {
        require(addr % 8 == 0, "an exchange is aligned");
        change();
        uint64_t old = 0;
        auto* bytes = reinterpret_cast<uint8_t*>(&old);
        if (!each(addr, 8, true, [&](size_t at, uint8_t& byte) { bytes[at] = byte; })) {
            return false;
        }
        if (old == expected) {
            bytes = reinterpret_cast<uint8_t*>(&desired);
            each(addr, 8, true, [&](size_t at, uint8_t& byte) { byte = bytes[at]; });
        }
        expected = old;
        return true;
    }

  private:
    template <typename Byte>
    bool each(uint64_t addr, size_t length, bool write, Byte&& byte) {
        for (size_t at = 0; at < length; ++at) {
            Piece* found = piece(addr + at, 1);
            if (found == nullptr || (write && found->read_only)) {
                return false;
            }
            byte(at, found->bytes[addr + at - found->base]);
        }
        return true;
    }
    void change() {
        if (!surprise || surprise->after-- != 0) {
            return;
        }
        const Surprise now = *surprise;
        surprise.reset();
        now.maps ? map(now.first, 4, 0) : unmap(now.first, 4);
    }

    std::vector<std::unique_ptr<Piece>> pieces_;
    std::vector<std::unique_ptr<Piece>> gone_;
};

class Life {
  public:
    explicit Life(std::span<const uint8_t> bytes) : in_(bytes) {}

    void run() {
        for (unsigned step = 0; step < kMaxSteps && !in_.empty(); ++step) {
            take(in_.byte());
            host_.forget();
        }
    }

  private:
    struct Loaded {
        GuestBuffer buffer;
        std::vector<uint64_t> pages;
    };

    void take(uint8_t what) {
        switch (what % 6) {
            case 0:
                change(in_.byte());
                break;
            case 1:
                host_.surprise =
                    ChangingHost::Surprise{in_.byte() % 8u, in_.byte(), (what & 8) != 0};
                break;
            case 2:
                load(in_.byte());
                break;
            case 3:
                read(buffers_[in_.byte() % kBuffers]);
                break;
            case 4:
                write(buffers_[in_.byte() % kBuffers]);
                break;
            default:
                pieces(buffers_[in_.byte() % kBuffers]);
                break;
        }
    }
    void change(uint8_t first) {
        const uint8_t how = in_.byte();
        how % 3 == 0 ? host_.unmap(first, 1 + how / 16u)
                     : host_.map(first, 1 + how / 16u, how >> 2);
    }
    // Loads a buffer whose page list is in guest memory that may be unmapped, too.
    void load(uint8_t which) {
        const uint8_t shape = in_.byte();
        const unsigned levels = shape % 4;
        std::vector<uint64_t> listed;
        for (unsigned i = 0, count = 1 + shape / 16u; i < count; ++i) {
            listed.push_back(page_address(in_.byte()));
        }
        const uint64_t root = levels == 0 ? listed.front() : tables(listed, levels);
        const PageList pages{.root = root,
                             .page_count = static_cast<uint32_t>(listed.size()) + (shape >> 3 & 1),
                             .levels = static_cast<uint8_t>(levels),
                             .log_page_size = static_cast<uint8_t>(12 + (shape >> 2 & 1))};
        const uint64_t bytes = in_.byte() * uint64_t{256};
        auto loaded = GuestBuffer::load(host_, pages, bytes, 20,
                                        static_cast<GuestBuffer::Proof>(in_.byte() % 3));
        Loaded& place = buffers_[which % kBuffers];
        place = {};
        if (!loaded) {
            return;
        }
        require(loaded->bytes() >= bytes, "a buffer holds what was asked for");
        place.buffer = std::move(*loaded);
        remember(place, listed, levels, pages.log_page_size);
    }
    // Writes a table into a page, which is mapped if necessary, and on each level above one entry
    // that leads to the table. Returns the root.
    uint64_t tables(const std::vector<uint64_t>& listed, unsigned levels) {
        unsigned at = in_.byte();
        uint64_t below = 0;
        for (unsigned level = 0; level < levels; ++level, ++at) {
            if (host_.piece(page_address(at), kPage) == nullptr) {
                host_.map(at, 1, 0);
            }
            if (ChangingHost::Piece* piece = host_.piece(page_address(at), kPage)) {
                uint8_t* to = &piece->bytes[page_address(at) - piece->base];
                const auto* from = level == 0 ? listed.data() : &below;
                std::memcpy(to, from, level == 0 ? listed.size() * 8 : 8);
            }
            below = page_address(at);
        }
        return below;
    }
    // Keeps the buffer's pages for the model, if the map did not change while they were read.
    void remember(Loaded& place, const std::vector<uint64_t>& listed, unsigned levels,
                  uint8_t log_page_size) {
        place.pages.clear();
        if (log_page_size != 12 || place.buffer.page_count() > listed.size()) {
            return;
        }
        for (uint32_t i = 0; i < place.buffer.page_count(); ++i) {
            place.pages.push_back(levels == 0 ? listed.front() + i * kPage : listed[i]);
        }
        uint64_t bus = 0;
        for (uint32_t i = 0; i < place.buffer.page_count(); ++i) {
            if (!place.buffer.bus_address(i * kPage, bus) || bus != place.pages[i]) {
                place.pages.clear();  // a table has been overwritten by another one
                return;
            }
        }
    }

    struct Range {
        uint64_t offset;
        size_t length;
    };
    Range range() {
        const uint64_t offset = in_.byte() * uint64_t{128} + in_.byte() % 16;
        const uint8_t length = in_.byte();
        return {offset, length < 0xf0 ? length : (length - 0xefu) * 1024u};
    }
    // The byte at an offset of a buffer; nullptr: the memory map has none there.
    uint8_t* byte_of(const Loaded& of, uint64_t offset, bool write) {
        const uint64_t addr = of.pages[offset / kPage] + offset % kPage;
        ChangingHost::Piece* piece = host_.piece(addr, 1);
        return piece == nullptr || (write && piece->read_only) ? nullptr
                                                               : &piece->bytes[addr - piece->base];
    }
    bool is_known(const Loaded& of, const Range& range) const {
        return !host_.surprise && !of.pages.empty() &&
               range.offset + range.length <= of.pages.size() * kPage;
    }
    bool is_there(const Loaded& of, const Range& range, bool write) {
        for (size_t i = 0; i < range.length; ++i) {
            if (byte_of(of, range.offset + i, write) == nullptr) {
                return false;
            }
        }
        return true;
    }
    void read(const Loaded& of) {
        const Range at = range();
        Bytes to(at.length);
        const bool known = is_known(of, at);
        const bool there = known && is_there(of, at, false);
        const bool done = of.buffer.read(host_, at.offset, to);
        require(!known || done == there, "a read succeeds if all of it is memory");
        for (size_t i = 0; known && done && i < at.length; ++i) {
            require(to[i] == *byte_of(of, at.offset + i, false), "a read has the memory's bytes");
        }
    }
    void write(const Loaded& of) {
        const Range at = range();
        const Bytes from(at.length, static_cast<uint8_t>(at.length));
        const bool known = is_known(of, at);
        const bool there = known && is_there(of, at, true);
        const bool done = of.buffer.write(host_, at.offset, from);
        require(!known || done == there, "a write succeeds if all of it is writable");
        for (size_t i = 0; known && done && i < at.length; ++i) {
            require(*byte_of(of, at.offset + i, false) == from[i], "memory has what was written");
        }
    }
    void pieces(const Loaded& of) {
        const Range at = range();
        uint64_t length = 0;
        const bool done = of.buffer.for_each_piece(
            host_, at.offset, at.length, [&](const uint8_t* ram, uint64_t, uint64_t bytes) {
                length += bytes;
                uint8_t sum = 0;
                for (uint64_t i = 0; ram != nullptr && i < bytes; ++i) {
                    sum = static_cast<uint8_t>(sum + ram[i]);
                }
                sink_ = sum;
                return true;
            });
        require(!done || length == at.length, "pieces are the whole range");
    }

    Input in_;
    ChangingHost host_;
    std::array<Loaded, kBuffers> buffers_;
    volatile uint8_t sink_ = 0;
};

}  // namespace

std::vector<Bytes> seeds() {
    const Bytes mapped = {0, 0, 0xf1, 0, 16, 0xf1};
    const auto life = [&](std::initializer_list<Bytes> steps) {
        Bytes all = mapped;
        for (const Bytes& step : steps) {
            std::ranges::copy(step, std::back_inserter(all));
        }
        return all;
    };
    const Bytes contiguous = {2, 0, 0x10, 2, 3, 8, 2};
    const Bytes listed = {2, 1, 0x31, 4, 9, 6, 7, 40, 8, 1};
    const Bytes nested = {2, 2, 0x22, 4, 9, 6, 44, 8, 2};
    return {life({contiguous, {3, 0, 1, 2, 40}, {4, 0, 30, 0, 0xf4}, {5, 0, 0, 0, 0xf8}}),
            life({listed,
                  {4, 1, 31, 5, 0xf3},
                  {0, 4, 0},
                  {3, 1, 0, 0, 9},
                  {0, 4, 0x11},
                  {3, 1, 0, 0, 9}}),
            life({nested, {1, 1, 4}, {3, 2, 0, 0, 0xf9}, {5, 2, 1, 1, 0xf2}}),
            life({{9, 1, 60}, {2, 3, 0x31, 63, 62, 0, 61, 3, 8, 0}, {4, 3, 0, 3, 0xff}})};
}

void run(std::span<const uint8_t> input) {
    Life(input).run();
}

}  // namespace pib::fuzz
