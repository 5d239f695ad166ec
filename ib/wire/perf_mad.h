// SPDX-License-Identifier: GPL-2.0-or-later
// The attributes of performance management (IBA 16.1.3) as tables of fields, in the notation of
// mad.h; offsets count from the start of the attribute, which is byte 64 of the MAD.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ib/wire/field.h"

namespace pib::ib {

// Fields that all port attributes of the PMA share (IBA 16.1.3).
namespace pma {
inline constexpr Field kPortSelect{8, 8};
inline constexpr Field kCounterSelect{16, 16};
inline constexpr uint8_t kAllPorts = 0xFF;

// ClassPortInfo:CapabilityMask bits of the PMA (IBA 16.1.3.1).
inline constexpr uint16_t kCapAllPortSelect = 1U << 8;
inline constexpr uint16_t kCapExtendedWidth = 1U << 9;
inline constexpr uint16_t kCapExtendedWidthNoIetf = 1U << 10;
inline constexpr uint16_t kCapSamplesOnly = 1U << 11;
inline constexpr uint16_t kCapPortCountersXmitWait = 1U << 12;
inline constexpr uint16_t kCapQp1Dropped = 1U << 15;
// CapabilityMask2: PortCountersExtended has the error counters too.
inline constexpr uint32_t kCap2AdditionalExtended = 1U << 1;
}  // namespace pma

// PortCounters (IBA table 223).
namespace port_counters {
inline constexpr Field kSymbolErrors{32, 16};
inline constexpr Field kLinkErrorRecovery{48, 8};
inline constexpr Field kLinkDowned{56, 8};
inline constexpr Field kPortRcvErrors{64, 16};
inline constexpr Field kPortRcvRemotePhysicalErrors{80, 16};
inline constexpr Field kPortRcvSwitchRelayErrors{96, 16};
inline constexpr Field kPortXmitDiscards{112, 16};
inline constexpr Field kPortXmitConstraintErrors{128, 8};
inline constexpr Field kPortRcvConstraintErrors{136, 8};
inline constexpr Field kCounterSelect2{144, 8};
inline constexpr Field kLocalLinkIntegrityErrors{152, 4};
inline constexpr Field kExcessiveBufferOverrunErrors{156, 4};
inline constexpr Field kQp1Dropped{160, 16};
inline constexpr Field kVl15Dropped{176, 16};
inline constexpr Field kPortXmitData{192, 32};  // 4-byte words
inline constexpr Field kPortRcvData{224, 32};
inline constexpr Field kPortXmitPkts{256, 32};
inline constexpr Field kPortRcvPkts{288, 32};
inline constexpr Field kPortXmitWait{320, 32};  // ticks
}  // namespace port_counters

// PortCountersExtended (IBA table 229).
namespace port_counters_ext {
inline constexpr Field kCounterSelect2{32, 32};
inline constexpr Field kPortXmitData{64, 64};
inline constexpr Field kPortRcvData{128, 64};
inline constexpr Field kPortXmitPkts{192, 64};
inline constexpr Field kPortRcvPkts{256, 64};
inline constexpr Field kPortUnicastXmitPkts{320, 64};
inline constexpr Field kPortUnicastRcvPkts{384, 64};
inline constexpr Field kPortMulticastXmitPkts{448, 64};
inline constexpr Field kPortMulticastRcvPkts{512, 64};
inline constexpr Field kSymbolErrors{576, 64};
inline constexpr Field kLinkErrorRecovery{640, 64};
inline constexpr Field kLinkDowned{704, 64};
inline constexpr Field kPortRcvErrors{768, 64};
inline constexpr Field kPortRcvRemotePhysicalErrors{832, 64};
inline constexpr Field kPortRcvSwitchRelayErrors{896, 64};
inline constexpr Field kPortXmitDiscards{960, 64};
inline constexpr Field kPortXmitConstraintErrors{1024, 64};
inline constexpr Field kPortRcvConstraintErrors{1088, 64};
inline constexpr Field kLocalLinkIntegrityErrors{1152, 64};
inline constexpr Field kExcessiveBufferOverrunErrors{1216, 64};
inline constexpr Field kVl15Dropped{1280, 64};
inline constexpr Field kPortXmitWait{1344, 64};
inline constexpr Field kQp1Dropped{1408, 64};
}  // namespace port_counters_ext

// PortRcvErrorDetails (IBA table 226).
namespace port_rcv_error_details {
inline constexpr Field kPortLocalPhysicalErrors{32, 16};
inline constexpr Field kPortMalformedPacketErrors{48, 16};
inline constexpr Field kPortBufferOverrunErrors{64, 16};
inline constexpr Field kPortDlidMappingErrors{80, 16};
inline constexpr Field kPortVlMappingErrors{96, 16};
inline constexpr Field kPortLoopingErrors{112, 16};
}  // namespace port_rcv_error_details

// PortXmitDiscardDetails (IBA table 227).
namespace port_xmit_discard_details {
inline constexpr Field kPortInactiveDiscards{32, 16};
inline constexpr Field kPortNeighborMtuDiscards{48, 16};
inline constexpr Field kPortSwLifetimeLimitDiscards{64, 16};
inline constexpr Field kPortSwHoqLifetimeLimitDiscards{80, 16};
}  // namespace port_xmit_discard_details

// Attributes with a counter for each VL or SL: kFirst is the first of kPerPriority consecutive
// fields.
inline constexpr size_t kPerPriority = 16;
namespace port_vl_xmit_flow_ctl_update_errors {
inline constexpr Field kFirst{32, 2};
}
namespace port_vl_xmit_wait_counters {
inline constexpr Field kFirst{32, 16};  // ticks
}
namespace port_data_sl {                // PortXmitDataSL and PortRcvDataSL
inline constexpr Field kFirst{32, 32};  // 4-byte words
}

// PortExtendedSpeedsCounters. A field with Lane0 in its name is the first of kLanes adjacent
// fields.
namespace port_extended_speeds {
inline constexpr size_t kLanes = 12;
inline constexpr Field kCounterSelect{64, 64};
inline constexpr Field kSyncHeaderErrors{128, 16};
inline constexpr Field kUnknownBlocks{144, 16};
inline constexpr Field kErrorDetectionLane0{160, 16};
inline constexpr Field kFecCorrectableBlocksLane0{352, 32};
inline constexpr Field kFecUncorrectableBlocksLane0{736, 32};
}  // namespace port_extended_speeds

// PortSamplesControl (IBA table 219).
namespace port_samples_control {
inline constexpr Field kOpCode{0, 8};
inline constexpr Field kPortSelect{8, 8};
inline constexpr Field kTick{16, 8};
inline constexpr Field kCounterWidth{29, 3};
inline constexpr Field kCounterMask0{34, 3};
inline constexpr Field kCounterMasks1To9{37, 27};
inline constexpr Field kCounterMasks10To14{65, 15};
inline constexpr Field kSampleMechanisms{80, 8};
inline constexpr Field kSampleStatus{94, 2};
inline constexpr Field kOptionMask{96, 64};
inline constexpr Field kVendorMask{160, 64};
inline constexpr Field kSampleStart{224, 32};     // ticks
inline constexpr Field kSampleInterval{256, 32};  // ticks
inline constexpr Field kTag{288, 16};
inline constexpr size_t kCounterSelect0Offset = 38;  // bytes; 15 selects of 2 bytes
// OptionMask: the optional counters that exist, by bit.
inline constexpr uint64_t kOptionRcvErrorDetails = 0x3FULL << 6;     // six counters
inline constexpr uint64_t kOptionXmitDiscardDetails = 0xFULL << 12;  // four
inline constexpr uint64_t kOptionVlXmitFlowCtlUpdateErrors = 1ULL << 22;
inline constexpr uint64_t kOptionVlXmitWait = 1ULL << 23;
inline constexpr uint64_t kOptionExtendedSpeeds = 1ULL << 28;
inline constexpr uint64_t kOptionXmitDataSl = 1ULL << 55;
inline constexpr uint64_t kOptionRcvDataSl = 1ULL << 56;
inline constexpr size_t kCounterCount = 15;
}  // namespace port_samples_control

// PortSamplesResult (IBA table 221).
namespace port_samples_result {
inline constexpr Field kTag{0, 16};
inline constexpr Field kSampleStatus{30, 2};
inline constexpr size_t kCounter0Offset = 4;  // bytes; 15 counters of 4 bytes
// PortSamplesResultExtended: counters of 8 bytes after ExtendedWidth (table 222).
inline constexpr Field kExtendedWidth{32, 2};
inline constexpr size_t kExtendedCounter0Offset = 8;
}  // namespace port_samples_result

}  // namespace pib::ib
