// SPDX-License-Identifier: GPL-2.0-or-later
#include "device_config.h"

#include <cstdint>
#include <set>

#include "base/trace.h"

namespace pib::hca {

namespace {

// Defined bits of PortInfo's supported widths and speeds.
constexpr uint8_t kAllWidths = 0x1f;     // 1x, 4x, 8x, 12x, 2x
constexpr uint8_t kAllSpeeds = 0x07;     // SDR, DDR, QDR
constexpr uint8_t kAllSpeedsExt = 0x0f;  // FDR, EDR, HDR, NDR
constexpr size_t kMaxDescription = 63;

bool guids_are_distinct(const Config& config) {
    std::set<uint64_t> guids{0, config.node_guid};
    for (uint32_t i = 0; i < config.port_count; ++i) {
        guids.insert(config.port_guids[i]);
    }
    return guids.size() == 2 + config.port_count;
}

}  // namespace

std::string config_fault(const Config& config) {
    const struct {
        bool fine;
        const char* complaint;
    } rules[] = {
        {config.port_count >= 1 && config.port_count <= kMaxPorts,
         "the number of ports must be 1 to 4"},
        {config.vector_count >= 1 && config.vector_count <= kMaxVectors,
         "the number of vectors must be 1 to 64"},
        {config.node_description.size() <= kMaxDescription,
         "the node description must be at most 63 bytes long"},
        {config.link_width != 0 && (config.link_width & ~kAllWidths) == 0,
         "the link width must be a combination of 1x (1), 4x (2), 8x (4), 12x (8) and 2x (16)"},
        {(config.link_speed & 1) != 0 && (config.link_speed & ~kAllSpeeds) == 0,
         "the link speed must be a combination of SDR (1, always), DDR (2) and QDR (4)"},
        {(config.link_speed_ext & ~kAllSpeedsExt) == 0,
         "the extended link speed must be a combination of FDR (1), EDR (2), HDR (4) and NDR (8)"},
        {config.trace_entries <= Trace::kMaxEntries, "the trace must have at most 65536 entries"},
        {config.trace_entries != 0 || !config.trace_kinds.any(),
         "a trace of registers, DMA or interrupts must have entries: trace-entries=1 to 65536"},
        {config.mtu_cap >= 1 && config.mtu_cap <= 5, "the MTU must be 1 (256) to 5 (4096)"},
        {config.vl_cap >= 1 && config.vl_cap <= 5,
         "the VL capability must be 1 (VL0) to 5 (VL0-14)"},
    };
    for (const auto& rule : rules) {
        if (!rule.fine) {
            return rule.complaint;
        }
    }
    return guids_are_distinct(config) ? "" : "node and port GUIDs must be set and differ";
}

}  // namespace pib::hca
