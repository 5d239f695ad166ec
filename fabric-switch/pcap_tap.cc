// SPDX-License-Identifier: GPL-2.0-or-later
// The pcap format, with times in nanoseconds, in host byte order, which the format permits.
#include "pcap_tap.h"

#include <cerrno>
#include <cstring>

#include "ib/link/packet_checksums.h"
#include "switch/erf_header.h"

namespace pib::fabric {
namespace {

struct FileHeader {
    uint32_t magic = 0xA1B23C4D;  // times are nanoseconds
    uint16_t major = 2;
    uint16_t minor = 4;
    uint32_t zone = 0;
    uint32_t precision = 0;
    uint32_t snap_length = 65535;
    uint32_t link_type;
};
static_assert(sizeof(FileHeader) == 24);

struct RecordHeader {
    uint32_t seconds;
    uint32_t nanoseconds;
    uint32_t captured_bytes;
    uint32_t packet_bytes;
};
static_assert(sizeof(RecordHeader) == 16);

constexpr uint32_t kLinkTypeInfiniBand = 247;

constexpr uint64_t kNsPerSecond = 1'000'000'000;

}  // namespace

PcapTap::PcapTap(std::FILE* file, int64_t wall_offset_ns, PcapFormat format)
    : file_(file), wall_offset_ns_(wall_offset_ns), format_(format) {
    const FileHeader header{.link_type =
                                format == PcapFormat::kErf ? kLinkTypeErf : kLinkTypeInfiniBand};
    write(&header, sizeof(header));
    flush();
}

std::expected<std::unique_ptr<PcapTap>, std::string> PcapTap::open(const std::string& path,
                                                                   int64_t wall_offset_ns,
                                                                   PcapFormat format) {
    std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "wbe");
    if (file == nullptr) {
        return std::unexpected("--pcap " + path + ": " + std::strerror(errno) +
                               ": name a file that can be written");
    }
    return std::unique_ptr<PcapTap>(new PcapTap(file, wall_offset_ns, format));
}

void PcapTap::write(const void* bytes, size_t size) {
    failed_ = failed_ || std::fwrite(bytes, 1, size, file_.get()) != size;
}

void PcapTap::flush() {
    failed_ = failed_ || std::fflush(file_.get()) != 0;
}

void PcapTap::packet_seen(std::span<const uint8_t> packet, const Arrival& arrival) {
    const size_t size = packet.size() + kCrcBytes;
    if (failed_ || size > packet_.size()) {
        return;
    }
    std::memcpy(packet_.data(), packet.data(), packet.size());
    link::append_crcs(std::span(packet_).first(size));
    const uint64_t wall = arrival.now_ns + static_cast<uint64_t>(wall_offset_ns_);
    const bool erf = format_ == PcapFormat::kErf;
    const auto record_bytes = static_cast<uint32_t>(size + (erf ? kErfBytes : 0));
    const RecordHeader record{static_cast<uint32_t>(wall / kNsPerSecond),
                              static_cast<uint32_t>(wall % kNsPerSecond), record_bytes,
                              record_bytes};
    write(&record, sizeof(record));
    if (erf) {
        write(erf_header({.wall_ns = wall, .bytes = size}, arrival).data(), kErfBytes);
    }
    write(packet_.data(), size);
}

}  // namespace pib::fabric
