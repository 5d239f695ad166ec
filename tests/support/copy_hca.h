// SPDX-License-Identifier: GPL-2.0-or-later
// A channel adapter that shares its memory with the switch in memfds, as QEMU does.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "burst_message.h"
#include "links/adapter_mapping.h"
#include "ring_hca.h"

namespace pib::test {

inline constexpr uint32_t kCopyFeatures =
    link::kFeatureSharedMemory | link::kFeatureBursts | link::kFeaturePeerCopy;

// A memfd and its mapping.
class TestMemory {
  public:
    explicit TestMemory(size_t bytes, int seals = F_SEAL_SHRINK)
        : fd(::memfd_create("pib-test", MFD_CLOEXEC | MFD_ALLOW_SEALING)), size(bytes) {
        if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
            throw std::runtime_error("memfd");
        }
        void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
        if (base == MAP_FAILED || ::fcntl(fd.get(), F_ADD_SEALS, seals) != 0) {
            throw std::runtime_error("memory of a test");
        }
        bytes_ = static_cast<uint8_t*>(base);
    }
    TestMemory(const TestMemory&) = delete;
    TestMemory& operator=(const TestMemory&) = delete;
    ~TestMemory() { ::munmap(bytes_, size); }
    [[nodiscard]] uint8_t* data() const { return bytes_; }
    [[nodiscard]] std::span<uint8_t> all() const { return {bytes_, size}; }

    fabric::UniqueFd fd;
    const size_t size;

  private:
    uint8_t* bytes_ = nullptr;
};

// The memory that a MEMORY frame shares: a RAM block and the control memory. `said` is the size of
// the block in the frame, in bytes.
struct ShownMemory {
    static constexpr size_t kBytes = 4 << 20;

    explicit ShownMemory(int seals = F_SEAL_SHRINK, uint64_t said = kBytes)
        : blocks{said}, ram(kBytes, seals), control_memory(link::peer_copy_bytes(blocks)) {}
    [[nodiscard]] link::PeerCopyControl& control() const {
        return *reinterpret_cast<link::PeerCopyControl*>(control_memory.data());
    }
    void set_registered(uint64_t page, bool is) const {
        auto* words = reinterpret_cast<uint64_t*>(control_memory.data() + link::kBitmapsOffset);
        const uint64_t bit = uint64_t{1} << page % 64;
        words[page / 64] = is ? words[page / 64] | bit : words[page / 64] & ~bit;
    }
    void register_all() const {
        for (uint64_t page = 0; page < kBytes / link::kPageBytes; ++page) {
            set_registered(page, true);
        }
    }

    std::vector<uint64_t> blocks;
    TestMemory ram, control_memory;
};

class CopyHca final : public RingHca {
  public:
    CopyHca(fabric::Admission& fabric, unsigned index, uint32_t features = kCopyFeatures,
            int seals = F_SEAL_SHRINK, uint64_t said = ShownMemory::kBytes)
        : RingHca(fabric, index, features), shown(seals, said) {
        shown.register_all();
    }

    void share() { own_end().peer_copy().share(shown.control_memory.data(), shown.blocks); }
    // Sends packets as an offer, which is valid until its slot is cleared.
    bool offer(std::span<const link::BlockSegment> segments, uint32_t packets, const Way& way) {
        ++last_handle;
        slot(last_handle) = last_handle;
        return send_offer(own_end(), last_handle, segments, packets, way);
    }
    [[nodiscard]] std::atomic<uint64_t>& slot(uint64_t handle) const {
        return shown.control().slots[handle % link::kOfferSlots];
    }
    bool carry() override {
        const bool moved = RingHca::carry();
        const bool asked = own_end().peer_copy().is_pulling();
        for (unsigned i = 0; copied && sw_link && i < 32; ++i) {
            sw_link->copy(kChunk);
        }
        return (asked && !own_end().peer_copy().is_pulling()) || moved;
    }
    static constexpr uint64_t kChunk = 64 * 1024;

    ShownMemory shown;
    bool copied = true;  // carry() runs the switch's copies; false: the test does
    uint64_t last_handle = 0;
    std::vector<link::BlockSegment> place;  // destination of offers' payload
    unsigned placed = 0, refused = 0, wakes = 0;

  private:
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override {
        if (payload.is_here()) {
            return RingHca::link_burst(burst, payload);
        }
        if (payload.is_offered()) {
            payload.where = place;
            return place.empty() ? 0 : burst.count();
        }
        ++placed;
        own_end().release(burst.lrh().vl.value(), link::burst_blocks(burst));
        return burst.count();
    }
    void link_copy_refused() override { ++refused; }
    std::expected<std::shared_ptr<const fabric::AdapterMemory>, std::string> link_map(
        const link::Memory& memory) override {
        std::vector<fabric::UniqueFd> fds;
        fds.emplace_back(::dup(shown.control_memory.fd.get()));
        fds.emplace_back(::dup(shown.ram.fd.get()));
        auto mapped = fabric::map_adapter_memory(fds, memory.blocks);
        if (!mapped) {
            notes.push_back(mapped.error());
            return nullptr;
        }
        return *mapped;
    }
    void link_wake() override { ++wakes; }
};

}  // namespace pib::test
