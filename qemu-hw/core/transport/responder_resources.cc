// SPDX-License-Identifier: GPL-2.0-or-later
// Requests with a response besides the ACK: READ, atomics, FLUSH and ATOMIC WRITE (IBA 9.4.4,
// 9.4.5, annex A19). Each takes a responder resource, from which a duplicate is answered.
#include <cstring>

#include "transport/inbound_request.h"
#include "transport/request_rights.h"

namespace pib::hca::responder {

namespace {

// Attempts of an atomic to change a word that the guest keeps changing.
constexpr unsigned kAttempts = 1u << 16;

// Takes the oldest resource for the next request.
ResponderResource& next_resource(ResponderState& resp) {
    ResponderResource& resource = resp.resources[resp.resource_head];
    resp.resource_head = (resp.resource_head + 1) % static_cast<uint32_t>(resp.resources.size());
    resp.response_pending = true;
    return resource;
}

ResponderResource read_resource(const ib::PacketView& packet, uint32_t mtu, const KeyUser& user) {
    const ib::Reth reth = *packet.reth();
    const uint32_t packets = packet_count(reth.dma_len, mtu);
    return {.psn_first = packet.bth().psn,
            .packets = packets,
            .end_packet = packets,
            .end_bytes = reth.dma_len,
            .rkey = reth.rkey.value(),
            .length = reth.dma_len,
            .va = reth.va,
            .user = user,
            .valid = true,
            .pending = true};
}

// The resource of a request that one packet answers.
ResponderResource single_resource(const ib::PacketView& packet, ResponseKind kind) {
    return {.psn_first = packet.bth().psn,
            .packets = 1,
            .end_packet = 1,
            .kind = kind,
            .valid = true,
            .pending = true};
}

// Changes the aligned 8-byte word of `range` to next(word), atomically. Returns the old value; no
// value: the word is not accessible, or the guest has changed it in each of kAttempts attempts.
template <typename Next>
std::optional<uint64_t> exchange(Mpt& mpt, const KeyUser& user, const KeyedRange& range,
                                 Next&& next) {
    uint64_t value = 0;
    for (unsigned i = 0; i < kAttempts; ++i) {
        const uint64_t seen = value;
        if (!mpt.cmpxchg64(user, range, value, next(seen))) {
            return std::nullopt;
        }
        if (value == seen) {
            return value;
        }
    }
    return std::nullopt;
}

Check execute_atomic(QpServices& services, QueuePair& qp, const ib::PacketView& packet,
                     ResponderResource& resource) {
    const AtomicRequest request = atomic_request(packet);
    const auto original = exchange(services.mpt(), qp.remote_user(), *named_range(packet),
                                   [&](uint64_t word) { return request.apply(word); });
    if (!original) {
        return cannot_access(services, qp, access_error());
    }
    resource.original_data = *original;
    return std::nullopt;
}

Check execute_atomic_write(QpServices& services, QueuePair& qp, const ib::PacketView& packet) {
    // The payload is 8 bytes of data, not a number: their order in memory is that of the packet.
    uint64_t data;
    std::memcpy(&data, packet.payload().data(), sizeof data);
    const auto original = exchange(services.mpt(), qp.remote_user(), *named_range(packet),
                                   [&](uint64_t) { return data; });
    return original ? Check() : cannot_access(services, qp, access_error());
}

// The newest resource for which `matches` is true; nullptr: there is none. After 2^24 packets an
// older one may have the same PSNs.
template <typename Matches>
ResponderResource* find_newest(ResponderState& resp, Matches&& matches) {
    const size_t size = resp.resources.size();
    for (size_t back = 1; back <= size; ++back) {
        ResponderResource& resource = resp.resources[(resp.resource_head + size - back) % size];
        if (resource.valid && matches(resource)) {
            return &resource;
        }
    }
    return nullptr;
}

// Executes the READ again, within the range of the first request. A packet with another range is
// not a duplicate and is dropped.
void duplicate_read(QpServices& services, QueuePair& qp, const ib::PacketView& packet) {
    const ib::Reth reth = *packet.reth();
    const uint32_t mtu = qp.path_mtu_bytes();
    const auto first_of = [&](const ResponderResource& resource) {
        return psn_distance(packet.bth().psn, resource.psn_first);
    };
    ResponderResource* resource = find_newest(qp.resp, [&](const ResponderResource& candidate) {
        return candidate.kind == ResponseKind::kRead && first_of(candidate) < candidate.packets;
    });
    if (resource == nullptr) {
        return;
    }
    const uint32_t first = first_of(*resource);
    const uint64_t offset = uint64_t{first} * mtu;
    if (reth.rkey.value() != resource->rkey || reth.va != resource->va + offset ||
        reth.dma_len > resource->length - offset) {
        return;
    }
    // A response that is being sent ends here and starts again at packet `first`.
    resource->replay = resource->replay || !resource->pending;
    resource->pending = qp.resp.response_pending = true;
    resource->first_packet = resource->next_packet = first;
    resource->end_packet = first + packet_count(reth.dma_len, mtu);
    resource->end_bytes = static_cast<uint32_t>(offset) + reth.dma_len;
    services.schedule(qp);
}

// Sends the first answer again, without executing the request again (IBA 9.4.5).
void duplicate_other(QpServices& services, QueuePair& qp, const ib::PacketView& packet) {
    const ResponseKind kind =
        packet.opcode().is_atomic() ? ResponseKind::kAtomic : ResponseKind::kEmpty;
    ResponderResource* resource = find_newest(qp.resp, [&](const ResponderResource& candidate) {
        return candidate.kind == kind && candidate.psn_first == packet.bth().psn;
    });
    if (resource != nullptr) {
        resource->replay = resource->replay || !resource->pending;
        resource->pending = qp.resp.response_pending = true;
        resource->next_packet = 0;
        services.schedule(qp);
    }
}

}  // namespace

Check execute_with_resource(QpServices& services, QueuePair& qp, const ib::PacketView& packet) {
    const ib::OpKind kind = packet.opcode().kind;
    ResponderResource resource;
    if (kind == ib::OpKind::kRdmaReadRequest) {
        resource = read_resource(packet, qp.path_mtu_bytes(), qp.remote_user());
        services.count(qp, HcaCounter::kRxReadRequests);
    } else if (packet.opcode().is_atomic()) {
        services.count(qp, HcaCounter::kRxAtomicRequests);
        resource = single_resource(packet, ResponseKind::kAtomic);
        if (const Check error = execute_atomic(services, qp, packet, resource)) {
            return error;
        }
    } else {
        resource = single_resource(packet, ResponseKind::kEmpty);
        if (kind == ib::OpKind::kFlush) {
            services.mpt().flush();
        } else if (const Check error = execute_atomic_write(services, qp, packet)) {
            return error;
        }
    }
    qp.resp.msn = (qp.resp.msn + 1) & 0xffffff;
    resource.msn = qp.resp.msn;
    next_resource(qp.resp) = resource;
    return std::nullopt;
}

void duplicate_with_resource(QpServices& services, QueuePair& qp, const ib::PacketView& packet) {
    if (packet.opcode().kind == ib::OpKind::kRdmaReadRequest) {
        duplicate_read(services, qp, packet);
    } else {
        duplicate_other(services, qp, packet);
    }
}

}  // namespace pib::hca::responder
