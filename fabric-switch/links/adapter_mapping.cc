// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/adapter_mapping.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace pib::fabric {
namespace {

// A sparse file costs its owner nothing, but its mapping takes address space, without which the
// switch cannot work. One adapter may map 8 TiB, all adapters together 32 TiB, a quarter of the
// address space.
constexpr uint64_t kMaxAdapterBytes = uint64_t{1} << 43;
constexpr uint64_t kMaxMappedBytes = uint64_t{1} << 45;

constexpr const char* kWrongSize =
    "its memory does not have the announced size: use device and switch of one release";

// Bytes mapped for all adapters. Only the thread of the event loop maps and unmaps.
uint64_t mapped_bytes = 0;

// All mappings of one adapter; the destructor unmaps them.
class Mappings {
  public:
    Mappings() = default;
    Mappings(const Mappings&) = delete;
    Mappings& operator=(const Mappings&) = delete;
    ~Mappings() {
        for (const auto& mapping : all_) {
            ::munmap(mapping.data(), mapping.size());
            mapped_bytes -= mapping.size();
        }
    }
    [[nodiscard]] std::expected<std::span<uint8_t>, std::string> add(int fd, uint64_t bytes) {
        if (bytes > kMaxMappedBytes - mapped_bytes) {
            return std::unexpected(
                "all guests together have more than 32 TiB of memory: give them less");
        }
        all_.reserve(all_.size() + 1);  // so that emplace_back() does not throw
        void* base =
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (base == MAP_FAILED) {
            return std::unexpected(std::string("its memory cannot be mapped: ") +
                                   std::strerror(errno) + ": raise the switch's ulimit -v");
        }
        mapped_bytes += bytes;
        all_.emplace_back(static_cast<uint8_t*>(base), bytes);
        return all_.back();
    }

  private:
    std::vector<std::span<uint8_t>> all_;
};

// Checks that the file has at least, or exactly, `bytes` bytes and cannot shrink: a read past its
// end would raise SIGBUS.
std::expected<void, std::string> check(int fd, uint64_t bytes, bool exactly) {
    const int seals = ::fcntl(fd, F_GET_SEALS);
    struct statfs system{};
    struct stat info{};
    if (seals < 0 || ::fstatfs(fd, &system) != 0 || ::fstat(fd, &info) != 0) {
        return std::unexpected("its memory is not a memfd (-object memory-backend-memfd,share=on)");
    }
    if ((seals & F_SEAL_SHRINK) == 0) {
        return std::unexpected("its memory could shrink: it needs a memfd with seals (seal=on)");
    }
    if (system.f_type != TMPFS_MAGIC) {
        return std::unexpected("its memory consists of huge pages (hugetlb=off is needed)");
    }
    const auto size = static_cast<uint64_t>(info.st_size);
    if (size < bytes || (exactly && size != bytes)) {
        return std::unexpected(kWrongSize);
    }
    return {};
}

std::expected<std::vector<std::span<uint8_t>>, std::string> map_blocks(
    Mappings& mappings, std::span<const UniqueFd> descriptors, std::span<const uint64_t> blocks) {
    std::vector<std::span<uint8_t>> mapped;
    for (size_t i = 0; i < blocks.size(); ++i) {
        if (const auto checked = check(descriptors[i].get(), blocks[i], false); !checked) {
            return std::unexpected(checked.error());
        }
        const auto block = mappings.add(descriptors[i].get(), blocks[i]);
        if (!block) {
            return std::unexpected(block.error());
        }
        mapped.push_back(*block);
    }
    return mapped;
}

// Whether the blocks together exceed kMaxAdapterBytes. Subtracts, because a sum could overflow.
bool too_large(std::span<const uint64_t> blocks) {
    uint64_t left = kMaxAdapterBytes;
    return !std::ranges::all_of(blocks, [&left](uint64_t bytes) {
        const bool fits = bytes <= left;
        left -= fits ? bytes : 0;
        return fits;
    });
}

}  // namespace

std::expected<std::shared_ptr<const AdapterMemory>, std::string> map_adapter_memory(
    std::span<const UniqueFd> descriptors, std::span<const uint64_t> blocks) {
    if (descriptors.size() != blocks.size() + 1) {
        return std::unexpected(kWrongSize);
    }
    if (too_large(blocks)) {
        return std::unexpected("its memory is more than 8 TiB: give the guest less");
    }
    const uint64_t control_bytes = link::peer_copy_bytes(blocks);
    if (const auto checked = check(descriptors[0].get(), control_bytes, true); !checked) {
        return std::unexpected(checked.error());
    }
    const auto mappings = std::make_shared<Mappings>();
    const auto control = mappings->add(descriptors[0].get(), control_bytes);
    if (!control) {
        return std::unexpected(control.error());
    }
    auto mapped = map_blocks(*mappings, descriptors.subspan(1), blocks);
    if (!mapped) {
        reinterpret_cast<link::PeerCopyControl*>(control->data())
            ->mapped.store(link::kNotMapped, std::memory_order_release);
        return std::unexpected(mapped.error());
    }
    return std::make_shared<const AdapterMemory>(control->data(), std::move(*mapped), mappings);
}

}  // namespace pib::fabric
