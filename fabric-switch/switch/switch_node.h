// SPDX-License-Identifier: GPL-2.0-or-later
// A switch as subnet management sees it: the node, its ports, SwitchInfo and forwarding tables.
// Plain data, which the SMA (switch_sma.cc) changes and forwarding reads.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/link_modes.h"
#include "ib/mgmt/mad_agent.h"
#include "ib/wire/link_frame.h"
#include "switch/forwarding.h"

namespace pib::fabric {

struct SwitchConfig {
    ib::Guid node_guid;
    std::string description = "pib-switch";  // NodeDescription, at most 64 bytes of UTF-8
    uint8_t num_ports = 36;                  // external, 1..kMaxPorts
    ib::Guid system_image_guid{};            // 0: the node GUID
    uint32_t vendor_id = 0;                  // 0: kVendorId of switch_sma.cc
    uint16_t device_id = 0;                  // 0: kDeviceId of switch_sma.cc
    LinkModes modes = kAllLinkModes;
    std::vector<LinkModes> port_modes;  // [0] is port 1; missing or unset ports use `modes`
    ib::Mtu mtu_cap = ib::Mtu::k4096;
    uint8_t vl_cap = 4;  // VLCap code: 8 data VLs
    uint16_t lft_cap = ib::Lid::kMulticastFirst;
    uint16_t mft_cap = 4096;
    // Blocks of 64 bytes for each port and VL: 256 KiB, as in the HCA. With half of that a sender
    // of 64 KiB messages waited for credits after the second message.
    uint32_t receive_blocks = 4096;
    bool bursts = true;     // bursts of several packets, if the neighbour agrees
    bool peer_copy = true;  // peer copy, if both adapters agree; needs bursts

    // Features of HELLO and WELCOME for links in shared memory (link::kFeature...).
    [[nodiscard]] uint32_t link_features() const {
        return (bursts ? link::kFeatureBursts : 0) |
               (bursts && peer_copy ? link::kFeaturePeerCopy : 0);
    }
};

// Maximum number of external ports: a PortMask has a bit for each of them and for port 0.
inline constexpr uint8_t kMaxPorts = 63;

struct SwitchNode : ib::SmaNode {
    explicit SwitchNode(const SwitchConfig& config);

    LinearForwardingTable lft;
    MulticastForwardingTable mft;
    // SwitchInfo in wire format, except LinearFDBTop and MulticastFDBTop, which the tables have.
    std::array<uint8_t, ib::kSmpDataSize> info{};
    uint64_t smps_answered = 0;

    [[nodiscard]] ib::PortAttrs& port0() { return ports[0]; }
    [[nodiscard]] uint64_t get(ib::Field field) const { return ib::get(info, field); }
    void set(ib::Field field, uint64_t value) { ib::set(info, field, value); }
};

// SwitchInfo and the forwarding tables (IBA 14.2.5.4, 14.2.5.10 and 14.2.5.12).
[[nodiscard]] std::span<const ib::AttributeRow<SwitchNode>> switch_attributes();

}  // namespace pib::fabric
