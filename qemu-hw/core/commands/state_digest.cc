// SPDX-License-Identifier: GPL-2.0-or-later
#include "commands/state_digest.h"

#include <algorithm>
#include <type_traits>

#include "port/hca_port.h"
#include "qp/qp.h"
#include "record/output_check.h"

namespace pib::hca {
namespace {

using record::StateKind;

// Hashes fields of an object, in the order of the calls.
class Fields {
  public:
    template <typename... T>
    Fields& operator()(const T&... values) {
        (add(values), ...);
        return *this;
    }
    uint64_t hash() const { return hash_.value(); }

  private:
    template <typename T>
    void add(const T& value) {
        if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
            hash_.add(static_cast<uint64_t>(value));
        } else if constexpr (requires { hash_.add(std::span<const uint8_t>(value)); }) {
            hash_.add(uint64_t{value.size()});
            hash_.add(std::span<const uint8_t>(value));
        } else if constexpr (requires { value.value(); }) {
            hash_.add(static_cast<uint64_t>(value.value()));
        } else {
            describe(value);
        }
    }

    void describe(const GuestBuffer& buffer) {
        uint64_t first = 0;
        uint64_t last = 0;
        const uint64_t bytes = buffer.bytes();
        (void)(bytes != 0 && buffer.bus_address(0, first) && buffer.bus_address(bytes - 1, last));
        (*this)(buffer.page_count(), buffer.listed_pages(), bytes, first, last);
    }
    void describe(const WorkQueue& queue) {
        (*this)(queue.offset, queue.consumer, queue.producer, queue.found, queue.log_depth,
                queue.log_stride, queue.present);
    }
    void describe(const AddressVector& av) {
        (*this)(av.dlid, av.sl, av.port, av.src_path_bits, av.static_rate, av.has_grh,
                av.sgid_index, av.flow_label, av.traffic_class, av.hop_limit, av.dgid);
    }
    void describe(const KeyUser& user) { (*this)(user.pd, user.privileged, user.qpn); }
    void describe(const WqeError& error) { (*this)(error.status); }
    void describe(const PageWait& wait) {
        (*this)(wait.waiting, wait.refused, wait.miss.key, wait.miss.addr, wait.miss.length,
                wait.miss.for_write);
    }
    void describe(const PastCompletions& past) {
        past.for_each([&](const PastCompletions::Entry& entry) {
            (*this)(entry.time_ns, entry.qpn, entry.wqe_counter, entry.byte_count, entry.opcode,
                    entry.status);
        });
    }
    void describe(const ResponderResource& resource) {
        (*this)(resource.psn_first, resource.packets, resource.next_packet, resource.first_packet,
                resource.end_packet, resource.end_bytes, resource.rkey, resource.length,
                resource.msn, resource.va, resource.original_data, resource.user, resource.kind,
                resource.valid, resource.pending, resource.replay);
    }

    record::Hash hash_;
};

class Digest {
  public:
    void add(StateKind kind, uint64_t number, const Fields& fields) {
        state_.push_back({.kind = kind, .number = number, .hash = fields.hash()});
    }
    record::State sorted() && {
        std::ranges::sort(state_);
        return std::move(state_);
    }

  private:
    record::State state_;
};

void add_port(Digest& digest, DeviceObjects& objects, uint32_t number) {
    const ib::PortAttrs& port = objects.ports.sma().port(number);
    Fields attributes;
    attributes(port.info, port.m_key_lease_end_ns, port.led);
    for (const ib::PKey& pkey : port.pkeys) {
        attributes(pkey);
    }
    for (const ib::Guid& guid : port.guids) {
        attributes(guid);
    }
    digest.add(StateKind::kPort, number, attributes);
    const ib::PortCounters& counters = objects.ports.pma().port(number);
    Fields counted;
    for (const ib::Counter counter :
         {ib::Counter::kPortXmitData, ib::Counter::kPortRcvData, ib::Counter::kPortXmitPkts,
          ib::Counter::kPortRcvPkts, ib::Counter::kPortXmitDiscards, ib::Counter::kPortRcvErrors,
          ib::Counter::kPortXmitWait}) {
        counted(counters.value(counter));
    }
    digest.add(StateKind::kPortCounters, number, counted);
    const link::LinkEndpoint* endpoint = objects.ports.find(number)->endpoint();
    Fields link;
    link(endpoint != nullptr, endpoint != nullptr && endpoint->is_up());
    for (unsigned vl = 0; endpoint != nullptr && vl < link::kDataVls; ++vl) {
        link(endpoint->sender().credits(vl), endpoint->sender().granted_to_peer(vl));
    }
    digest.add(StateKind::kLink, number, link);
}

void add_attributes(Fields& fields, const QueuePair& qp) {
    const QpAttributes& attr = qp.attr;
    fields(attr.path_mtu, attr.path_mig_state, attr.qkey, attr.rq_psn, attr.sq_psn, attr.dest_qpn,
           attr.access_flags, attr.pkey_index, attr.alt_pkey_index, attr.av, attr.alt_av, attr.port,
           attr.alt_port, attr.timeout, attr.alt_timeout, attr.retry_cnt, attr.rnr_retry,
           attr.min_rnr_timer, attr.max_rd_atomic, attr.max_dest_rd_atomic);
}

Fields requester_fields(const QueuePair& qp) {
    const RequesterState& req = qp.req;
    Fields fields;
    fields(req.una, req.cursor, req.sent_end, req.next, req.cursor_wqe, req.retries_left,
           req.rnr_retries_left, req.rd_atomic_outstanding, req.packets_since_ack_req, req.ssn,
           req.lsn, req.no_credits, req.offers, req.retry_started, req.timer);
    for (uint32_t n = 0; n < qp.window.size(); ++n) {
        const SendRequest& request = qp.window.at(n);
        fields(request.wqe.opcode, request.wqe.flags, request.wqe.data.length, request.counter,
               request.psn_first, request.psn_asked, request.ssn, request.packets, request.error,
               request.started, qp.window.bytes_at(n));
    }
    return fields;
}

Fields responder_fields(const QueuePair& qp) {
    const ResponderState& resp = qp.resp;
    Fields fields;
    fields(resp.expected_psn, resp.msn, resp.message, resp.received, resp.write_va, resp.write_rkey,
           resp.write_length, resp.recv.valid, resp.recv.srqn, resp.recv.counter, resp.recv.cqn,
           resp.recv.user, resp.recv.bytes, resp.ack.kind, resp.ack.code, resp.ack.psn,
           resp.nak_sent, resp.resource_head, resp.response_pending, resp.communication_established,
           resp.xrc_srqn, resp.xrc_pd);
    for (const ResponderResource& resource : resp.resources) {
        fields(resource);
    }
    return fields;
}

void add_qp(Digest& digest, const QueuePair& qp) {
    Fields fields;
    fields(qp.type, qp.state, qp.pd, qp.send_cq, qp.recv_cq, qp.uar, qp.srq, qp.xrcd, qp.max_inline,
           qp.mcast_groups, qp.special_port, qp.signal_all, qp.privileged, qp.buffer, qp.sq, qp.rq,
           qp.paging.send, qp.paging.recv, qp.paging.response_lost, qp.paging.read_waits,
           qp.migration.alternate_loaded, qp.migration.error_reported, qp.scheduling.queued,
           qp.scheduling.blocked, qp.scheduling.parked, qp.scheduling.last_dlid,
           qp.scheduling.last_sl, qp.reported.fatal, qp.reported.last_wqe, qp.sq_draining);
    add_attributes(fields, qp);
    digest.add(StateKind::kQp, qp.qpn, fields);
    digest.add(StateKind::kRequester, qp.qpn, requester_fields(qp));
    digest.add(StateKind::kResponder, qp.qpn, responder_fields(qp));
}

struct KeyFields {
    Fields operator()(const MemoryRegion& region) const {
        Fields fields;
        fields(region.pd, region.access, region.iova, region.length, region.page_offset, region.key,
               region.windows, region.memory.index(), region.is_free());
        if (const GuestBuffer* pages = region.pages()) {
            fields(*pages);
        }
        return fields;
    }
    Fields operator()(const MemoryWindow& window) const {
        return Fields()(window.pd, window.type, window.key, window.bound, window.access,
                        window.addr, window.length, window.region, window.qpn);
    }
};

void add_queues(Digest& digest, DeviceObjects& objects) {
    objects.eqs.for_each([&](uint32_t eqn, const EventQueue& eq) {
        Fields fields;
        fields(eq.buffer, eq.producer, eq.consumer, eq.vector, eq.log_depth, eq.armed, eq.async,
               eq.last_type, eq.last_number, eq.users, eq.waiting.empty());
        for (const uint32_t cqn : eq.waiting_cqs) {
            fields(cqn);
        }
        digest.add(StateKind::kEq, eqn, fields);
    });
    objects.cqs.for_each([&](uint32_t cqn, const CompletionQueue& cq) {
        digest.add(
            StateKind::kCq, cqn,
            Fields()(cq.buffer, cq.eqn, cq.uar, cq.producer, cq.consumer, cq.solicited_producer,
                     cq.log_depth, cq.arm, cq.error, cq.users, cq.moderation_count,
                     cq.moderation_period, cq.held, cq.held_from, cq.past));
    });
    objects.srqs.for_each([&](uint32_t srqn, const SharedReceiveQueue& srq) {
        Fields fields;
        fields(srq.buffer, srq.queue, srq.pd, srq.limit, srq.users, srq.xrcd, srq.cqn,
               srq.privileged, srq.error);
        for (const auto& wqe : srq.pool) {
            fields(wqe);
        }
        digest.add(StateKind::kSrq, srqn, fields);
    });
}

}  // namespace

record::State state_digest(DeviceObjects& objects, const CommandQueue& commands,
                           uint32_t fatal_cause, const std::string& journal) {
    Digest digest;
    digest.add(StateKind::kDevice, 0,
               Fields()(fatal_cause, commands.running(), commands.consumed(),
                        commands.outstanding(), commands.is_held(), objects.pds.count(),
                        objects.uars.count(), objects.xrcds.count()));
    const std::span text(reinterpret_cast<const uint8_t*>(journal.data()), journal.size());
    digest.add(StateKind::kJournal, 0, Fields()(text));
    for (uint32_t port = 0; port <= objects.config.port_count; ++port) {
        Fields fields;
        for (const uint64_t counter : objects.counters.rows[port]) {
            fields(counter);
        }
        digest.add(StateKind::kCounters, port, fields);
        if (port != 0) {
            add_port(digest, objects, port);
        }
    }
    add_queues(digest, objects);
    objects.transport.verbs().for_each([&](const QueuePair& qp) { add_qp(digest, qp); });
    objects.mpt.visit([&](uint32_t key, const auto& entry) {
        digest.add(StateKind::kMr, key | entry.key, KeyFields()(entry));
    });
    return std::move(digest).sorted();
}

}  // namespace pib::hca
