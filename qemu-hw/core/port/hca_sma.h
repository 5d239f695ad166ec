// SPDX-License-Identifier: GPL-2.0-or-later
// The HCA as a managed node (IBA vol. 1, chapter 14): the attributes that subnet management reads
// and sets, and those that the guest's software sets. ib/mgmt has the rules, which the switch
// shares.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/config.h"
#include "ib/mgmt/mad_agent.h"

namespace pib::hca {

// Identity in NodeInfo and QUERY_DEVICE. 52-54-00 is the locally administered prefix of QEMU.
inline constexpr uint32_t kVendorOui = 0x525400;
inline constexpr uint16_t kDeviceId = 0x1b0c;
inline constexpr uint32_t kHardwareRevision = 1;

// The bits of PortInfo:CapabilityMask that the guest's software sets (IsSM, IsSMdisabled, IsCM,
// IsSNMPTunneling, IsDM, IsVendorClass, IsBM). The device sets all others.
inline constexpr uint32_t kSoftwareCapabilities =
    ib::port_cap::kIsSm | ib::port_cap::kIsSmDisabled |
    ib::port_cap::kIsCommunicationManagementSupported | ib::port_cap::kIsSnmpTunnelingSupported |
    ib::port_cap::kIsDeviceManagementSupported | ib::port_cap::kIsVendorClassSupported |
    ib::port_cap::kIsBootManagementSupported;

class HcaSma {
  public:
    explicit HcaSma(const Config& config);

    // Takes back the values that software has set; `cold`: also the values that the subnet manager
    // has set.
    void reset(bool cold);

    const Config& config() const { return config_; }
    const ib::SmaNode& node() const { return node_; }
    ib::PortAttrs& port(unsigned number) { return node_.ports[number - 1]; }  // 1..port_count

    // Answers an SMP that has reached the end of its path, and for which ib::smp_is_for_sma() is
    // true.
    ib::SmaAnswer answer(const ib::Mad& request, const ib::SmpArrival& arrival) {
        return ib::sma_answer(node_, request, arrival);
    }

    // The attributes that software sets. Each change queues a trap to the SM (144, 145) at Active
    // ports. Masks contain bits of kSoftwareCapabilities only.
    void change_capabilities(unsigned port, uint32_t set, uint32_t clear, uint64_t now_ns);
    void set_description(std::span<const uint8_t, ib::kSmpDataSize> text, uint64_t now_ns);
    void set_system_image_guid(ib::Guid guid, uint64_t now_ns);

    // next_trap(): a trap of the port that is due. next_trap_ns(): when the next one will be due;
    // kNever: there is none, or it cannot be sent.
    [[nodiscard]] std::optional<ib::Mad> next_trap(unsigned port, uint64_t now_ns) {
        return ib::next_trap(node_, this->port(port), now_ns);
    }
    uint64_t next_trap_ns(unsigned port) const;

  private:
    void local_change(ib::PortAttrs& port, uint16_t changes, uint64_t now_ns);

    const Config config_;
    ib::SmaNode node_;
};

}  // namespace pib::hca
