// SPDX-License-Identifier: GPL-2.0-or-later
// The performance management agent and QP1, and the errors that ports count.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

// Offsets of fields of PortCounters, from the start of its MAD (IBA table 223).
constexpr size_t kRcvErrorsAt = kPerfData + 8;
constexpr size_t kOverrunsAt = kPerfData + 15;
constexpr size_t kVl15DroppedAt = kPerfData + 18;
constexpr size_t kXmitDataAt = kPerfData + 24;
constexpr size_t kRcvDataAt = kPerfData + 28;
constexpr size_t kXmitPacketsAt = kPerfData + 32;
constexpr size_t kRcvPacketsAt = kPerfData + 36;

void prepare(Trial& t) {
    t.bring_up();
}

Mad counters_of(uint8_t port, Method method = Method::kGet) {
    Mad mad{.mad_class = MadClass::kPerf, .method = method, .attribute = attribute::kPortCounters};
    mad.data = Bytes(3);
    mad.data[1] = port;
    return mad;
}

Bytes ask(Trial& t, const Mad& mad, const Trial::Change& change = {}) {
    Packet packet = gmp_packet(mad, Trial::kStrangerLid, Trial::kLid);
    if (change) {
        change(packet);
    }
    return t.ask(packet);
}

void note_answer(Trial& t, const Bytes& answer) {
    t.note(answer.size() != kMadBytes ? "no answer"
                                      : "status " + std::to_string(number_at(answer, 4, 2)));
}

void asks(Trial& t, const Mad& mad, const Trial::Change& change = {}) {
    note_answer(t, ask(t, mad, change));
}

// Notes by how much the stimulus raises a counter of PortCounters.
void counts(Trial& t, size_t at, unsigned bytes, void (*stimulus)(Trial&)) {
    t.connect();
    const uint64_t before = number_at(ask(t, counters_of(1)), at, bytes);
    stimulus(t);
    const uint64_t after = number_at(ask(t, counters_of(1)), at, bytes);
    t.seen();
    t.note("+" + std::to_string(after - before));
}

void damaged(Trial& t) {
    Bytes bytes = write(t.request(kSendOnly, 0, 8));
    bytes.back() ^= 1;
    t.put_bytes(bytes);
}

constexpr Check kChecks[] = {
    {"G01", "16.1.2", "Get(PortCounters) of port 1 is answered.",
     [](Trial& t) { asks(t, counters_of(1)); }, "status 0"},
    {"G02", "16.1.1", "Get(ClassPortInfo) is answered.",
     [](Trial& t) {
         asks(t, {.mad_class = MadClass::kPerf, .attribute = attribute::kClassPortInfo});
     },
     "status 0"},
    {"G03", "16.1.4", "Get(PortCountersExtended) is answered.",
     [](Trial& t) {
         Mad mad = counters_of(1);
         mad.attribute = attribute::kPortCountersExtended;
         asks(t, mad);
     },
     "status 0"},
    {"G04", "16.1.3", "Get(PortCounters) of a port that does not exist has status 7.",
     [](Trial& t) { asks(t, counters_of(9)); }, "status 28"},
    {"G05", "16.1.3", "Get(PortCounters) of all ports is not supported by an adapter: status 7.",
     [](Trial& t) { asks(t, counters_of(0xff)); }, "status 28"},
    {"G06", "13.4.7", "Get of an unknown attribute is not supported: status 3.",
     [](Trial& t) { asks(t, {.mad_class = MadClass::kPerf, .attribute = 0x7777}); }, "status 12"},
    {"G07", "13.4.7", "An unknown method is not supported: status 2.",
     [](Trial& t) { asks(t, counters_of(1, static_cast<Method>(0x12))); }, "status 8"},
    {"G08", "13.4.7", "Another class version has status 1.",
     [](Trial& t) {
         Mad mad = counters_of(1);
         mad.class_version = 9;
         asks(t, mad);
     },
     "status 4"},
    {"G09", "13.4.5", "A GetResp that answers nothing gets no answer.",
     [](Trial& t) { asks(t, counters_of(1, Method::kGetResp)); }, "no answer"},
    {"G10", "10.2.5", "A MAD to QP 1 with another Q_Key is dropped.",
     [](Trial& t) { asks(t, counters_of(1), [](Packet& p) { p.qkey = 1; }); }, "no answer"},
    {"G11", "10.9.8", "A MAD to QP 1 with a P_Key that is not in the table is dropped.",
     [](Trial& t) { asks(t, counters_of(1), [](Packet& p) { p.pkey = 0x8123; }); }, "no answer"},
    {"G12", "9.6.1.5", "A MAD to QP 1 on VL15 is dropped.",
     [](Trial& t) { asks(t, counters_of(1), [](Packet& p) { p.vl = 15; }); }, "no answer"},
    {"G13", "9.6.1.2.3", "A MAD to QP 1 with a GRH to another GID is dropped.",
     [](Trial& t) {
         asks(t, counters_of(1), [](Packet& p) { p.grh = Grh{.sgid = {}, .dgid = {0xfe}}; });
     },
     "no answer"},
    {"G14", "13.5.4", "The answer goes to the LID and QP that asked.",
     [](Trial& t) {
         Packet p = gmp_packet(counters_of(1), 0x77, Trial::kLid);
         p.source_qp = 0x4321;
         t.put(p);
         const Packet answer = t.stranger.take_packets()[0];
         t.note(answer.dlid == 0x77 && answer.dest_qp == 0x4321 && answer.source_qp == 1 &&
                        answer.slid == Trial::kLid && answer.qkey == kGsiQKey
                    ? "right address"
                    : "wrong address");
     },
     "right address"},
    {"G15", "13.5.4", "The answer has the SL of the request.",
     [](Trial& t) {
         Packet p = gmp_packet(counters_of(1), Trial::kStrangerLid, Trial::kLid);
         p.sl = 3;
         t.put(p);
         t.note("SL " + std::to_string(t.stranger.take_packets()[0].sl));
     },
     "SL 3"},
    {"G16", "16.1.3", "PortRcvPkts counts packets that are received.",
     [](Trial& t) { counts(t, kRcvPacketsAt, 4, [](Trial& u) { u.send(kWriteOnly, 0, 0); }); },
     "+2"},
    {"G17", "16.1.3", "PortXmitPkts counts packets that are sent.",
     [](Trial& t) { counts(t, kXmitPacketsAt, 4, [](Trial& u) { u.send(kWriteOnly, 0, 0); }); },
     "+2"},
    {"G18", "16.1.3", "PortRcvData counts words from LRH to ICRC.",
     [](Trial& t) { counts(t, kRcvDataAt, 4, [](Trial& u) { u.send(kWriteOnly, 0, 64); }); },
     "+98"},
    {"G19", "16.1.3", "PortRcvErrors counts a packet whose VCRC is wrong.",
     [](Trial& t) { counts(t, kRcvErrorsAt, 2, damaged); }, "+1"},
    {"G20", "16.1.3", "PortRcvErrors counts a packet whose PktLen is wrong.",
     [](Trial& t) {
         counts(t, kRcvErrorsAt, 2,
                [](Trial& u) { u.send(kSendOnly, 0, 8, [](Packet& p) { p.length = 9; }); });
     },
     "+1"},
    {"G21", "16.1.3", "PortRcvErrors counts a packet on a VL that the port does not have.",
     [](Trial& t) {
         counts(t, kRcvErrorsAt, 2,
                [](Trial& u) { u.send(kSendOnly, 0, 8, [](Packet& p) { p.vl = 14; }); });
     },
     "+1"},
    {"G22", "16.1.3", "PortRcvErrors counts a packet whose payload exceeds the MTU.",
     [](Trial& t) { counts(t, kRcvErrorsAt, 2, [](Trial& u) { u.send(kSendOnly, 0, 4300); }); },
     "+1"},
    {"G23", "16.1.3", "A NAK of the transport is not an error of the port.",
     [](Trial& t) { counts(t, kRcvErrorsAt, 2, [](Trial& u) { u.send(kSendMiddle, 0, 1024); }); },
     "+0"},
    {"G24", "16.1.3", "ExcessiveBufferOverrunErrors does not count packets that fit.",
     [](Trial& t) { counts(t, kOverrunsAt, 1, [](Trial& u) { u.send(kSendOnly, 0, 8); }); }, "+0"},
    {"G25", "16.1.3", "PortXmitData counts words from LRH to ICRC.",
     [](Trial& t) { counts(t, kXmitDataAt, 4, [](Trial& u) { u.send(kWriteOnly, 0, 64); }); },
     "+79"},
    {"G26", "16.1.3", "VL15Dropped does not count SMPs that are answered.",
     [](Trial& t) {
         counts(t, kVl15DroppedAt, 2,
                [](Trial& u) { u.ask(smp_packet({.attribute = attribute::kNodeInfo})); });
     },
     "+0"},
    {"G27", "16.1.3", "Set(PortCounters) with a select bit sets that counter.",
     [](Trial& t) {
         t.connect();
         damaged(t);
         Mad mad = counters_of(1, Method::kSet);
         mad.data.resize(64);
         mad.data[3] = 0x08;  // PortRcvErrors
         ask(t, mad);
         t.note("errors " + std::to_string(number_at(ask(t, counters_of(1)), kRcvErrorsAt, 2)));
     },
     "errors 0"},
    {"G28", "16.1.3", "Set(PortCounters) without a select bit leaves the counter.",
     [](Trial& t) {
         t.connect();
         damaged(t);
         Mad mad = counters_of(1, Method::kSet);
         mad.data.resize(64);
         ask(t, mad);
         t.note("errors " + std::to_string(number_at(ask(t, counters_of(1)), kRcvErrorsAt, 2)));
     },
     "errors 1"},
    {"G29", "16.1.3", "A counter stays at its largest value.",
     [](Trial& t) {
         t.connect();
         Mad mad = counters_of(1, Method::kSet);
         mad.data.resize(64);
         mad.data[3] = 0x08;
         mad.data[8] = mad.data[9] = 0xff;
         ask(t, mad);
         damaged(t);
         t.note("errors " + std::to_string(number_at(ask(t, counters_of(1)), kRcvErrorsAt, 2)));
     },
     "errors 65535"},
    {"G30", "13.4.2", "A MAD to QP 1 of 255 bytes is dropped.",
     [](Trial& t) { asks(t, counters_of(1), [](Packet& p) { p.payload.pop_back(); }); },
     "no answer"},
};

}  // namespace

CheckTable perf_checks() {
    return {"Performance management agent and counters", prepare, kChecks};
}

}  // namespace pib::conformance
