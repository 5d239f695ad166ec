// SPDX-License-Identifier: GPL-2.0-or-later
#include "port/hca_sma.h"

#include <algorithm>

#include "base/host.h"

namespace pib::hca {

namespace {

// The capabilities that the device itself has (IBA table 146).
constexpr uint32_t kFirmwareCapabilities =
    ib::port_cap::kIsTrapSupported | ib::port_cap::kIsAutomaticMigrationSupported |
    ib::port_cap::kIsSlMappingSupported | ib::port_cap::kIsLedInfoSupported |
    ib::port_cap::kIsSystemImageGuidSupported | ib::port_cap::kIsCapabilityMaskNoticeSupported |
    ib::port_cap::kIsClientReregistrationSupported |
    ib::port_cap::kIsOtherLocalChangesNoticeSupported;

constexpr uint8_t kVlArbEntries = 16;
constexpr uint8_t kRespTimeValue = 18;  // about 1 s, the response time that hosts use

uint16_t capabilities2(const Config& config) {
    uint16_t mask = 0;
    if ((config.link_width & ib::link_width::k2x) != 0) {
        mask |= ib::port_cap2::kIsLinkWidth2xSupported;
    }
    if ((config.link_speed_ext & ib::link_speed_ext::kHdr) != 0) {
        mask |= ib::port_cap2::kIsLinkSpeedHdrSupported;
    }
    if ((config.link_speed_ext & ib::link_speed_ext::kNdr) != 0) {
        mask |= ib::port_cap2::kIsLinkSpeedNdrSupported;
    }
    return mask;
}

uint32_t capabilities(const Config& config) {
    uint32_t mask = kFirmwareCapabilities;
    if (config.link_speed_ext != 0) {
        mask |= ib::port_cap::kIsExtendedSpeedsSupported;
    }
    if (capabilities2(config) != 0) {
        mask |= ib::port_cap::kIsCapabilityMask2Supported;
    }
    return mask;
}

ib::PortAttrs make_port(const Config& config, uint8_t number) {
    return ib::make_port({.kind = ib::PortKind::kChannelAdapter,
                          .port_number = number,
                          .guid = ib::Guid(config.port_guids[number - 1]),
                          .link_width_supported = config.link_width,
                          .link_speed_supported = config.link_speed,
                          .link_speed_ext_supported = config.link_speed_ext,
                          .mtu_cap = static_cast<ib::Mtu>(config.mtu_cap),
                          .vl_cap = config.vl_cap,
                          .vl_arb_high_cap = kVlArbEntries,
                          .vl_arb_low_cap = kVlArbEntries,
                          .pkey_cap = Limits::kPkeys,
                          .guid_cap = Limits::kGids,
                          .capability_mask = capabilities(config),
                          .capability_mask2 = capabilities2(config),
                          .resp_time_value = kRespTimeValue});
}

}  // namespace

HcaSma::HcaSma(const Config& config) : config_(config) {
    reset(true);
}

void HcaSma::reset(bool cold) {
    node_.system_image_guid = ib::Guid(config_.node_guid);
    node_.node_guid = ib::Guid(config_.node_guid);
    node_.device_id = kDeviceId;
    node_.revision = kHardwareRevision;
    node_.vendor_id = kVendorOui;
    node_.set_description(config_.node_description);
    if (cold) {
        node_.ports.clear();  // keeps its memory: arbiters hold references to the elements
        for (uint32_t number = 1; number <= config_.port_count; ++number) {
            node_.ports.push_back(make_port(config_, static_cast<uint8_t>(number)));
        }
        return;
    }
    for (ib::PortAttrs& port : node_.ports) {
        port.set(ib::port_info::kCapabilityMask,
                 port.get(ib::port_info::kCapabilityMask) & ~uint64_t{kSoftwareCapabilities});
        port.traps.pending.clear();
    }
}

void HcaSma::change_capabilities(unsigned number, uint32_t set, uint32_t clear, uint64_t now_ns) {
    ib::PortAttrs& port = this->port(number);
    const auto old = static_cast<uint32_t>(port.get(ib::port_info::kCapabilityMask));
    const uint32_t mask = (old & ~clear) | set;
    if (mask != old) {
        port.set(ib::port_info::kCapabilityMask, mask);
        local_change(port, 0, now_ns);
    }
}

void HcaSma::set_description(std::span<const uint8_t, ib::kSmpDataSize> text, uint64_t now_ns) {
    if (std::ranges::equal(node_.description, text)) {
        return;
    }
    std::ranges::copy(text, node_.description.begin());
    for (ib::PortAttrs& port : node_.ports) {
        local_change(port, ib::LocalChanges::kNodeDescription, now_ns);
    }
}

void HcaSma::set_system_image_guid(ib::Guid guid, uint64_t now_ns) {
    if (node_.system_image_guid == guid) {
        return;
    }
    node_.system_image_guid = guid;
    for (ib::PortAttrs& port : node_.ports) {
        if (port.state() == ib::PortState::kActive) {
            port.traps.add(ib::system_image_guid_notice(port.lid(), guid), now_ns);
        }
    }
}

// A port that is not Active sends no trap: the SM reads all attributes when it brings the port up.
void HcaSma::local_change(ib::PortAttrs& port, uint16_t changes, uint64_t now_ns) {
    if (port.state() != ib::PortState::kActive) {
        return;
    }
    const auto mask = static_cast<uint32_t>(port.get(ib::port_info::kCapabilityMask));
    const auto mask2 = static_cast<uint16_t>(port.get(ib::port_info::kCapabilityMask2));
    const ib::LocalChanges local{
        .capability_mask = mask, .capability_mask2 = mask2, .changes = changes};
    port.traps.add(ib::local_changes_notice(port.lid(), local), now_ns);
}

uint64_t HcaSma::next_trap_ns(unsigned number) const {
    return ib::next_trap_ns(*node_.port(number)).value_or(kNever);
}

}  // namespace pib::hca
