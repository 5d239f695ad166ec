// SPDX-License-Identifier: GPL-2.0-or-later
// MAD fields at the byte positions that the subnet manager and the diagnostics rely on.
#include "ib/wire/mad.h"

#include <catch2/catch_test_macros.hpp>

#include "ib/wire/perf_mad.h"

using namespace pib::ib;

namespace {

struct Position {
    Field field;
    unsigned byte;
    unsigned bit;  // from the most significant one
    unsigned width;
};

void check_positions(std::initializer_list<Position> positions) {
    for (const Position& p : positions) {
        CAPTURE(p.byte, p.bit, p.width);
        CHECK(p.field.offset_bits == p.byte * 8 + p.bit);
        CHECK(p.field.width_bits == p.width);
    }
}

}  // namespace

TEST_CASE("MAD header and SMP fields have their places") {
    Mad mad;
    mad.bytes[0] = 1;
    mad.bytes[1] = 0x81;
    mad.bytes[2] = 1;
    mad.bytes[3] = 0x02;
    mad.bytes[4] = 0x80;
    mad.bytes[5] = 0x1C;
    mad.bytes[6] = 3;
    mad.bytes[7] = 4;
    mad.bytes[15] = 0x55;
    mad.bytes[17] = 0x15;
    mad.bytes[23] = 9;
    mad.bytes[31] = 0x77;
    mad.bytes[32] = 0xFF;
    mad.bytes[33] = 0xFF;
    mad.bytes[35] = 0x11;
    mad.bytes[129] = 2;
    mad.bytes[193] = 6;
    CHECK(mad.base_version() == 1);
    CHECK(mad.mgmt_class() == MgmtClass::kSubnDirectedRoute);
    CHECK(mad.method() == Method::kSet);
    CHECK(is_returning(mad));
    CHECK(mad.status() == 0x1C);
    CHECK(hop_pointer(mad) == 3);
    CHECK(hop_count(mad) == 4);
    CHECK(mad.transaction_id() == 0x55);
    CHECK(mad.attribute_id() == attr::kPortInfo);
    CHECK(mad.attribute_modifier() == 9);
    CHECK(m_key(mad) == 0x77);
    CHECK(dr_slid(mad).is_permissive());
    CHECK(dr_dlid(mad) == Lid(0x11));
    CHECK(initial_path(mad)[1] == 2);
    CHECK(return_path(mad)[1] == 6);
    mad.set_status(mad_status::kBadMethod);
    CHECK(is_returning(mad));
    CHECK(mad.status() == mad_status::kBadMethod);
    CHECK(mad.smp_data().data() == mad.bytes.data() + 64);
    CHECK(mad.gmp_data().size() == 192);
}

TEST_CASE("the R bit marks all responses but TrapRepress") {
    Mad mad;
    mad.bytes[3] = 0x81;
    CHECK(mad.is_response());
    mad.bytes[3] = 0x01;
    CHECK_FALSE(mad.is_response());
    mad.bytes[3] = 0x07;
    CHECK(mad.is_response());
}

TEST_CASE("PortInfo fields have their places") {
    using namespace port_info;
    check_positions({{kMKey, 0, 0, 64},
                     {kGidPrefix, 8, 0, 64},
                     {kLid, 16, 0, 16},
                     {kMasterSmLid, 18, 0, 16},
                     {kCapabilityMask, 20, 0, 32},
                     {kDiagCode, 24, 0, 16},
                     {kMKeyLeasePeriod, 26, 0, 16},
                     {kLocalPortNum, 28, 0, 8},
                     {kLinkWidthEnabled, 29, 0, 8},
                     {kLinkWidthSupported, 30, 0, 8},
                     {kLinkWidthActive, 31, 0, 8},
                     {kLinkSpeedSupported, 32, 0, 4},
                     {kPortState, 32, 4, 4},
                     {kPortPhysicalState, 33, 0, 4},
                     {kLinkDownDefaultState, 33, 4, 4},
                     {kMKeyProtectBits, 34, 0, 2},
                     {kLmc, 34, 5, 3},
                     {kLinkSpeedActive, 35, 0, 4},
                     {kLinkSpeedEnabled, 35, 4, 4},
                     {kNeighborMtu, 36, 0, 4},
                     {kMasterSmSl, 36, 4, 4},
                     {kVlCap, 37, 0, 4},
                     {kInitType, 37, 4, 4},
                     {kVlHighLimit, 38, 0, 8},
                     {kVlArbitrationHighCap, 39, 0, 8},
                     {kVlArbitrationLowCap, 40, 0, 8},
                     {kInitTypeReply, 41, 0, 4},
                     {kMtuCap, 41, 4, 4},
                     {kVlStallCount, 42, 0, 3},
                     {kHoqLife, 42, 3, 5},
                     {kOperationalVls, 43, 0, 4},
                     {kPartitionEnforcementInbound, 43, 4, 1},
                     {kPartitionEnforcementOutbound, 43, 5, 1},
                     {kFilterRawInbound, 43, 6, 1},
                     {kFilterRawOutbound, 43, 7, 1},
                     {kMKeyViolations, 44, 0, 16},
                     {kPKeyViolations, 46, 0, 16},
                     {kQKeyViolations, 48, 0, 16},
                     {kGuidCap, 50, 0, 8},
                     {kClientReregister, 51, 0, 1},
                     {kSubnetTimeOut, 51, 3, 5},
                     {kRespTimeValue, 52, 3, 5},
                     {kLocalPhyErrors, 53, 0, 4},
                     {kOverrunErrors, 53, 4, 4},
                     {kMaxCreditHint, 54, 0, 16},
                     {kLinkRoundTripLatency, 57, 0, 24},
                     {kCapabilityMask2, 60, 0, 16},
                     {kLinkSpeedExtActive, 62, 0, 4},
                     {kLinkSpeedExtSupported, 62, 4, 4},
                     {kLinkSpeedExtEnabled, 63, 3, 5}});
}

TEST_CASE("NodeInfo and SwitchInfo fields have their places") {
    using namespace node_info;
    check_positions({{kNodeType, 2, 0, 8},
                     {kNumPorts, 3, 0, 8},
                     {kSystemImageGuid, 4, 0, 64},
                     {kNodeGuid, 12, 0, 64},
                     {kPortGuid, 20, 0, 64},
                     {kPartitionCap, 28, 0, 16},
                     {kDeviceId, 30, 0, 16},
                     {kRevision, 32, 0, 32},
                     {kLocalPortNum, 36, 0, 8},
                     {kVendorId, 37, 0, 24}});
    check_positions({{switch_info::kLinearFdbTop, 6, 0, 16},
                     {switch_info::kDefaultPort, 8, 0, 8},
                     {switch_info::kLifeTimeValue, 11, 0, 5},
                     {switch_info::kPortStateChange, 11, 5, 1},
                     {switch_info::kOptimizedSlToVlMapping, 11, 6, 2},
                     {switch_info::kLidsPerPort, 12, 0, 16},
                     {switch_info::kPartitionEnforcementCap, 14, 0, 16},
                     {switch_info::kInboundEnforcementCap, 16, 0, 1},
                     {switch_info::kEnhancedPort0, 16, 4, 1},
                     {switch_info::kMulticastFdbTop, 18, 0, 16}});
}

TEST_CASE("fields of performance attributes have their places") {
    check_positions({{pma::kPortSelect, 1, 0, 8},
                     {pma::kCounterSelect, 2, 0, 16},
                     {port_counters::kSymbolErrors, 4, 0, 16},
                     {port_counters::kLinkErrorRecovery, 6, 0, 8},
                     {port_counters::kLinkDowned, 7, 0, 8},
                     {port_counters::kPortXmitConstraintErrors, 16, 0, 8},
                     {port_counters::kCounterSelect2, 18, 0, 8},
                     {port_counters::kLocalLinkIntegrityErrors, 19, 0, 4},
                     {port_counters::kExcessiveBufferOverrunErrors, 19, 4, 4},
                     {port_counters::kVl15Dropped, 22, 0, 16},
                     {port_counters::kPortXmitData, 24, 0, 32},
                     {port_counters::kPortRcvPkts, 36, 0, 32},
                     {port_counters::kPortXmitWait, 40, 0, 32},
                     {port_counters_ext::kPortXmitData, 8, 0, 64},
                     {port_counters_ext::kPortMulticastRcvPkts, 64, 0, 64},
                     {port_counters_ext::kQp1Dropped, 176, 0, 64},
                     {port_vl_xmit_flow_ctl_update_errors::kFirst.next(15), 7, 6, 2},
                     {port_vl_xmit_wait_counters::kFirst.next(15), 34, 0, 16},
                     {port_data_sl::kFirst.next(15), 64, 0, 32},
                     {port_extended_speeds::kCounterSelect, 8, 0, 64},
                     {port_extended_speeds::kErrorDetectionLane0.next(11), 42, 0, 16},
                     {port_extended_speeds::kFecUncorrectableBlocksLane0.next(11), 136, 0, 32},
                     {port_samples_control::kTick, 2, 0, 8},
                     {port_samples_control::kCounterMasks10To14, 8, 1, 15},
                     {port_samples_control::kSampleStatus, 11, 6, 2},
                     {port_samples_control::kTag, 36, 0, 16}});
}

TEST_CASE("Notice fields have their places") {
    check_positions({{notice::kIsGeneric, 0, 0, 1},
                     {notice::kProducerType, 1, 0, 24},
                     {notice::kTrapNumber, 4, 0, 16},
                     {notice::kIssuerLid, 6, 0, 16},
                     {notice_details::kLid128, 10, 0, 16},
                     {notice_details::kLid, 12, 0, 16},
                     {notice_details::kCapabilityMask, 16, 0, 32},
                     {notice_details::kMKey, 24, 0, 64},
                     {notice_details::kDrHopCount, 33, 2, 6},
                     {notice_details::kQp1, 21, 0, 24},
                     {notice_details_259::kSwitchLid, 58, 0, 16},
                     {notice_details_259::kPortNumber, 60, 0, 8}});
}
