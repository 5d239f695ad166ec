// SPDX-License-Identifier: GPL-2.0-or-later
// The rules that verbs' parameters, work requests, stores and loads obey. A rule's value is its
// number in the manual (docs/device-spec.md) with the consequence of breaking it: a command's
// status, a completion's vendor_error, or an effect. The number of a removed rule is never reused.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace pib::hca {

// The value of a rule: the status in bits 31:24, manual_number() in bits 23:0.
consteval uint32_t rule_value(uint32_t section, uint32_t sub, uint32_t rule, CmdStatus status) {
    return static_cast<uint32_t>(status) << 24 | section << 16 | sub << 8 | rule;
}

// The device's answer to a store or load that breaks a rule, or to misuse of a queue.
enum class Effect : uint8_t {
    kIgnored = 0x80,  // greater than every CmdStatus
    kBadEnable,
    kFatal,
    kNamed,  // the device goes on; a strict device reports the rule
    // The device refuses a request packet; the peer's request completes with REM_ACCESS_ERR.
    kRemAccessErr,
};
consteval uint32_t rule_value(uint32_t section, uint32_t sub, uint32_t rule, Effect effect) {
    return rule_value(section, sub, rule, static_cast<CmdStatus>(effect));
}

// Marks a VendorError in the place of the status: greater than every CmdStatus, less than every
// Effect.
inline constexpr uint32_t kOfWorkRequest = 0x40;
consteval uint32_t rule_value(uint32_t section, uint32_t sub, uint32_t rule, VendorError error) {
    return rule_value(section, sub, rule,
                      static_cast<CmdStatus>(kOfWorkRequest | static_cast<uint32_t>(error)));
}

enum class Rule : uint32_t {
    kNone = 0,

    // Registers.
    kLoad = rule_value(3, 1, 1, Effect::kIgnored),
    kStore = rule_value(3, 1, 2, Effect::kIgnored),
    kControlBits = rule_value(3, 1, 3, Effect::kIgnored),
    kTestVector = rule_value(3, 1, 4, Effect::kIgnored),
    kDoorbellEnabled = rule_value(3, 1, 5, Effect::kIgnored),
    kDoorbellCounter = rule_value(3, 1, 6, Effect::kFatal),
    kRingDeep = rule_value(3, 1, 7, Effect::kBadEnable),
    kRingAligned = rule_value(3, 1, 8, Effect::kBadEnable),
    kCplAligned = rule_value(3, 1, 9, Effect::kBadEnable),
    kRingMemory = rule_value(3, 1, 10, Effect::kBadEnable),
    kCplMemory = rule_value(3, 1, 11, Effect::kBadEnable),
    kEnableStopped = rule_value(3, 1, 12, Effect::kBadEnable),
    kDoorbellAgain = rule_value(3, 1, 13, Effect::kNamed),

    // Reset and bring-up.
    kEnableReady = rule_value(4, 1, 1, Effect::kNamed),
    kCplZero = rule_value(4, 1, 2, Effect::kNamed),
    kWorkStopped = rule_value(4, 1, 3, Effect::kNamed),
    kArmMsix = rule_value(4, 1, 4, Effect::kNamed),
    kObjectsLeft = rule_value(4, 1, 5, Effect::kNamed),

    // Every command.
    kOpcode = rule_value(5, 1, 1, CmdStatus::kBadOpcode),
    kEntryReserved = rule_value(5, 1, 2, CmdStatus::kBadReserved),
    kModifier = rule_value(5, 1, 3, CmdStatus::kBadReserved),
    kObjectUnused = rule_value(5, 1, 4, CmdStatus::kBadReserved),
    kInputShort = rule_value(5, 1, 5, CmdStatus::kBadLength),
    kInputLong = rule_value(5, 1, 6, CmdStatus::kBadLength),
    kOutputLong = rule_value(5, 1, 7, CmdStatus::kBadLength),
    kInputMemory = rule_value(5, 1, 8, CmdStatus::kBadMemory),
    kInputTail = rule_value(5, 1, 9, CmdStatus::kBadReserved),
    kOutputMemory = rule_value(5, 1, 10, CmdStatus::kBadMemory),
    kDeviceStopped = rule_value(5, 1, 11, CmdStatus::kFatal),
    kNoPort = rule_value(5, 1, 12, CmdStatus::kBadResource),
    kNoUar = rule_value(5, 1, 13, CmdStatus::kBadResource),
    kNoPd = rule_value(5, 1, 14, CmdStatus::kBadResource),
    kNoXrcd = rule_value(5, 1, 15, CmdStatus::kBadResource),
    kNoEq = rule_value(5, 1, 16, CmdStatus::kBadResource),
    kNoCq = rule_value(5, 1, 17, CmdStatus::kBadResource),
    kNoSrq = rule_value(5, 1, 18, CmdStatus::kBadResource),
    kNoQp = rule_value(5, 1, 19, CmdStatus::kBadResource),
    kNoRegion = rule_value(5, 1, 20, CmdStatus::kBadResource),
    kNoWindow = rule_value(5, 1, 21, CmdStatus::kBadResource),
    kNoKey = rule_value(5, 1, 22, CmdStatus::kBadResource),
    kObjectLimit = rule_value(5, 1, 23, CmdStatus::kNoResources),

    // Commands under way.
    kIdUnique = rule_value(5, 2, 1, Effect::kNamed),
    kEntryChanged = rule_value(5, 2, 2, Effect::kNamed),
    kInputChanged = rule_value(5, 2, 3, Effect::kNamed),
    kOutputShared = rule_value(5, 2, 4, Effect::kNamed),
    kOutputChanged = rule_value(5, 2, 5, Effect::kNamed),

    // The device and its ports.
    kDeviceMask = rule_value(6, 3, 1, CmdStatus::kBadReserved),
    kDeviceReserved = rule_value(6, 3, 2, CmdStatus::kBadReserved),
    kDeviceGuid = rule_value(6, 3, 3, CmdStatus::kBadParam),
    kPortFlags = rule_value(6, 5, 1, CmdStatus::kBadReserved),
    kPortReserved = rule_value(6, 5, 2, CmdStatus::kBadReserved),
    kPortCapability = rule_value(6, 5, 3, CmdStatus::kBadParam),
    kPortBothMasks = rule_value(6, 5, 4, CmdStatus::kBadParam),
    kMadFlags = rule_value(6, 7, 1, CmdStatus::kBadReserved),
    kMadReserved = rule_value(6, 7, 2, CmdStatus::kBadReserved),

    // UARs and domains.
    kUarBusy = rule_value(6, 9, 1, CmdStatus::kBusy),
    kShadowOffered = rule_value(6, 9, 2, CmdStatus::kNotSupported),
    kShadowTwice = rule_value(6, 9, 3, CmdStatus::kBadState),
    kShadowNone = rule_value(6, 9, 4, CmdStatus::kBadState),
    kShadowAligned = rule_value(6, 9, 5, CmdStatus::kBadParam),
    kShadowMemory = rule_value(6, 9, 6, CmdStatus::kBadMemory),
    kShadowZero = rule_value(6, 9, 7, Effect::kNamed),
    kPdBusy = rule_value(6, 10, 1, CmdStatus::kBusy),
    kXrcdBusy = rule_value(6, 10, 2, CmdStatus::kBusy),

    // Regions and windows.
    kRegionReserved = rule_value(6, 11, 1, CmdStatus::kBadReserved),
    kRegionAccess = rule_value(6, 11, 2, CmdStatus::kBadReserved),
    kRegionFlags = rule_value(6, 11, 3, CmdStatus::kBadReserved),
    kRegionOneFlag = rule_value(6, 11, 4, CmdStatus::kBadParam),
    kRegionPd = rule_value(6, 11, 5, CmdStatus::kBadResource),
    kRegionRights = rule_value(6, 11, 6, CmdStatus::kBadParam),
    kRegionEmpty = rule_value(6, 11, 7, CmdStatus::kBadParam),
    kRegionWraps = rule_value(6, 11, 8, CmdStatus::kBadParam),
    kRegionLength = rule_value(6, 11, 9, CmdStatus::kBadParam),
    kRegionOffset = rule_value(6, 11, 10, CmdStatus::kBadParam),
    kPhysicalPages = rule_value(6, 11, 11, CmdStatus::kBadParam),
    kFastFields = rule_value(6, 11, 12, CmdStatus::kBadParam),
    kFastPages = rule_value(6, 11, 13, CmdStatus::kBadParam),
    kOnDemandPages = rule_value(6, 11, 14, CmdStatus::kBadParam),
    kOnDemandLength = rule_value(6, 11, 15, CmdStatus::kBadParam),
    kRegionPages = rule_value(6, 11, 16, CmdStatus::kNoResources),
    kAllRegionPages = rule_value(6, 11, 17, CmdStatus::kNoResources),
    kRegionBusy = rule_value(6, 11, 18, CmdStatus::kBusy),
    kReregReserved = rule_value(6, 11, 19, CmdStatus::kBadReserved),
    kReregMask = rule_value(6, 11, 20, CmdStatus::kBadReserved),
    kReregFlags = rule_value(6, 11, 21, CmdStatus::kBadReserved),
    kReregNothing = rule_value(6, 11, 22, CmdStatus::kBadParam),
    kReregKind = rule_value(6, 11, 23, CmdStatus::kBadParam),
    kResumeReserved = rule_value(6, 11, 24, CmdStatus::kBadReserved),
    kResumeFlags = rule_value(6, 11, 25, CmdStatus::kBadReserved),
    kResumeWaits = rule_value(6, 11, 26, CmdStatus::kBadState),
    kWindowReserved = rule_value(6, 11, 27, CmdStatus::kBadReserved),
    kWindowPd = rule_value(6, 11, 28, CmdStatus::kBadResource),
    kWindowType = rule_value(6, 11, 29, CmdStatus::kBadParam),

    // Event queues.
    kEqReserved = rule_value(6, 12, 1, CmdStatus::kBadReserved),
    kEqFlags = rule_value(6, 12, 2, CmdStatus::kBadReserved),
    kEqVector = rule_value(6, 12, 3, CmdStatus::kBadParam),
    kEqShallow = rule_value(6, 12, 4, CmdStatus::kBadParam),
    kEqDeep = rule_value(6, 12, 5, CmdStatus::kBadParam),
    kEqAsync = rule_value(6, 12, 6, CmdStatus::kBusy),
    kEqBusy = rule_value(6, 12, 7, CmdStatus::kBusy),

    // Completion queues.
    kCqReserved = rule_value(6, 13, 1, CmdStatus::kBadReserved),
    kCqDeep = rule_value(6, 13, 2, CmdStatus::kBadParam),
    kCqEq = rule_value(6, 13, 3, CmdStatus::kBadResource),
    kCqUar = rule_value(6, 13, 4, CmdStatus::kBadResource),
    kCqBusy = rule_value(6, 13, 5, CmdStatus::kBusy),
    kResizeReserved = rule_value(6, 13, 6, CmdStatus::kBadReserved),
    kResizeDeep = rule_value(6, 13, 7, CmdStatus::kBadParam),
    kResizeError = rule_value(6, 13, 8, CmdStatus::kBadState),
    kResizeWaiting = rule_value(6, 13, 9, CmdStatus::kBadParam),
    kResizeMemory = rule_value(6, 13, 10, CmdStatus::kBadMemory),
    kModerateReserved = rule_value(6, 21, 1, CmdStatus::kBadReserved),

    // Queue pairs.
    kQpReserved = rule_value(6, 14, 1, CmdStatus::kBadReserved),
    kQpFlags = rule_value(6, 14, 2, CmdStatus::kBadReserved),
    kQpPd = rule_value(6, 14, 3, CmdStatus::kBadResource),
    kQpXrcd = rule_value(6, 14, 4, CmdStatus::kBadResource),
    kQpUar = rule_value(6, 14, 5, CmdStatus::kBadResource),
    kQpSendCq = rule_value(6, 14, 6, CmdStatus::kBadResource),
    kQpRecvCq = rule_value(6, 14, 7, CmdStatus::kBadResource),
    kQpSrq = rule_value(6, 14, 8, CmdStatus::kBadResource),
    kQpType = rule_value(6, 14, 9, CmdStatus::kBadParam),
    kQpPort = rule_value(6, 14, 10, CmdStatus::kBadParam),
    kQpNoSq = rule_value(6, 14, 11, CmdStatus::kBadParam),
    kQpNoRq = rule_value(6, 14, 12, CmdStatus::kBadParam),
    kQpSqDeep = rule_value(6, 14, 13, CmdStatus::kBadParam),
    kQpRqDeep = rule_value(6, 14, 14, CmdStatus::kBadParam),
    kQpSqStride = rule_value(6, 14, 15, CmdStatus::kBadParam),
    kQpRqStride = rule_value(6, 14, 16, CmdStatus::kBadParam),
    kQpSqOffset = rule_value(6, 14, 17, CmdStatus::kBadParam),
    kQpRqOffset = rule_value(6, 14, 18, CmdStatus::kBadParam),
    kQpOverlap = rule_value(6, 14, 19, CmdStatus::kBadParam),
    kQpInline = rule_value(6, 14, 20, CmdStatus::kBadParam),
    kQpSrqFlag = rule_value(6, 14, 21, CmdStatus::kBadParam),
    kQpSrqField = rule_value(6, 14, 22, CmdStatus::kBadParam),
    kQpInitiator = rule_value(6, 14, 23, CmdStatus::kBadParam),
    kQpTarget = rule_value(6, 14, 24, CmdStatus::kBadParam),
    kQpXrcdField = rule_value(6, 14, 25, CmdStatus::kBadParam),
    kQpBuffer = rule_value(6, 14, 26, CmdStatus::kBadParam),
    kQpSpecial = rule_value(6, 14, 27, CmdStatus::kBusy),
    kQpBusy = rule_value(6, 14, 28, CmdStatus::kBusy),

    // Attributes of queue pairs.
    kModifyReserved = rule_value(6, 15, 1, CmdStatus::kBadReserved),
    kModifyReserved2 = rule_value(6, 15, 2, CmdStatus::kBadReserved),
    kModifyMask = rule_value(6, 15, 3, CmdStatus::kBadReserved),
    kModifyCap = rule_value(6, 15, 4, CmdStatus::kNotSupported),
    kCurState = rule_value(6, 15, 5, CmdStatus::kBadState),
    kState = rule_value(6, 15, 6, CmdStatus::kBadParam),
    kTransition = rule_value(6, 15, 7, CmdStatus::kBadState),
    kRequired = rule_value(6, 15, 8, CmdStatus::kBadParam),
    kNotTaken = rule_value(6, 15, 9, CmdStatus::kBadParam),
    kRqPsn = rule_value(6, 15, 10, CmdStatus::kBadParam),
    kSqPsn = rule_value(6, 15, 11, CmdStatus::kBadParam),
    kDestQpn = rule_value(6, 15, 12, CmdStatus::kBadParam),
    kTimeout = rule_value(6, 15, 13, CmdStatus::kBadParam),
    kRetryCnt = rule_value(6, 15, 14, CmdStatus::kBadParam),
    kRnrRetry = rule_value(6, 15, 15, CmdStatus::kBadParam),
    kMinRnrTimer = rule_value(6, 15, 16, CmdStatus::kBadParam),
    kMaxRdAtomic = rule_value(6, 15, 17, CmdStatus::kBadParam),
    kMaxDestRdAtomic = rule_value(6, 15, 18, CmdStatus::kBadParam),
    kSqdNotify = rule_value(6, 15, 19, CmdStatus::kBadParam),
    kQpAccess = rule_value(6, 15, 20, CmdStatus::kBadParam),
    kPathPort = rule_value(6, 15, 21, CmdStatus::kBadParam),
    kPkeyIndex = rule_value(6, 15, 22, CmdStatus::kBadParam),
    kPathMtu = rule_value(6, 15, 23, CmdStatus::kBadParam),
    kAltPort = rule_value(6, 15, 24, CmdStatus::kBadParam),
    kAltTimeout = rule_value(6, 15, 25, CmdStatus::kBadParam),
    kAltPkeyIndex = rule_value(6, 15, 26, CmdStatus::kBadParam),
    kAltMtu = rule_value(6, 15, 27, CmdStatus::kBadParam),
    kPathArmed = rule_value(6, 15, 28, CmdStatus::kBadState),
    kPathMigrated = rule_value(6, 15, 29, CmdStatus::kBadState),
    kPathRearm = rule_value(6, 15, 30, CmdStatus::kBadState),
    kMigState = rule_value(6, 15, 31, CmdStatus::kBadParam),
    kDraining = rule_value(6, 15, 32, CmdStatus::kBadState),

    // Multicast groups.
    kMcastReserved = rule_value(6, 16, 1, CmdStatus::kBadReserved),
    kMcastType = rule_value(6, 16, 2, CmdStatus::kBadParam),
    kMcastGid = rule_value(6, 16, 3, CmdStatus::kBadParam),
    kMcastLid = rule_value(6, 16, 4, CmdStatus::kBadParam),
    kMcastGroups = rule_value(6, 16, 5, CmdStatus::kNoResources),
    kMcastMembers = rule_value(6, 16, 6, CmdStatus::kNoResources),
    kMcastDetached = rule_value(6, 16, 7, CmdStatus::kBadResource),

    // Shared receive queues.
    kSrqFlags = rule_value(6, 17, 1, CmdStatus::kBadReserved),
    kSrqReserved = rule_value(6, 17, 2, CmdStatus::kBadReserved),
    kSrqReserved2 = rule_value(6, 17, 3, CmdStatus::kBadReserved),
    kSrqXrcFields = rule_value(6, 17, 4, CmdStatus::kBadReserved),
    kSrqOffset = rule_value(6, 17, 5, CmdStatus::kBadParam),
    kSrqDeep = rule_value(6, 17, 6, CmdStatus::kBadParam),
    kSrqStride = rule_value(6, 17, 7, CmdStatus::kBadParam),
    kSrqPd = rule_value(6, 17, 8, CmdStatus::kBadResource),
    kSrqXrcd = rule_value(6, 17, 9, CmdStatus::kBadResource),
    kSrqCq = rule_value(6, 17, 10, CmdStatus::kBadResource),
    kSrqBusy = rule_value(6, 17, 11, CmdStatus::kBusy),
    kSrqMask = rule_value(6, 18, 1, CmdStatus::kBadReserved),
    kSrqModifyReserved = rule_value(6, 18, 2, CmdStatus::kBadReserved),
    kSrqModifyDeep = rule_value(6, 18, 3, CmdStatus::kBadParam),
    kSrqLimit = rule_value(6, 18, 4, CmdStatus::kBadParam),
    kSrqError = rule_value(6, 18, 5, CmdStatus::kBadState),
    kSrqWaiting = rule_value(6, 18, 6, CmdStatus::kBusy),
    kSrqMemory = rule_value(6, 18, 7, CmdStatus::kBadMemory),

    // Injected events.
    kInjectOffered = rule_value(6, 20, 1, CmdStatus::kNotSupported),
    kInjectReserved = rule_value(6, 20, 2, CmdStatus::kBadReserved),
    kInjectObject = rule_value(6, 20, 3, CmdStatus::kBadParam),
    kInjectPort = rule_value(6, 20, 4, CmdStatus::kBadResource),
    kInjectData = rule_value(6, 20, 5, CmdStatus::kBadParam),
    kInjectPortOnly = rule_value(6, 20, 6, CmdStatus::kBadParam),
    kInjectType = rule_value(6, 20, 7, CmdStatus::kBadParam),
    kInjectState = rule_value(6, 20, 8, CmdStatus::kBadState),

    // Page lists.
    kPagesReserved = rule_value(7, 1, 1, CmdStatus::kBadReserved),
    kPagesLevels = rule_value(7, 1, 2, CmdStatus::kBadParam),
    kPagesSmall = rule_value(7, 1, 3, CmdStatus::kBadParam),
    kPagesLarge = rule_value(7, 1, 4, CmdStatus::kBadParam),
    kPagesNone = rule_value(7, 1, 5, CmdStatus::kBadParam),
    kPagesMany = rule_value(7, 1, 6, CmdStatus::kBadParam),
    kPagesFew = rule_value(7, 1, 7, CmdStatus::kBadParam),
    kPagesRoot = rule_value(7, 1, 8, CmdStatus::kBadParam),
    kPagesTables = rule_value(7, 1, 9, CmdStatus::kBadParam),
    kPagesWrap = rule_value(7, 1, 10, CmdStatus::kBadParam),
    kTableAligned = rule_value(7, 1, 11, CmdStatus::kBadParam),
    kTableMemory = rule_value(7, 1, 12, CmdStatus::kBadMemory),
    kPageAligned = rule_value(7, 1, 13, CmdStatus::kBadParam),
    kPageMemory = rule_value(7, 1, 14, CmdStatus::kBadMemory),
    kAllQueuePages = rule_value(7, 1, 15, CmdStatus::kNoResources),

    // Queues in memory.
    kHeaderZero = rule_value(7, 2, 1, Effect::kNamed),
    kHeaderReserved = rule_value(7, 2, 2, Effect::kNamed),
    kRingZero = rule_value(7, 2, 3, Effect::kNamed),
    kMemoryShared = rule_value(7, 2, 4, Effect::kNamed),
    kMemoryLost = rule_value(7, 2, 5, Effect::kNamed),
    kOwnerWritten = rule_value(7, 2, 6, Effect::kNamed),

    // Doorbells.
    kPageFree = rule_value(8, 2, 1, Effect::kIgnored),
    kDoorbellQp = rule_value(8, 2, 2, Effect::kIgnored),
    kDoorbellQpUar = rule_value(8, 2, 3, Effect::kIgnored),
    kArmBits = rule_value(8, 2, 4, Effect::kIgnored),
    kArmCq = rule_value(8, 2, 5, Effect::kIgnored),
    kArmCqUar = rule_value(8, 2, 6, Effect::kIgnored),
    kEqPage = rule_value(8, 2, 7, Effect::kIgnored),
    kEqBits = rule_value(8, 2, 8, Effect::kIgnored),
    kEqNumber = rule_value(8, 2, 9, Effect::kIgnored),
    kEqCounter = rule_value(8, 2, 10, Effect::kIgnored),
    kKickPage = rule_value(8, 2, 11, Effect::kIgnored),

    // Posting.
    kSendPasses = rule_value(8, 3, 1, Effect::kNamed),
    kRecvPasses = rule_value(8, 3, 2, Effect::kNamed),
    kSrqPasses = rule_value(8, 3, 3, Effect::kNamed),
    kSendBack = rule_value(8, 3, 4, Effect::kNamed),
    kRecvBack = rule_value(8, 3, 5, Effect::kNamed),
    kSrqBack = rule_value(8, 3, 6, Effect::kNamed),
    kSendChanged = rule_value(8, 3, 7, Effect::kNamed),
    kRecvChanged = rule_value(8, 3, 8, Effect::kNamed),
    kInitProducers = rule_value(8, 3, 9, Effect::kNamed),
    kSendEarly = rule_value(8, 3, 10, Effect::kNamed),
    kSendUnrung = rule_value(8, 3, 11, Effect::kNamed),
    kListChanged = rule_value(8, 3, 12, Effect::kNamed),

    // Event queues.
    kEqeLeft = rule_value(9, 1, 1, Effect::kNamed),
    kVectorMasked = rule_value(9, 1, 2, Effect::kNamed),
    kEqUnarmed = rule_value(9, 1, 3, Effect::kNamed),
    kEqArmedAgain = rule_value(9, 1, 4, Effect::kNamed),
    kEqNeverArmed = rule_value(9, 1, 5, Effect::kNamed),

    // Completion queues.
    kConsumerAhead = rule_value(10, 1, 1, Effect::kNamed),
    kConsumerBack = rule_value(10, 1, 2, Effect::kNamed),
    kArmAhead = rule_value(10, 1, 3, Effect::kNamed),
    kCqArmedAgain = rule_value(10, 1, 4, Effect::kNamed),
    kCqeLeft = rule_value(10, 1, 5, Effect::kNamed),

    // Work requests.
    kWqeOpcode = rule_value(12, 4, 1, VendorError::kOpcode),
    kWqeService = rule_value(12, 4, 2, VendorError::kOpcode),
    kWqeReserved = rule_value(12, 4, 3, VendorError::kReserved),
    kWqeFlags = rule_value(12, 4, 4, VendorError::kReserved),
    kWqeSrqn = rule_value(12, 4, 5, VendorError::kReserved),
    kWqeNotInline = rule_value(12, 4, 6, VendorError::kReserved),
    kWqeInlineOpcode = rule_value(12, 4, 7, VendorError::kInline),
    kWqeInlineSges = rule_value(12, 4, 8, VendorError::kInline),
    kWqeInlineLong = rule_value(12, 4, 9, VendorError::kInline),
    kWqeSges = rule_value(12, 4, 10, VendorError::kSgeCount),
    kWqeNoSges = rule_value(12, 4, 11, VendorError::kSgeCount),
    kWqeLong = rule_value(12, 4, 12, VendorError::kLength),
    kWqeAboveMtu = rule_value(12, 4, 13, VendorError::kLength),
    kWqeEightBytes = rule_value(12, 4, 14, VendorError::kLength),
    kWqeRdAtomic = rule_value(12, 4, 15, VendorError::kRdAtomic),
    kWqeRdmaReserved = rule_value(12, 4, 16, VendorError::kReserved),
    kWqeAtomicReserved = rule_value(12, 4, 17, VendorError::kReserved),
    kWqeSwapMask = rule_value(12, 4, 18, VendorError::kReserved),
    kWqeCompareMask = rule_value(12, 4, 19, VendorError::kReserved),
    kWqeFlushReserved = rule_value(12, 4, 20, VendorError::kReserved),
    kWqePlacement = rule_value(12, 4, 21, VendorError::kReserved),
    kWqeLevel = rule_value(12, 4, 22, VendorError::kReserved),
    kWqeFlushLength = rule_value(12, 4, 23, VendorError::kReserved),
    kWqeUdReserved = rule_value(12, 4, 24, VendorError::kReserved),
    kWqeAvPort = rule_value(12, 4, 25, VendorError::kAddressVector),
    kWqeDestQpn = rule_value(12, 4, 26, VendorError::kAddressVector),
    kWqeGroup = rule_value(12, 4, 27, VendorError::kAddressVector),
    kWqePkeyIndex = rule_value(12, 4, 28, VendorError::kPkeyIndex),
    kWqeKeyReserved = rule_value(12, 4, 29, VendorError::kReserved),
    kWqeBindReserved = rule_value(12, 4, 30, VendorError::kReserved),
    kWqeRegReserved = rule_value(12, 4, 31, VendorError::kReserved),
    kWqeInvalidate = rule_value(12, 4, 32, VendorError::kMemory),
    kWqeBind = rule_value(12, 4, 33, VendorError::kMemory),
    kWqeRegister = rule_value(12, 4, 34, VendorError::kMemory),
    kSgeKey = rule_value(12, 4, 35, VendorError::kLocalKey),
    kSgeMemory = rule_value(12, 4, 36, VendorError::kLocalKey),
    kRecvReserved = rule_value(12, 4, 37, VendorError::kReserved),
    kRecvId = rule_value(12, 4, 38, VendorError::kReserved),
    kRecvSges = rule_value(12, 4, 39, VendorError::kSgeCount),
    kRecvShort = rule_value(12, 4, 40, VendorError::kLength),
    kRecvInvalidate = rule_value(12, 4, 41, VendorError::kMemory),
    kPeerResponse = rule_value(12, 4, 42, VendorError::kResponse),

    // The keys of request packets.
    kKeyUnknown = rule_value(13, 1, 1, Effect::kRemAccessErr),
    kKeyFree = rule_value(13, 1, 2, Effect::kRemAccessErr),
    kKeyByte = rule_value(13, 1, 3, Effect::kRemAccessErr),
    kKeyPd = rule_value(13, 1, 4, Effect::kRemAccessErr),
    kKeyQp = rule_value(13, 1, 5, Effect::kRemAccessErr),
    kKeyRights = rule_value(13, 1, 6, Effect::kRemAccessErr),
    kKeyBefore = rule_value(13, 1, 7, Effect::kRemAccessErr),
    kKeyBeyond = rule_value(13, 1, 8, Effect::kRemAccessErr),
    kKeyMemory = rule_value(13, 1, 9, Effect::kRemAccessErr),

    // Address vectors.
    kVectorFlags = rule_value(14, 1, 1, CmdStatus::kBadReserved),
    kVectorReserved = rule_value(14, 1, 2, CmdStatus::kBadReserved),
    kVectorPort = rule_value(14, 1, 3, CmdStatus::kBadParam),
    kVectorLid = rule_value(14, 1, 4, CmdStatus::kBadParam),
    kVectorSl = rule_value(14, 1, 5, CmdStatus::kBadParam),
    kVectorPathBits = rule_value(14, 1, 6, CmdStatus::kBadParam),
    kVectorRate = rule_value(14, 1, 7, CmdStatus::kBadParam),
    kVectorGid = rule_value(14, 1, 8, CmdStatus::kBadParam),
    kVectorFlowLabel = rule_value(14, 1, 9, CmdStatus::kBadParam),
};

constexpr CmdStatus status_of(Rule rule) {
    return static_cast<CmdStatus>(static_cast<uint32_t>(rule) >> 24);
}

// vendor_error in the completion of a work request that breaks the rule. Rules of structures that a
// WQE shares with commands, such as address vectors, have a CmdStatus instead.
constexpr VendorError vendor_error_of(Rule rule) {
    const auto value = static_cast<uint32_t>(status_of(rule));
    if ((value & kOfWorkRequest) != 0) {
        return static_cast<VendorError>(value & ~kOfWorkRequest);
    }
    return rule == Rule::kNone                          ? VendorError::kNone
           : status_of(rule) == CmdStatus::kBadReserved ? VendorError::kReserved
                                                        : VendorError::kAddressVector;
}

// The rule's number in the manual: section in 23:16, subsection in 15:8, rule in 7:0.
constexpr uint32_t manual_number(Rule rule) {
    return static_cast<uint32_t>(rule) & 0xffffff;
}

// True: the device does not report to the driver that the rule is broken.
[[nodiscard]] constexpr bool is_silent(Rule rule) {
    const auto effect = static_cast<Effect>(status_of(rule));
    return effect == Effect::kIgnored || effect == Effect::kNamed;
}

}  // namespace pib::hca
