// SPDX-License-Identifier: GPL-2.0-or-later
#include "shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

namespace pib::link {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::unexpected<std::string> failed(const char* what) {
    return std::unexpected(std::string(what) + ": " + std::strerror(errno));
}

bool is_ring_size(size_t bytes) {
    return std::has_single_bit(bytes) && bytes >= size_t{1} << SharedMemory::kMinLogRing &&
           bytes <= size_t{1} << SharedMemory::kMaxLogRing;
}

}  // namespace

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      ring_(other.ring_),
      memfd_(std::exchange(other.memfd_, -1)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(ring_, other.ring_);
    std::swap(memfd_, other.memfd_);
    return *this;
}

SharedMemory::~SharedMemory() {
    if (base_ != nullptr) {
        ::munmap(base_, address_space());
    }
    if (memfd_ >= 0) {
        ::close(memfd_);
    }
}

RingView SharedMemory::ring(unsigned direction) const {
    return {.control = reinterpret_cast<RingControl*>(base_ + direction * kControlStride),
            .bytes = base_ + kControlBytes + direction * 2 * ring_,
            .size = static_cast<uint32_t>(ring_)};
}

// Maps each ring's bytes twice in a row. The address range is reserved first, so that no other
// thread's mapping can get in between.
std::expected<SharedMemory, std::string> SharedMemory::map_rings(int memfd, size_t ring) {
    SharedMemory memory;
    memory.ring_ = ring;
    void* base = ::mmap(nullptr, memory.address_space(), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        return failed("no room for a link's shared memory");
    }
    memory.base_ = static_cast<uint8_t*>(base);
    const auto place = [&](size_t at, size_t bytes, size_t offset) {
        return ::mmap(memory.base_ + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                      memfd, static_cast<off_t>(offset)) != MAP_FAILED;
    };
    bool placed = place(0, kControlBytes, 0);
    for (size_t half = 0; half < 4; ++half) {
        placed =
            placed && place(kControlBytes + half * ring, ring, kControlBytes + half / 2 * ring);
    }
    if (!placed) {
        return failed("cannot map a link's shared memory");
    }
    return memory;
}

std::expected<SharedMemory, std::string> SharedMemory::create(unsigned log_ring) {
    const size_t ring = size_t{1} << log_ring;
    const int memfd = ::memfd_create("pib-link", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memfd < 0) {
        return failed("memfd_create");
    }
    if (::ftruncate(memfd, static_cast<off_t>(kControlBytes + 2 * ring)) != 0 ||
        ::fcntl(memfd, F_ADD_SEALS, kSeals) != 0) {
        auto error = failed("cannot prepare a link's shared memory");
        ::close(memfd);
        return error;
    }
    auto memory = map_rings(memfd, ring);
    if (!memory) {
        ::close(memfd);
        return memory;
    }
    memory->memfd_ = memfd;
    return memory;
}

std::expected<SharedMemory, std::string> SharedMemory::map(int memfd) {
    const int seals = ::fcntl(memfd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
        return std::unexpected("the link's shared memory is not sealed");
    }
    struct stat info{};
    if (::fstat(memfd, &info) != 0) {
        return failed("fstat");
    }
    const auto bytes = static_cast<size_t>(info.st_size);
    if (bytes <= kControlBytes || !is_ring_size((bytes - kControlBytes) / 2) ||
        (bytes - kControlBytes) % 2 != 0) {
        return std::unexpected("the link's shared memory has an odd size");
    }
    return map_rings(memfd, (bytes - kControlBytes) / 2);
}

}  // namespace pib::link
