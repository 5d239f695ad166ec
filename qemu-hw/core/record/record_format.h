// SPDX-License-Identifier: GPL-2.0-or-later
// The format of a recording (docs/replay.md): magic and version, then blocks. The content of the
// blocks, one after the other, is a header, the text of the configuration, and events. A block has
// a checksum, so that a reader notices damage before it uses the content. An event is a tag of one
// byte and its fields ("-": no fields); it may continue in the next block. Numbers are LEB128;
// bytes have their length before them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace pib::hca::record {

// The magic has bytes that a transfer as text would change, so that a reader notices the damage.
inline constexpr std::array<uint8_t, 8> kMagic = {'P', 'I', 'B', 'R', 'E', 'C', 0x1a, '\n'};
// After the magic: version of the format, 4 bytes, little-endian.
inline constexpr uint32_t kVersion = 2;
// Stands before the content of a block; little-endian.
struct BlockHeader {
    uint32_t bytes;  // length of the content, 1 to kMostBlockBytes
    uint32_t crc;    // CRC-32 of the content of all blocks up to the end of this one
};
inline constexpr size_t kMostBlockBytes = size_t{256} * 1024;
// At the start of the content: major and minor version of the register interface, and length of
// the configuration's text, 4 bytes each, little-endian.
inline constexpr uint32_t kMostConfigBytes = 4096;

enum class Tag : uint8_t {
    // Entries: calls of the device. Fields: nanoseconds since the last time in the recording; low
    // 32 bits of the OutputCheck before this entry, 4 bytes, little-endian; the fields named here.
    kMmioRead = 1,   // BAR, offset, size
    kMmioWrite,      // BAR, offset, value, size
    kReset,          // 1 for a cold reset, else 0
    kDmaEnded,       // - (the PCI function has left D0)
    kKick,           // UAR
    kRun,            // -
    kTimer,          // -
    kLinkConnected,  // port, 1 if the host can map shared memory, else 0
    kLinkReceived,   // port, number of bytes, then pieces with that many bytes in all: recorded
                     // bytes, and the number of bytes after them that are not recorded
    kLinkWritable,   // port
    kLinkClosed,     // port
    kLinkShared,     // port, size of the ring out, size of the ring in
    kLinkPoll,       // port
    kStopCopying,    // - (the device's reach of memory may change)
    kBusMasterOff,   // -
    // Answers of the host, in the order in which the device calls the host.
    kRead = 32,     // bytes
    kReadPayload,   // number of bytes, which are not recorded
    kReadFailed,    // number of bytes
    kWritten,       // -
    kWriteFailed,   // -
    kSwapped,       // former value
    kSwapFailed,    // -
    kClock,         // nanoseconds since the last time in the recording
    kRealClock,     // nanoseconds
    kVector,        // VectorState
    kLinkTaken,     // number of bytes
    kRingPosition,  // position or event index
    kRingBytes,     // bytes
    kRingPayload,   // bytes
    // An event between entries.
    kMark = 64,  // number of objects; for each: kind (1 byte), number, hash (8 bytes)
};

inline constexpr Tag kFirstAnswer = Tag::kRead;
inline constexpr Tag kLastEntry = Tag::kBusMasterOff;
inline constexpr Tag kLastAnswer = Tag::kRingPayload;

// The name of a tag for reports: "store", "a DMA read" and so on.
std::string_view name_of(Tag tag);

// Number of fields of an entry after time and check, without the pieces of kLinkReceived.
unsigned fields_of(Tag entry);

// Accesses to payload and frames up to this length in bytes are recorded in full. Without
// Options::payload, longer accesses are recorded without content, and longer frames without their
// payload: the device copies these bytes and does not read them. A MAD with all headers is shorter.
inline constexpr size_t kWholePayload = 512;

}  // namespace pib::hca::record
