// SPDX-License-Identifier: GPL-2.0-or-later
#include "commands/object_dump.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/json.h"
#include "base/name_table.h"
#include "base/status_name.h"
#include "port/hca_port.h"
#include "qp/qp.h"
#include "queues/posted_receives.h"

namespace pib::hca {

namespace {

constexpr std::array<const char*, 7> kStates = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
constexpr std::array<const char*, 3> kMigration = {"MIGRATED", "REARM", "ARMED"};
constexpr std::array<const char*, 3> kArms = {"none", "solicited", "next"};
// kRequests has names by SendOpcode, kCompletions by CompletionOpcode except those of receives.
constexpr std::array<const char*, 15> kRequests = {
    "SEND",     "SEND_WITH_IMM", "RDMA_WRITE",    "RDMA_WRITE_WITH_IMM", "RDMA_READ",
    "CMP_SWAP", "FETCH_ADD",     "SEND_WITH_INV", "LOCAL_INV",           "BIND_MW",
    "REG_MR",   "FLUSH",         "ATOMIC_WRITE",  "MASKED_CMP_SWAP",     "MASKED_FETCH_ADD"};
constexpr std::array<const char*, 12> kCompletions = {
    "SEND",    "RDMA_WRITE", "RDMA_READ", "CMP_SWAP",     "FETCH_ADD",       "LOCAL_INV",
    "BIND_MW", "REG_MR",     "FLUSH",     "ATOMIC_WRITE", "MASKED_CMP_SWAP", "MASKED_FETCH_ADD"};
constexpr uint32_t kDumpedRequests = 8;  // a QP's window may have more
constexpr uint32_t kDumpedReceives = 4;  // a ring may have more

// The objects to dump: all of them, or one.
struct Selection {
    std::optional<uint64_t> number;
    uint32_t found = 0;

    bool take(uint64_t candidate) {
        const bool taken = !number || *number == candidate;
        found += taken ? 1 : 0;
        return taken;
    }
};

// Writes a list of at most kDumpedObjects objects.
class List {
  public:
    List(JsonWriter& out, const char* kind, uint32_t count, Selection& selection)
        : out_(out), selection_(selection) {
        out_.begin_object(kind);
        out_.member("count", count);
        out_.begin_array("entries");
    }
    ~List() {
        out_.end_array();
        out_.end_object();
    }
    List(const List&) = delete;
    List& operator=(const List&) = delete;

    template <typename F>
    void add(uint64_t number, F&& members) {
        if (written_ < kDumpedObjects && selection_.take(number)) {
            ++written_;
            out_.begin_object();
            members();
            out_.end_object();
        }
    }

  private:
    JsonWriter& out_;
    Selection& selection_;
    uint32_t written_ = 0;
};

void write_queue(JsonWriter& out, const WorkQueue& queue) {
    out.member("depth", queue.depth());
    out.member("consumer", queue.consumer);
    out.member("producer", queue.producer);
}

void dump_queue(JsonWriter& out, const char* key, const WorkQueue& queue) {
    out.begin_object(key);
    write_queue(out, queue);
    out.end_object();
}

// Writes a receive queue, without "posted" and "wqes" if posted_receives() has no result.
void dump_receives(JsonWriter& out, const char* key, Host& host, const GuestBuffer& buffer,
                   const WorkQueue& queue, ReceiveRing ring) {
    out.begin_object(key);
    write_queue(out, queue);
    if (const auto posted = posted_receives(host, buffer, queue, ring, kDumpedReceives)) {
        out.member("posted", posted->count);
        out.begin_array("wqes");
        for (const PostedReceive& one : posted->entries) {
            out.begin_object();
            out.member("counter", one.counter);
            out.member("bytes", one.bytes);
            out.member("sges", one.num_sge);
            out.member("valid", one.valid);
            out.end_object();
        }
        out.end_array();
    }
    out.end_object();
}

void dump_window(JsonWriter& out, const SendWindow& window) {
    out.begin_array("wqes");
    for (uint32_t n = 0; n < std::min(window.size(), kDumpedRequests); ++n) {
        const SendRequest& request = window.at(n);
        out.begin_object();
        out.member("counter", request.counter);
        out.member("opcode", name_at(kRequests, request.wqe.opcode));
        out.member("bytes", request.wqe.data.length);
        out.member("psn", request.psn_first.value());
        out.member("packets", request.packets);
        out.member("started", request.started);
        out.end_object();
    }
    out.end_array();
}

const char* completion_name(CompletionOpcode opcode) {
    return opcode == CompletionOpcode::kRecv              ? "RECV"
           : opcode == CompletionOpcode::kRecvRdmaWithImm ? "RECV_RDMA_WITH_IMM"
                                                          : name_at(kCompletions, opcode);
}

void dump_completions(JsonWriter& out, const PastCompletions& past) {
    out.begin_array("cqes");
    past.for_each([&](const PastCompletions::Entry& entry) {
        out.begin_object();
        out.member("time_ns", entry.time_ns);
        out.member("qpn", entry.qpn);
        out.member("counter", entry.wqe_counter);
        out.member("opcode", completion_name(entry.opcode));
        out.member("bytes", entry.byte_count);
        out.member("status", status_name(entry.status));
        out.end_object();
    });
    out.end_array();
}

void dump_requester(JsonWriter& out, const QueuePair& qp) {
    out.begin_object("requester");
    out.member("una", qp.req.una.value());
    out.member("cursor", qp.req.cursor.value());
    out.member("sent_end", qp.req.sent_end.value());
    out.member("next", qp.req.next.value());
    out.member("in_window", qp.window.size());
    out.member("retries_left", qp.req.retries_left);
    out.member("rnr_retries_left", qp.req.rnr_retries_left);
    out.member("rd_outstanding", qp.req.rd_atomic_outstanding);
    dump_window(out, qp.window);
    out.end_object();
}

void dump_responder(JsonWriter& out, const QueuePair& qp) {
    out.begin_object("responder");
    out.member("expected_psn", qp.resp.expected_psn.value());
    out.member("msn", qp.resp.msn);
    out.member("nak_sent", qp.resp.nak_sent);
    out.member("received", qp.resp.received);
    if (qp.resp.recv.valid) {
        out.begin_object("receive");
        out.member("counter", qp.resp.recv.counter);
        out.member("srq", qp.resp.recv.srqn);
        out.member("bytes", qp.resp.recv.data.length);
        out.end_object();
    }
    out.end_object();
}

void dump_path(JsonWriter& out, const char* key, const AddressVector& av, uint8_t port,
               uint16_t pkey_index) {
    out.begin_object(key);
    out.member("port", port);
    out.member("dlid", av.dlid);
    out.member("sl", av.sl);
    out.member("src_path_bits", av.src_path_bits);
    out.member("pkey_index", pkey_index);
    out.member("grh", av.has_grh);
    if (av.has_grh) {
        out.hex("dgid", av.dgid);
        out.member("sgid_index", av.sgid_index);
    }
    out.end_object();
}

void dump_connection(JsonWriter& out, const QueuePair& qp) {
    out.member("dest_qpn", static_cast<uint32_t>(qp.attr.dest_qpn));
    out.member("path_mtu", qp.attr.path_mtu);
    out.member("timeout", qp.attr.timeout);
    out.member("retry_cnt", qp.attr.retry_cnt);
    out.member("rnr_retry", qp.attr.rnr_retry);
    out.member("max_rd_atomic", qp.attr.max_rd_atomic);
    out.member("max_dest_rd_atomic", qp.attr.max_dest_rd_atomic);
    out.hex("access", qp.attr.access_flags);
    out.member("path_mig_state", name_at(kMigration, qp.attr.path_mig_state));
    dump_path(out, "path", qp.attr.av, qp.attr.port, qp.attr.pkey_index);
    dump_path(out, "alt_path", qp.attr.alt_av, qp.attr.alt_port, qp.attr.alt_pkey_index);
    dump_requester(out, qp);
    dump_responder(out, qp);
}

void dump_qp(JsonWriter& out, Host& host, const QueuePair& qp) {
    // Names by the type's number; no type has the numbers 5 to 8.
    static constexpr std::array<const char*, 11> kTypes = {
        "SMI", "GSI", "RC", "UC", "UD", "?", "?", "?", "?", "XRC_INI", "XRC_TGT"};
    out.member("qpn", qp.qpn);
    out.member("type", name_at(kTypes, qp.type));
    out.member("state", name_at(kStates, qp.state));
    out.member("pd", qp.pd);
    out.member("send_cq", qp.send_cq);
    out.member("recv_cq", qp.recv_cq);
    out.member("srq", qp.srq);
    out.member("uar", qp.uar);
    out.member("port", qp.port());
    out.member("mcast_groups", qp.mcast_groups);
    out.member("sq_draining", qp.sq_draining);
    out.member("blocked", qp.scheduling.blocked);
    dump_queue(out, "sq", qp.sq);
    dump_receives(out, "rq", host, qp.buffer, qp.rq, ReceiveRing::kOwn);
    if (qp.is_connected()) {
        dump_connection(out, qp);
    } else {
        out.hex("qkey", static_cast<uint32_t>(qp.attr.qkey));
        out.member("pkey_index", static_cast<uint16_t>(qp.attr.pkey_index));
    }
}

void dump_qps(JsonWriter& out, DeviceObjects& objects, Selection& selection) {
    uint32_t count = 0;
    objects.transport.verbs().for_each([&](const QueuePair&) { ++count; });
    List list(out, "qps", count, selection);
    objects.transport.verbs().for_each(
        [&](const QueuePair& qp) { list.add(qp.qpn, [&] { dump_qp(out, objects.host, qp); }); });
}

void dump_cqs(JsonWriter& out, DeviceObjects& objects, Selection& selection) {
    List list(out, "cqs", objects.cqs.count(), selection);
    objects.cqs.for_each([&](uint32_t cqn, const CompletionQueue& cq) {
        list.add(cqn, [&] {
            out.member("cqn", cqn);
            out.member("eqn", cq.eqn);
            out.member("uar", cq.uar);
            out.member("depth", 1u << cq.log_depth);
            out.member("producer", cq.producer);
            out.member("consumer", cq.consumer);
            out.member("armed", name_at(kArms, cq.arm));
            out.member("error", cq.error);
            out.member("users", cq.users);
            dump_completions(out, cq.past);
        });
    });
}

void dump_srqs(JsonWriter& out, DeviceObjects& objects, Selection& selection) {
    List list(out, "srqs", objects.srqs.count(), selection);
    objects.srqs.for_each([&](uint32_t srqn, const SharedReceiveQueue& srq) {
        list.add(srqn, [&] {
            out.member("srqn", srqn);
            out.member("pd", srq.pd);
            out.member("limit", srq.limit);
            out.member("error", srq.error);
            out.member("users", srq.users);
            dump_receives(out, "queue", objects.host, srq.buffer, srq.queue, ReceiveRing::kShared);
        });
    });
}

void dump_eqs(JsonWriter& out, DeviceObjects& objects, Selection& selection) {
    List list(out, "eqs", objects.eqs.count(), selection);
    objects.eqs.for_each([&](uint32_t eqn, const EventQueue& eq) {
        list.add(eqn, [&] {
            out.member("eqn", eqn);
            out.member("vector", eq.vector);
            out.member("depth", 1u << eq.log_depth);
            out.member("producer", eq.producer);
            out.member("consumer", eq.consumer);
            out.member("armed", eq.armed);
            out.member("async", eq.async);
            out.member("users", eq.users);
        });
    });
}

// One entry of the memory protection table.
struct KeyDump {
    JsonWriter& out;
    uint32_t key;

    void operator()(const MemoryRegion& region) const {
        // Indexed like the variant MemoryRegion::memory.
        constexpr const char* kKinds[] = {"region", "fast", "physical", "on-demand"};
        out.member("kind", kKinds[region.memory.index()]);
        out.hex("key", key | region.key);
        out.member("pd", region.pd);
        out.hex("access", region.access);
        out.hex("iova", region.iova);
        out.member("length", region.length);
        out.member("valid", !region.is_free());
        out.member("windows", region.windows);
        out.member("pages", region.pages() != nullptr ? region.pages()->listed_pages() : 0);
    }
    void operator()(const MemoryWindow& window) const {
        out.member("kind", window.type == PIB_HCA_MW_TYPE_1 ? "window-1" : "window-2B");
        out.hex("key", key | window.key);
        out.member("pd", window.pd);
        out.member("bound", window.bound);
        out.hex("access", window.access);
        out.hex("addr", window.addr);
        out.member("length", window.length);
    }
};

void dump_keys(JsonWriter& out, DeviceObjects& objects, Selection& selection) {
    List list(out, "mrs", objects.mpt.keys().count(), selection);
    objects.mpt.visit([&](uint32_t key, const auto& entry) {
        list.add(key | entry.key, [&] { KeyDump{.out = out, .key = key}(entry); });
    });
}

void dump_ports(JsonWriter& out, DeviceObjects& objects, Selection& selection) {
    List list(out, "ports", objects.config.port_count, selection);
    for (uint32_t number = 1; number <= objects.config.port_count; ++number) {
        const ib::PortAttrs& port = objects.ports.sma().port(number);
        const link::LinkEndpoint* endpoint = objects.ports.find(number)->endpoint();
        const bool one_copy = endpoint != nullptr && endpoint->peer_copy().can_offer();
        list.add(number, [&] {
            out.member("port", number);
            out.member("state", static_cast<uint8_t>(port.state()));
            out.member("phys_state", static_cast<uint8_t>(port.phys_state()));
            out.member("lid", port.lid().value());
            out.member("lmc", port.lmc());
            out.member("sm_lid", port.sm_lid().value());
            out.member("neighbor_mtu", static_cast<uint8_t>(port.neighbor_mtu()));
            out.member("copies", one_copy ? "one" : "three");
            out.hex("gid_prefix", port.gid_prefix());
            out.hex("guid", port.guid().value());
        });
    }
}

void dump_counters(JsonWriter& out, const Counters& counters) {
    out.begin_object("counters");
    out.member("tx_packets", counters.total(HcaCounter::kTxPackets));
    out.member("rx_packets", counters.total(HcaCounter::kRxPackets));
    out.member("rx_dropped", counters.total(HcaCounter::kRxDropped));
    out.member("send_doorbells", counters.total(HcaCounter::kSendDoorbells));
    out.member("interrupts", counters.total(HcaCounter::kInterrupts));
    out.end_object();
}

// The kinds of objects, in the order in which dump_objects() writes them.
constexpr struct {
    std::string_view kind;
    void (*dump)(JsonWriter& out, DeviceObjects& objects, Selection& selection);
} kKinds[] = {{"port", dump_ports}, {"eq", dump_eqs}, {"cq", dump_cqs},
              {"srq", dump_srqs},   {"qp", dump_qps}, {"mr", dump_keys}};

}  // namespace

std::string dump_object(DeviceObjects& objects, std::string_view kind, uint64_t number) {
    JsonWriter out;
    Selection selection{.number = number};
    out.begin_object();
    for (const auto& row : kKinds) {
        if (row.kind == kind) {
            row.dump(out, objects, selection);
        }
    }
    out.end_object();
    return selection.found != 0 ? out.text() : "";
}

std::string dump_objects(DeviceObjects& objects) {
    JsonWriter out;
    out.begin_object();
    out.member("now_ns", objects.host.now_ns());
    out.member("uars", objects.uars.count());
    out.member("pds", objects.pds.count());
    Selection all;
    for (const auto& row : kKinds) {
        row.dump(out, objects, all);
    }
    dump_counters(out, objects.counters);
    objects.refusals.write(out);
    out.end_object();
    return out.text();
}

std::string dump_refusals(DeviceObjects& objects) {
    JsonWriter out;
    out.begin_object();
    out.member("now_ns", objects.host.now_ns());
    objects.refusals.write(out);
    out.end_object();
    return out.text();
}

}  // namespace pib::hca
