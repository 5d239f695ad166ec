// SPDX-License-Identifier: GPL-2.0-or-later
// Automatic path migration of an RC QP whose alternate path leads to another LID of the peer.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

using hca::test::MiniDriver;

constexpr uint16_t kOtherLid = 5;
constexpr uint64_t kMillisecond = 1'000'000;

void load(Trial& t) {
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_ALT_PATH | PIB_HCA_QP_ATTR_PATH_MIG_STATE;
    in.path_mig_state = PIB_HCA_MIG_REARM;
    in.alt_av.dlid = kOtherLid;
    in.alt_port = 1;
    in.alt_timeout = 8;
    MiniDriver::must(t.bench.driver.modify(t.qp, in), "MODIFY_QP");
}

void prepare(Trial& t) {
    t.bring_up();
    t.connect({.timeout = 8, .retry_cnt = 1});
    load(t);
}

// Sends an empty WRITE to the device by one of the paths.
void write(Trial& t, uint32_t psn, bool migrated, uint16_t slid) {
    t.send(kWriteOnly, psn, 0, [&](Packet& p) {
        p.migrated = migrated;
        p.slid = slid;
    });
}

void by_primary(Trial& t, uint32_t psn, bool migrated) {
    write(t, psn, migrated, Trial::kStrangerLid);
}

void by_alternate(Trial& t, uint32_t psn, bool migrated) {
    write(t, psn, migrated, kOtherLid);
}

void arm(Trial& t) {
    by_primary(t, 0, false);
    t.seen();
}

void note_state(Trial& t) {
    t.settle();
    static constexpr std::string_view kStates[] = {"Migrated", "Rearm", "Armed"};
    t.note(std::string(kStates[t.bench.driver.query(t.qp).path_mig_state]));
}

// Notes the DLID of the device's last packet, and its MigReq bit.
void note_packet(Trial& t) {
    t.settle();
    const auto packets = t.stranger.take_packets();
    t.note(packets.empty() ? "no packet"
                           : "to LID " + std::to_string(packets.back().dlid) + ", M " +
                                 (packets.back().migrated ? "1" : "0"));
}

constexpr Check kChecks[] = {
    {"V01", "17.2.8", "In Rearm a packet with M 0 by the primary path arms the QP.",
     [](Trial& t) {
         by_primary(t, 0, false);
         note_state(t);
     },
     "Armed; ACK 0 msn 1"},
    {"V02", "17.2.8", "In Rearm a packet with M 1 by the primary path leaves it in Rearm.",
     [](Trial& t) {
         by_primary(t, 0, true);
         note_state(t);
     },
     "Rearm; ACK 0 msn 1"},
    {"V03", "17.2.8", "In Rearm a packet by the alternate path is dropped; an event reports it.",
     [](Trial& t) {
         by_alternate(t, 0, true);
         note_state(t);
     },
     "Rearm; event path failed"},
    {"V04", "17.2.8", "In Armed a packet with M 1 by the alternate path migrates the QP.",
     [](Trial& t) {
         arm(t);
         by_alternate(t, 1, true);
         note_state(t);
     },
     "Migrated; ACK 1 msn 2; event migrated"},
    {"V05", "17.2.8", "In Armed a packet with M 0 by the alternate path is dropped.",
     [](Trial& t) {
         arm(t);
         by_alternate(t, 1, false);
         note_state(t);
     },
     "Armed"},
    {"V06", "17.2.8", "In Armed a packet with M 1 by the primary path is taken without migration.",
     [](Trial& t) {
         arm(t);
         by_primary(t, 1, true);
         note_state(t);
     },
     "Armed; ACK 1 msn 2"},
    {"V07", "17.2.8", "A packet with M 1 from a third LID does not migrate; an event reports it.",
     [](Trial& t) {
         arm(t);
         write(t, 1, true, 9);
         note_state(t);
     },
     "Armed; event path failed"},
    {"V08", "17.2.8", "The event of packets that do not migrate comes once.",
     [](Trial& t) {
         arm(t);
         write(t, 1, true, 9);
         write(t, 1, true, 9);
     },
     "event path failed"},
    {"V09", "17.2.8", "After the migration answers go by the alternate path, with M 1.",
     [](Trial& t) {
         arm(t);
         by_alternate(t, 1, true);
         note_packet(t);
     },
     "to LID 5, M 1; event migrated"},
    {"V10", "17.2.8", "After the migration a packet by the old path is dropped.",
     [](Trial& t) {
         arm(t);
         by_alternate(t, 1, true);
         t.seen();
         by_primary(t, 2, false);
     },
     "nothing"},
    {"V11", "17.2.8", "In Rearm the QP's packets have M 0.",
     [](Trial& t) {
         t.post(PIB_HCA_WQE_RDMA_WRITE, 0);
         note_packet(t);
     },
     "to LID 2, M 0"},
    {"V12", "17.2.8", "In Armed the QP's packets have M 0.",
     [](Trial& t) {
         arm(t);
         t.post(PIB_HCA_WQE_RDMA_WRITE, 0);
         note_packet(t);
     },
     "to LID 2, M 0"},
    {"V13", "17.2.8", "A QP without an alternate path sends with M 1.",
     [](Trial& t) {
         t.connect({.receives = 0});
         t.post(PIB_HCA_WQE_RDMA_WRITE, 0);
         note_packet(t);
     },
     "to LID 2, M 1"},
    {"V14", "17.2.8", "In Armed the requester migrates when its retries are used up.",
     [](Trial& t) {
         arm(t);
         t.post(PIB_HCA_WQE_RDMA_WRITE, 0);
         t.wait(10 * kMillisecond);
         note_packet(t);
         note_state(t);
     },
     "to LID 5, M 1; Migrated; event migrated"},
    {"V15", "17.2.8", "The request that has migrated completes by the alternate path.",
     [](Trial& t) {
         arm(t);
         t.post(PIB_HCA_WQE_RDMA_WRITE, 0);
         t.wait(10 * kMillisecond);
         t.seen();
         t.reply(kAcknowledge, 0, 0x1f, 1, [](Packet& p) { p.slid = kOtherLid; });
     },
     "completed"},
    {"V16", "17.2.8", "In Rearm the requester does not migrate when its retries are used up.",
     [](Trial& t) {
         t.post(PIB_HCA_WQE_RDMA_WRITE, 0);
         t.wait(100 * kMillisecond);
         t.stranger.take_packets();
     },
     "request RETRY_EXC_ERR; receive flushed x4; Error"},
    {"V17", "17.2.8", "An armed QP with a P_Key of another partition by the alternate path stays.",
     [](Trial& t) {
         arm(t);
         t.send(kWriteOnly, 1, 0, [](Packet& p) {
             p.slid = kOtherLid;
             p.pkey = 0x8123;
         });
         note_state(t);
     },
     "Armed; event path failed"},
    {"V18", "17.2.8", "A damaged packet by the alternate path does not migrate.",
     [](Trial& t) {
         arm(t);
         Bytes bytes =
             conformance::write(t.request(kWriteOnly, 1, 0, [](Packet& p) { p.slid = kOtherLid; }));
         bytes.back() ^= 1;
         t.put_bytes(bytes);
         note_state(t);
     },
     "Armed"},
};

}  // namespace

CheckTable migration_checks() {
    return {"Automatic path migration", prepare, kChecks};
}

}  // namespace pib::conformance
