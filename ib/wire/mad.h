// SPDX-License-Identifier: GPL-2.0-or-later
// Management datagrams: the common header (IBA 13.4.3), LID-routed and directed-route SMPs (14.2.1)
// and the attributes of chapters 13 and 14, each as a table of fields in the IBA's own notation
// (offset and length in bits from the start of the attribute). perf_mad.h has those of chapter 16.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ib/wire/field.h"
#include "ib/wire/types.h"

namespace pib::ib {

enum class MgmtClass : uint8_t {
    kSubnLidRouted = 0x01,
    kSubnAdm = 0x03,
    kPerf = 0x04,
    kBm = 0x05,
    kDevMgt = 0x06,
    kComMgt = 0x07,
    kSnmp = 0x08,
    kCongestion = 0x21,
    kSubnDirectedRoute = 0x81,
};

// Method with its R bit (IBA table 110).
enum class Method : uint8_t {
    kGet = 0x01,
    kSet = 0x02,
    kSend = 0x03,
    kTrap = 0x05,
    kReport = 0x06,
    kTrapRepress = 0x07,
    kGetResp = 0x81,
    kReportResp = 0x86,
};
inline constexpr uint8_t kResponseBit = 0x80;

// MADHeader:Status, the part common to all classes (IBA table 112).
namespace mad_status {
inline constexpr uint16_t kOk = 0x0000;
inline constexpr uint16_t kBusy = 0x0001;
inline constexpr uint16_t kBadVersion = 0x0004;
inline constexpr uint16_t kBadMethod = 0x0008;
inline constexpr uint16_t kBadMethodAttribute = 0x000C;
inline constexpr uint16_t kBadField = 0x001C;
}  // namespace mad_status

// Attribute IDs. Those below 0x10 are common to all classes, the rest belong to their class.
namespace attr {
inline constexpr uint16_t kClassPortInfo = 0x0001;
inline constexpr uint16_t kNotice = 0x0002;
inline constexpr uint16_t kInformInfo = 0x0003;

// Subnet management (IBA table 139).
inline constexpr uint16_t kNodeDescription = 0x0010;
inline constexpr uint16_t kNodeInfo = 0x0011;
inline constexpr uint16_t kSwitchInfo = 0x0012;
inline constexpr uint16_t kGuidInfo = 0x0014;
inline constexpr uint16_t kPortInfo = 0x0015;
inline constexpr uint16_t kPKeyTable = 0x0016;
inline constexpr uint16_t kSlToVlMappingTable = 0x0017;
inline constexpr uint16_t kVlArbitrationTable = 0x0018;
inline constexpr uint16_t kLinearForwardingTable = 0x0019;
inline constexpr uint16_t kRandomForwardingTable = 0x001A;
inline constexpr uint16_t kMulticastForwardingTable = 0x001B;
inline constexpr uint16_t kSmInfo = 0x0020;
inline constexpr uint16_t kVendorDiag = 0x0030;
inline constexpr uint16_t kLedInfo = 0x0031;

// Performance management (IBA table 217).
inline constexpr uint16_t kPortSamplesControl = 0x0010;
inline constexpr uint16_t kPortSamplesResult = 0x0011;
inline constexpr uint16_t kPortCounters = 0x0012;
inline constexpr uint16_t kPortRcvErrorDetails = 0x0015;
inline constexpr uint16_t kPortXmitDiscardDetails = 0x0016;
inline constexpr uint16_t kPortVlXmitFlowCtlUpdateErrors = 0x001B;
inline constexpr uint16_t kPortVlXmitWaitCounters = 0x001C;
inline constexpr uint16_t kPortCountersExtended = 0x001D;
inline constexpr uint16_t kPortSamplesResultExtended = 0x001E;
inline constexpr uint16_t kPortExtendedSpeedsCounters = 0x001F;
inline constexpr uint16_t kPortXmitDataSl = 0x0036;
inline constexpr uint16_t kPortRcvDataSl = 0x0037;
}  // namespace attr

inline constexpr size_t kMadSize = 256;
inline constexpr size_t kSmpDataSize = 64;
inline constexpr size_t kGmpDataSize = 192;
inline constexpr size_t kSmpPathSize = 64;
inline constexpr uint8_t kMadBaseVersion = 1;
inline constexpr uint8_t kSmpClassVersion = 1;
inline constexpr uint8_t kPerfClassVersion = 1;

namespace mad_header {
inline constexpr Field kBaseVersion{0, 8};
inline constexpr Field kMgmtClass{8, 8};
inline constexpr Field kClassVersion{16, 8};
inline constexpr Field kMethod{24, 8};  // R bit included
inline constexpr Field kStatus{32, 16};
inline constexpr Field kTransactionId{64, 64};
inline constexpr Field kAttributeId{128, 16};
inline constexpr Field kAttributeModifier{160, 32};
}  // namespace mad_header

// SMP fields beyond the common header (IBA 14.2.1.1 and 14.2.1.2), from the start of the MAD.
namespace smp {
inline constexpr Field kD{32, 1};        // directed route: direction, 1 returning
inline constexpr Field kStatus{33, 15};  // directed route
inline constexpr Field kHopPointer{48, 8};
inline constexpr Field kHopCount{56, 8};
inline constexpr Field kMKey{192, 64};
inline constexpr Field kDrSlid{256, 16};
inline constexpr Field kDrDlid{272, 16};
inline constexpr size_t kDataOffset = 64;
inline constexpr size_t kInitialPathOffset = 128;
inline constexpr size_t kReturnPathOffset = 192;
}  // namespace smp

inline constexpr size_t kGmpDataOffset = 64;

// One MAD of 256 bytes, with accessors for its fields.
struct Mad {
    std::array<uint8_t, kMadSize> bytes{};

    bool operator==(const Mad&) const = default;

    [[nodiscard]] uint64_t get(Field field) const { return ib::get(bytes, field); }
    void set(Field field, uint64_t value) { ib::set(bytes, field, value); }

    [[nodiscard]] uint8_t base_version() const { return bytes[0]; }
    [[nodiscard]] MgmtClass mgmt_class() const { return static_cast<MgmtClass>(bytes[1]); }
    [[nodiscard]] uint8_t class_version() const { return bytes[2]; }
    [[nodiscard]] Method method() const { return static_cast<Method>(bytes[3]); }
    [[nodiscard]] bool is_response() const {
        return (bytes[3] & kResponseBit) != 0 || method() == Method::kTrapRepress;
    }
    [[nodiscard]] uint64_t transaction_id() const { return get(mad_header::kTransactionId); }
    [[nodiscard]] uint16_t attribute_id() const {
        return static_cast<uint16_t>(get(mad_header::kAttributeId));
    }
    [[nodiscard]] uint32_t attribute_modifier() const {
        return static_cast<uint32_t>(get(mad_header::kAttributeModifier));
    }
    [[nodiscard]] bool is_smp() const {
        return mgmt_class() == MgmtClass::kSubnLidRouted || is_directed_route();
    }
    [[nodiscard]] bool is_directed_route() const {
        return mgmt_class() == MgmtClass::kSubnDirectedRoute;
    }
    // Status without the D bit, the top bit of the field in directed-route SMPs.
    [[nodiscard]] uint16_t status() const {
        return static_cast<uint16_t>(is_directed_route() ? get(smp::kStatus)
                                                         : get(mad_header::kStatus));
    }
    void set_status(uint16_t status) {
        set(is_directed_route() ? smp::kStatus : mad_header::kStatus, status);
    }

    [[nodiscard]] std::span<uint8_t, kSmpDataSize> smp_data() {
        return std::span(bytes).subspan<smp::kDataOffset, kSmpDataSize>();
    }
    [[nodiscard]] std::span<const uint8_t, kSmpDataSize> smp_data() const {
        return std::span(bytes).subspan<smp::kDataOffset, kSmpDataSize>();
    }
    // Attribute area of general classes whose MADs have no class header, such as PerfMgt.
    [[nodiscard]] std::span<uint8_t, kGmpDataSize> gmp_data() {
        return std::span(bytes).subspan<kGmpDataOffset, kGmpDataSize>();
    }
    [[nodiscard]] std::span<const uint8_t, kGmpDataSize> gmp_data() const {
        return std::span(bytes).subspan<kGmpDataOffset, kGmpDataSize>();
    }
};

// The M_Key of an SMP.
[[nodiscard]] inline uint64_t m_key(const Mad& mad) {
    return mad.get(smp::kMKey);
}

// Fields that only a directed-route SMP has (IBA 14.2.1.2).
[[nodiscard]] inline bool is_returning(const Mad& mad) {
    return mad.get(smp::kD) != 0;
}
[[nodiscard]] inline uint8_t hop_pointer(const Mad& mad) {
    return mad.bytes[6];
}
[[nodiscard]] inline uint8_t hop_count(const Mad& mad) {
    return mad.bytes[7];
}
[[nodiscard]] inline std::span<uint8_t, kSmpPathSize> initial_path(Mad& mad) {
    return std::span(mad.bytes).subspan<smp::kInitialPathOffset, kSmpPathSize>();
}
[[nodiscard]] inline std::span<const uint8_t, kSmpPathSize> initial_path(const Mad& mad) {
    return std::span(mad.bytes).subspan<smp::kInitialPathOffset, kSmpPathSize>();
}
[[nodiscard]] inline std::span<uint8_t, kSmpPathSize> return_path(Mad& mad) {
    return std::span(mad.bytes).subspan<smp::kReturnPathOffset, kSmpPathSize>();
}
[[nodiscard]] inline std::span<const uint8_t, kSmpPathSize> return_path(const Mad& mad) {
    return std::span(mad.bytes).subspan<smp::kReturnPathOffset, kSmpPathSize>();
}
[[nodiscard]] inline Lid dr_slid(const Mad& mad) {
    return Lid(static_cast<Lid::rep>(mad.get(smp::kDrSlid)));
}
[[nodiscard]] inline Lid dr_dlid(const Mad& mad) {
    return Lid(static_cast<Lid::rep>(mad.get(smp::kDrDlid)));
}

enum class NodeType : uint8_t { kChannelAdapter = 1, kSwitch = 2, kRouter = 3 };

// NodeInfo (IBA table 143).
namespace node_info {
inline constexpr Field kBaseVersion{0, 8};
inline constexpr Field kClassVersion{8, 8};
inline constexpr Field kNodeType{16, 8};
inline constexpr Field kNumPorts{24, 8};
inline constexpr Field kSystemImageGuid{32, 64};
inline constexpr Field kNodeGuid{96, 64};
inline constexpr Field kPortGuid{160, 64};
inline constexpr Field kPartitionCap{224, 16};
inline constexpr Field kDeviceId{240, 16};
inline constexpr Field kRevision{256, 32};
inline constexpr Field kLocalPortNum{288, 8};
inline constexpr Field kVendorId{296, 24};
}  // namespace node_info

// SwitchInfo (IBA table 144).
namespace switch_info {
inline constexpr Field kLinearFdbCap{0, 16};
inline constexpr Field kRandomFdbCap{16, 16};
inline constexpr Field kMulticastFdbCap{32, 16};
inline constexpr Field kLinearFdbTop{48, 16};
inline constexpr Field kDefaultPort{64, 8};
inline constexpr Field kDefaultMulticastPrimaryPort{72, 8};
inline constexpr Field kDefaultMulticastNotPrimaryPort{80, 8};
inline constexpr Field kLifeTimeValue{88, 5};
inline constexpr Field kPortStateChange{93, 1};
inline constexpr Field kOptimizedSlToVlMapping{94, 2};
inline constexpr Field kLidsPerPort{96, 16};
inline constexpr Field kPartitionEnforcementCap{112, 16};
inline constexpr Field kInboundEnforcementCap{128, 1};
inline constexpr Field kOutboundEnforcementCap{129, 1};
inline constexpr Field kFilterRawInboundCap{130, 1};
inline constexpr Field kFilterRawOutboundCap{131, 1};
inline constexpr Field kEnhancedPort0{132, 1};
inline constexpr Field kMulticastFdbTop{144, 16};
}  // namespace switch_info

// PortInfo (IBA table 146).
namespace port_info {
inline constexpr Field kMKey{0, 64};
inline constexpr Field kGidPrefix{64, 64};
inline constexpr Field kLid{128, 16};
inline constexpr Field kMasterSmLid{144, 16};
inline constexpr Field kCapabilityMask{160, 32};
inline constexpr Field kDiagCode{192, 16};
inline constexpr Field kMKeyLeasePeriod{208, 16};  // seconds
inline constexpr Field kLocalPortNum{224, 8};
inline constexpr Field kLinkWidthEnabled{232, 8};
inline constexpr Field kLinkWidthSupported{240, 8};
inline constexpr Field kLinkWidthActive{248, 8};
inline constexpr Field kLinkSpeedSupported{256, 4};
inline constexpr Field kPortState{260, 4};
inline constexpr Field kPortPhysicalState{264, 4};
inline constexpr Field kLinkDownDefaultState{268, 4};
inline constexpr Field kMKeyProtectBits{272, 2};
inline constexpr Field kLmc{277, 3};
inline constexpr Field kLinkSpeedActive{280, 4};
inline constexpr Field kLinkSpeedEnabled{284, 4};
inline constexpr Field kNeighborMtu{288, 4};
inline constexpr Field kMasterSmSl{292, 4};
inline constexpr Field kVlCap{296, 4};
inline constexpr Field kInitType{300, 4};
inline constexpr Field kVlHighLimit{304, 8};
inline constexpr Field kVlArbitrationHighCap{312, 8};
inline constexpr Field kVlArbitrationLowCap{320, 8};
inline constexpr Field kInitTypeReply{328, 4};
inline constexpr Field kMtuCap{332, 4};
inline constexpr Field kVlStallCount{336, 3};
inline constexpr Field kHoqLife{339, 5};
inline constexpr Field kOperationalVls{344, 4};
inline constexpr Field kPartitionEnforcementInbound{348, 1};
inline constexpr Field kPartitionEnforcementOutbound{349, 1};
inline constexpr Field kFilterRawInbound{350, 1};
inline constexpr Field kFilterRawOutbound{351, 1};
inline constexpr Field kMKeyViolations{352, 16};
inline constexpr Field kPKeyViolations{368, 16};
inline constexpr Field kQKeyViolations{384, 16};
inline constexpr Field kGuidCap{400, 8};  // entries of the GUID table
inline constexpr Field kClientReregister{408, 1};
inline constexpr Field kMulticastPKeyTrapSuppression{409, 2};
inline constexpr Field kSubnetTimeOut{411, 5};
inline constexpr Field kRespTimeValue{419, 5};
inline constexpr Field kLocalPhyErrors{424, 4};
inline constexpr Field kOverrunErrors{428, 4};
inline constexpr Field kMaxCreditHint{432, 16};
inline constexpr Field kLinkRoundTripLatency{456, 24};
inline constexpr Field kCapabilityMask2{480, 16};
inline constexpr Field kLinkSpeedExtActive{496, 4};
inline constexpr Field kLinkSpeedExtSupported{500, 4};
inline constexpr Field kLinkSpeedExtEnabled{507, 5};
}  // namespace port_info

// PortInfo:CapabilityMask bits.
namespace port_cap {
inline constexpr uint32_t kIsSm = 1U << 1;
inline constexpr uint32_t kIsNoticeSupported = 1U << 2;
inline constexpr uint32_t kIsTrapSupported = 1U << 3;
inline constexpr uint32_t kIsAutomaticMigrationSupported = 1U << 5;
inline constexpr uint32_t kIsSlMappingSupported = 1U << 6;
inline constexpr uint32_t kIsLedInfoSupported = 1U << 9;
inline constexpr uint32_t kIsSmDisabled = 1U << 10;
inline constexpr uint32_t kIsSystemImageGuidSupported = 1U << 11;
inline constexpr uint32_t kIsPKeySwitchExternalPortTrapSupported = 1U << 12;
inline constexpr uint32_t kIsExtendedSpeedsSupported = 1U << 14;
inline constexpr uint32_t kIsCapabilityMask2Supported = 1U << 15;
inline constexpr uint32_t kIsCommunicationManagementSupported = 1U << 16;
inline constexpr uint32_t kIsSnmpTunnelingSupported = 1U << 17;
inline constexpr uint32_t kIsDeviceManagementSupported = 1U << 19;
inline constexpr uint32_t kIsVendorClassSupported = 1U << 20;
inline constexpr uint32_t kIsCapabilityMaskNoticeSupported = 1U << 22;
inline constexpr uint32_t kIsBootManagementSupported = 1U << 23;
inline constexpr uint32_t kIsClientReregistrationSupported = 1U << 25;
inline constexpr uint32_t kIsOtherLocalChangesNoticeSupported = 1U << 26;
inline constexpr uint32_t kIsMulticastFdbTopSupported = 1U << 30;
}  // namespace port_cap

// PortInfo:CapabilityMask2 bits.
namespace port_cap2 {
inline constexpr uint16_t kIsSetNodeDescriptionSupported = 1U << 0;
inline constexpr uint16_t kIsLinkWidth2xSupported = 1U << 4;
inline constexpr uint16_t kIsLinkSpeedHdrSupported = 1U << 5;
inline constexpr uint16_t kIsLinkSpeedNdrSupported = 1U << 10;
}  // namespace port_cap2

// PortInfo:PortState; kNoChange only in a Set.
enum class PortState : uint8_t {
    kNoChange = 0,
    kDown = 1,
    kInitialize = 2,
    kArmed = 3,
    kActive = 4,
};

// PortInfo:PortPhysicalState; kNoChange only in a Set.
enum class PhysState : uint8_t {
    kNoChange = 0,
    kSleep = 1,
    kPolling = 2,
    kDisabled = 3,
    kTraining = 4,
    kLinkUp = 5,
    kLinkErrorRecovery = 6,
    kPhyTest = 7,
};

// LinkWidth* bits, LinkSpeed* bits and LinkSpeedExt* bits.
namespace link_width {
inline constexpr uint8_t k1x = 1;
inline constexpr uint8_t k4x = 2;
inline constexpr uint8_t k8x = 4;
inline constexpr uint8_t k12x = 8;
inline constexpr uint8_t k2x = 16;
inline constexpr uint8_t kSetToSupported = 255;
}  // namespace link_width
namespace link_speed {
inline constexpr uint8_t kSdr = 1;
inline constexpr uint8_t kDdr = 2;
inline constexpr uint8_t kQdr = 4;
inline constexpr uint8_t kSetToSupported = 15;
}  // namespace link_speed
namespace link_speed_ext {
inline constexpr uint8_t kFdr = 1;
inline constexpr uint8_t kEdr = 2;
inline constexpr uint8_t kHdr = 4;
inline constexpr uint8_t kNdr = 8;
inline constexpr uint8_t kNoneEnabled = 30;  // LinkSpeedExtEnabled: no extended speed
inline constexpr uint8_t kSetToSupported = 31;
}  // namespace link_speed_ext

// Entries of one block of the tables that an attribute carries in blocks; number of SLs.
inline constexpr size_t kPKeysPerBlock = 32;
inline constexpr size_t kGuidsPerBlock = 8;
inline constexpr size_t kLftEntriesPerBlock = 64;
inline constexpr size_t kMftEntriesPerBlock = 32;
inline constexpr size_t kVlArbEntriesPerBlock = 32;
inline constexpr size_t kSlCount = 16;

// SMInfo (IBA table 160).
namespace sm_info {
inline constexpr Field kGuid{0, 64};
inline constexpr Field kSmKey{64, 64};
inline constexpr Field kActCount{128, 32};
inline constexpr Field kPriority{160, 4};
inline constexpr Field kSmState{164, 4};
}  // namespace sm_info

namespace led_info {
inline constexpr Field kLedMask{0, 1};
}  // namespace led_info

// Notice (IBA 13.4.8.2); the details of each trap number follow in notice_details.
namespace notice {
inline constexpr Field kIsGeneric{0, 1};
inline constexpr Field kType{1, 7};
inline constexpr Field kProducerType{8, 24};
inline constexpr Field kTrapNumber{32, 16};
inline constexpr Field kIssuerLid{48, 16};
inline constexpr Field kNoticeToggle{64, 1};
inline constexpr Field kNoticeCount{65, 15};
inline constexpr size_t kDetailsOffset = 10;  // bytes
inline constexpr size_t kDetailsSize = 54;
}  // namespace notice

// Notice:Type (IBA table 116) and the generic traps of subnet management (14.2.5.1).
enum class NoticeType : uint8_t {
    kFatal = 0,
    kUrgent = 1,
    kSecurity = 2,
    kSubnetManagement = 3,
    kInformational = 4,
};
namespace trap {
inline constexpr uint16_t kLinkStateChange = 128;  // switches only
inline constexpr uint16_t kLocalLinkIntegrity = 129;
inline constexpr uint16_t kExcessiveBufferOverrun = 130;
inline constexpr uint16_t kFlowControlUpdate = 131;
inline constexpr uint16_t kLocalChanges = 144;
inline constexpr uint16_t kSystemImageGuidChange = 145;
inline constexpr uint16_t kBadMKey = 256;
inline constexpr uint16_t kBadPKey = 257;
inline constexpr uint16_t kBadQKey = 258;
inline constexpr uint16_t kBadPKeyAtSwitchPort = 259;
}  // namespace trap

// Notice:DataDetails, offsets from the start of the Notice (IBA tables 119 to 131).
namespace notice_details {
inline constexpr Field kLid128{80, 16};
inline constexpr Field kLid{96, 16};         // traps 129..131, 144, 145, 256
inline constexpr Field kPortNumber{112, 8};  // traps 129..131
inline constexpr Field kOtherLocalChanges{120, 8};
inline constexpr Field kCapabilityMask{128, 32};
inline constexpr Field kChangeFlags{160, 16};
inline constexpr Field kCapabilityMask2{176, 16};
inline constexpr Field kSystemImageGuid{128, 64};
// Trap 256.
inline constexpr Field kDrSlid{112, 16};
inline constexpr Field kMethod{128, 8};
inline constexpr Field kAttributeId{144, 16};
inline constexpr Field kAttributeModifier{160, 32};
inline constexpr Field kMKey{192, 64};
inline constexpr Field kDrNotice{264, 1};
inline constexpr Field kDrPathTruncated{265, 1};
inline constexpr Field kDrHopCount{266, 6};
inline constexpr size_t kDrReturnPathOffset = 34;  // bytes
inline constexpr size_t kDrReturnPathSize = 30;
// Traps 257 and 258.
inline constexpr Field kLid1{96, 16};
inline constexpr Field kLid2{112, 16};
inline constexpr Field kKey{128, 32};
inline constexpr Field kSl{160, 4};
inline constexpr Field kQp1{168, 24};
inline constexpr Field kQp2{200, 24};
inline constexpr size_t kGid1Offset = 28;  // bytes
inline constexpr size_t kGid2Offset = 44;
}  // namespace notice_details

// Trap 259 (IBA table 131): like 257, with a mask of valid fields and the detecting port.
namespace notice_details_259 {
inline constexpr Field kDataValid{80, 16};
inline constexpr uint16_t kLid1Valid = 1U << 0;
inline constexpr uint16_t kLid2Valid = 1U << 1;
inline constexpr uint16_t kPKeyValid = 1U << 2;
inline constexpr uint16_t kSlValid = 1U << 3;
inline constexpr uint16_t kQp1Valid = 1U << 4;
inline constexpr uint16_t kQp2Valid = 1U << 5;
inline constexpr uint16_t kGid1Valid = 1U << 6;
inline constexpr uint16_t kGid2Valid = 1U << 7;
inline constexpr Field kLid1{96, 16};
inline constexpr Field kLid2{112, 16};
inline constexpr Field kPKey{128, 16};
inline constexpr Field kSl{144, 4};
inline constexpr Field kQp1{152, 24};
inline constexpr Field kQp2{184, 24};
inline constexpr size_t kGid1Offset = 26;  // bytes
inline constexpr size_t kGid2Offset = 42;
inline constexpr Field kSwitchLid{464, 16};
inline constexpr Field kPortNumber{480, 8};
}  // namespace notice_details_259

// ClassPortInfo (IBA table 111), common to all general classes.
namespace class_port_info {
inline constexpr Field kBaseVersion{0, 8};
inline constexpr Field kClassVersion{8, 8};
inline constexpr Field kCapabilityMask{16, 16};
inline constexpr Field kCapabilityMask2{32, 27};
inline constexpr Field kRespTimeValue{59, 5};
inline constexpr Field kTrapGidHigh{320, 64};
inline constexpr Field kTrapGidLow{384, 64};
inline constexpr Field kTrapTc{448, 8};
inline constexpr Field kTrapSl{456, 4};
inline constexpr Field kTrapFl{460, 20};
inline constexpr Field kTrapLid{480, 16};
inline constexpr Field kTrapPKey{496, 16};
inline constexpr Field kTrapHl{512, 8};
inline constexpr Field kTrapQp{520, 24};
inline constexpr Field kTrapQKey{544, 32};
}  // namespace class_port_info

}  // namespace pib::ib
