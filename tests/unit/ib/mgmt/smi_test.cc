// SPDX-License-Identifier: GPL-2.0-or-later
// Directed-route rules: single decisions as a table, then whole routes to a node and back.
#include "ib/mgmt/smi.h"

#include <catch2/catch_test_macros.hpp>

using namespace pib::ib;

namespace {

constexpr SmiNode kCa{NodeType::kChannelAdapter, 2};
constexpr SmiNode kSwitch{NodeType::kSwitch, 8};
constexpr uint8_t kIngress = 3;

Mad dr_smp(unsigned hop_pointer, unsigned hop_count, bool returning = false) {
    Mad mad;
    mad.set(mad_header::kBaseVersion, 1);
    mad.set(mad_header::kMgmtClass, static_cast<unsigned>(MgmtClass::kSubnDirectedRoute));
    mad.set(mad_header::kClassVersion, 1);
    mad.set(mad_header::kMethod, static_cast<unsigned>(Method::kGet));
    mad.set(smp::kD, returning ? 1 : 0);
    mad.set(smp::kHopPointer, hop_pointer);
    mad.set(smp::kHopCount, hop_count);
    mad.set(smp::kDrSlid, 0xFFFF);
    mad.set(smp::kDrDlid, 0xFFFF);
    for (size_t i = 1; i < kSmpPathSize; ++i) {
        initial_path(mad)[i] = static_cast<uint8_t>(1 + i % 8);
        return_path(mad)[i] = static_cast<uint8_t>(1 + (i + 3) % 8);
    }
    return mad;
}

struct Case {
    const char* name;
    SmiNode node;
    bool returning;
    unsigned pointer;
    unsigned count;
    SmiAction action;
    unsigned port;           // for kPort
    unsigned pointer_after;  // unless discarded
};

// dr_smp() fills the initial path with ports 2, 3, 4, ..., the return path with 5, 6, 7, 8, 1, ...
constexpr Case kCases[] = {
    {"request for this node, no hop", kCa, false, 0, 0, SmiAction::kLocal, 0, 1},
    {"last hop reaches a CA", kCa, false, 1, 1, SmiAction::kLocal, 0, 2},
    {"last hop reaches a switch", kSwitch, false, 2, 2, SmiAction::kLocal, 0, 3},
    {"a CA does not forward", kCa, false, 1, 2, SmiAction::kDiscard, 0, 0},
    {"a switch forwards", kSwitch, false, 1, 2, SmiAction::kPort, 3, 2},
    {"middle of a long path", kSwitch, false, 4, 63, SmiAction::kPort, 6, 5},
    {"pointer 0 was not advanced by the sender", kSwitch, false, 0, 2, SmiAction::kDiscard, 0, 0},
    {"pointer past the end: arrived by LID", kCa, false, 3, 2, SmiAction::kLocal, 0, 3},
    {"pointer far past the end", kSwitch, false, 4, 2, SmiAction::kDiscard, 0, 0},
    {"path too long", kSwitch, false, 1, 64, SmiAction::kDiscard, 0, 0},
    {"response without a hop", kCa, true, 0, 0, SmiAction::kLocal, 0, 0},
    {"response reaches its first switch", kSwitch, true, 2, 2, SmiAction::kPort, 5, 1},
    {"response reaches a CA in the middle", kCa, true, 2, 2, SmiAction::kDiscard, 0, 0},
    {"response is home", kCa, true, 1, 2, SmiAction::kLocal, 0, 0},
    {"response is home at a switch", kSwitch, true, 1, 2, SmiAction::kLocal, 0, 0},
    {"response with pointer 0", kCa, true, 0, 2, SmiAction::kLocal, 0, 0},
    {"response not yet advanced by the sender", kSwitch, true, 3, 2, SmiAction::kDiscard, 0, 0},
};

}  // namespace

TEST_CASE("the SMI decides on each kind of received SMP") {
    for (const Case& c : kCases) {
        CAPTURE(c.name);
        Mad mad = dr_smp(c.pointer, c.count, c.returning);
        const SmiDecision decision = smi_receive(mad, c.node, kIngress);
        CHECK(decision.action == c.action);
        CHECK(decision.port == c.port);
        if (c.action != SmiAction::kDiscard) {
            CHECK(hop_pointer(mad) == c.pointer_after);
        }
    }
}

TEST_CASE("a channel adapter has no part in the LID-routed ends of a path") {
    const auto received = [](Mad smp, SmiNode node) {
        return smi_receive(smp, node, kIngress).action;
    };
    Mad first = dr_smp(0, 2);
    first.set(smp::kDrSlid, 5);
    CHECK(received(first, kCa) == SmiAction::kDiscard);
    CHECK(received(first, kSwitch) == SmiAction::kPort);
    Mad back_first = dr_smp(3, 2, true);
    back_first.set(smp::kDrDlid, 5);
    CHECK(received(back_first, kCa) == SmiAction::kDiscard);
    CHECK(received(back_first, kSwitch) == SmiAction::kPort);
    Mad last = dr_smp(2, 2);
    last.set(smp::kDrDlid, 5);
    CHECK(received(last, kCa) == SmiAction::kDiscard);
    CHECK(received(last, kSwitch) == SmiAction::kLid);
    Mad back_last = dr_smp(1, 2, true);
    back_last.set(smp::kDrSlid, 5);
    CHECK(received(back_last, kCa) == SmiAction::kDiscard);
    CHECK(received(back_last, kSwitch) == SmiAction::kLid);
}

TEST_CASE("the SMI records the return path") {
    Mad forwarded = dr_smp(1, 2);
    static_cast<void>(smi_receive(forwarded, kSwitch, 6));
    CHECK(return_path(forwarded)[1] == 6);
    Mad arrived = dr_smp(2, 2);
    static_cast<void>(smi_receive(arrived, kCa, 2));
    CHECK(return_path(arrived)[2] == 2);
}

TEST_CASE("a path through a port that does not exist is discarded") {
    for (const uint8_t port : {0, 9, 255}) {
        Mad out = dr_smp(1, 2);
        initial_path(out)[2] = port;
        CHECK(smi_receive(out, kSwitch, kIngress).action == SmiAction::kDiscard);
        Mad back = dr_smp(3, 4, true);
        return_path(back)[2] = port;
        CHECK(smi_receive(back, kSwitch, kIngress).action == SmiAction::kDiscard);
    }
}

TEST_CASE("a channel adapter sends along the initial path") {
    Mad request = dr_smp(0, 2);
    initial_path(request)[1] = 1;
    CHECK(smi_send(request, kCa, 1) == SmiDecision{SmiAction::kPort, 1, {}});
    CHECK(hop_pointer(request) == 1);

    Mad through_other_port = dr_smp(0, 2);
    initial_path(through_other_port)[1] = 2;
    CHECK(smi_send(through_other_port, kCa, 1).action == SmiAction::kDiscard);

    Mad to_itself = dr_smp(0, 0);
    CHECK(smi_send(to_itself, kCa, 1).action == SmiAction::kLocal);
    CHECK(hop_pointer(to_itself) == 1);

    Mad already_on_its_way = dr_smp(1, 2);
    CHECK(smi_send(already_on_its_way, kCa, 1).action == SmiAction::kDiscard);
}

TEST_CASE("a response to the node itself comes back") {
    Mad mad = dr_smp(0, 0);
    CHECK(smi_send(mad, kCa, 1).action == SmiAction::kLocal);
    mad.set(smp::kD, 1);
    CHECK(smi_send(mad, kCa, 1).action == SmiAction::kLocal);
    CHECK(hop_pointer(mad) == 0);
}

TEST_CASE("an SMP travels through two switches and back") {
    Mad mad = dr_smp(0, 3);
    initial_path(mad)[1] = 1;
    initial_path(mad)[2] = 4;
    initial_path(mad)[3] = 7;
    CHECK(smi_send(mad, kCa, 1).port == 1);
    CHECK(smi_receive(mad, kSwitch, 2).port == 4);
    CHECK(smi_receive(mad, kSwitch, 5).port == 7);
    CHECK(smi_receive(mad, kCa, 2).action == SmiAction::kLocal);
    CHECK(hop_pointer(mad) == 4);

    mad.set(smp::kD, 1);
    CHECK(smi_send(mad, kCa, 2) == SmiDecision{SmiAction::kPort, 2, {}});
    CHECK(smi_receive(mad, kSwitch, 7) == SmiDecision{SmiAction::kPort, 5, {}});
    CHECK(smi_receive(mad, kSwitch, 4) == SmiDecision{SmiAction::kPort, 2, {}});
    CHECK(smi_receive(mad, kCa, 1).action == SmiAction::kLocal);
    CHECK(hop_pointer(mad) == 0);
}

TEST_CASE("a LID-routed part precedes the directed route") {
    // LID-routed to a switch, from there two hops; the answer returns by LID.
    Mad mad = dr_smp(0, 2);
    mad.set(smp::kDrSlid, 7);
    CHECK(smi_receive(mad, kSwitch, 5) == SmiDecision{SmiAction::kPort, 2, {}});
    CHECK(hop_pointer(mad) == 1);
    CHECK(smi_receive(mad, kSwitch, 6) == SmiDecision{SmiAction::kPort, 3, {}});
    CHECK(smi_receive(mad, kCa, 1).action == SmiAction::kLocal);
    mad.set(smp::kD, 1);
    CHECK(smi_send(mad, kCa, 1).port == 1);
    CHECK(smi_receive(mad, kSwitch, 3) == SmiDecision{SmiAction::kPort, 6, {}});
    CHECK(smi_receive(mad, kSwitch, 2) == SmiDecision{SmiAction::kLid, 0, Lid(7)});
    CHECK(hop_pointer(mad) == 0);
    CHECK(smi_receive(mad, kCa, 1).action == SmiAction::kLocal);
}

TEST_CASE("a LID-routed part follows the directed route") {
    Mad mad = dr_smp(1, 1);
    mad.set(smp::kDrDlid, 9);
    CHECK(smi_receive(mad, kSwitch, 4) == SmiDecision{SmiAction::kLid, 0, Lid(9)});
    CHECK(hop_pointer(mad) == 2);
    CHECK(smi_receive(mad, kCa, 1).action == SmiAction::kLocal);
    mad.set(smp::kD, 1);
    CHECK(smi_send(mad, kCa, 1, Lid(12)) == SmiDecision{SmiAction::kLid, 0, Lid(12)});
    CHECK(smi_receive(mad, kSwitch, 2) == SmiDecision{SmiAction::kPort, 4, {}});
    CHECK(hop_pointer(mad) == 1);
    CHECK(smi_receive(mad, kCa, 1).action == SmiAction::kLocal);

    Mad at_ca = dr_smp(1, 1);
    at_ca.set(smp::kDrDlid, 9);
    CHECK(smi_receive(at_ca, kCa, 1).action == SmiAction::kDiscard);
}

TEST_CASE("no hop pointer or count makes a decision read outside the paths") {
    for (unsigned pointer = 0; pointer < 256; ++pointer) {
        for (unsigned count = 0; count < 256; ++count) {
            for (const bool returning : {false, true}) {
                Mad received = dr_smp(pointer, count, returning);
                const auto decision = smi_receive(received, kSwitch, kIngress);
                Mad sent = dr_smp(pointer, count, returning);
                static_cast<void>(smi_send(sent, kSwitch, 0));
                if (count >= kSmpPathSize) {
                    CHECK(decision.action == SmiAction::kDiscard);
                }
            }
        }
    }
}

TEST_CASE("MADs of other classes are not routed") {
    Mad mad = dr_smp(1, 2);
    mad.set(mad_header::kMgmtClass, static_cast<unsigned>(MgmtClass::kSubnLidRouted));
    CHECK(smi_receive(mad, kSwitch, 1).action == SmiAction::kDiscard);
    CHECK(smi_send(mad, kSwitch, 0).action == SmiAction::kDiscard);
}

TEST_CASE("the SMI passes the SMA's SMPs to it") {
    const auto is_for_sma = [](unsigned method, uint16_t attribute) {
        Mad mad = dr_smp(0, 0);
        mad.set(mad_header::kMethod, method);
        mad.set(mad_header::kAttributeId, attribute);
        return smp_is_for_sma(mad);
    };
    CHECK(is_for_sma(0x01, attr::kNodeInfo));
    CHECK(is_for_sma(0x02, attr::kPortInfo));
    CHECK(is_for_sma(0x07, attr::kNotice));
    CHECK(is_for_sma(0x03, attr::kNodeInfo));
    CHECK_FALSE(is_for_sma(0x01, attr::kSmInfo));
    CHECK_FALSE(is_for_sma(0x81, attr::kNodeInfo));
    CHECK_FALSE(is_for_sma(0x05, attr::kNotice));
}
