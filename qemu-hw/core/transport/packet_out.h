// SPDX-License-Identifier: GPL-2.0-or-later
// From a QP's address and a packet's headers to room in the port's send buffer.
#pragma once

#include <algorithm>
#include <optional>

#include "ib/wire/packet_run.h"
#include "port/port.h"
#include "qp/qp.h"

namespace pib::hca {

class QpServices;
struct Located;
struct ReferenceOwner;

// What became of a packet that was to be sent.
enum class Sent : uint8_t {
    kYes,
    kBlocked,    // the port has no room; nothing happened, and port_ready() follows
    kNoPayload,  // the payload could not be read from guest memory; nothing was sent
};

// Fills LRH and GRH for a packet along `av` (IBA 7.7, 8.3).
void address_packet(ib::PacketHeaders& headers, const pib_hca_av& av, const Port& port);

// LRH, GRH and the BTH fields that every packet of a connected QP has. `operation`: the opcode
// without its transport.
ib::PacketHeaders connected_headers(const QueuePair& qp, const Port& port, uint8_t operation,
                                    ib::Psn psn);

// Of a packet with these headers and so many bytes, LRH to padding.
inline TxRequest tx_request(const Outlet& to, const ib::PacketHeaders& headers, size_t bytes,
                            bool vl15 = false) {
    return {.dlid = headers.lrh.dlid.value(),
            .sl = headers.lrh.sl.value(),
            .vl15 = vl15,
            .bytes = static_cast<uint32_t>(bytes),
            .static_rate = to.static_rate};
}

// Sends one packet. `fill` writes the payload into its place and returns whether it could;
// `observe` sees the packet before it goes.
template <typename Fill, typename Observe>
Sent send_packet(const Outlet& to, const ib::PacketHeaders& headers, uint32_t payload_bytes,
                 Fill&& fill, Observe&& observe, bool vl15 = false) {
    const auto size = ib::packet_size(headers, payload_bytes, ib::Crcs::kElided);
    if (!size) {
        return Sent::kNoPayload;
    }
    const std::span<uint8_t> room = to.port.begin_packet(tx_request(to, headers, *size, vl15));
    if (room.empty()) {
        return Sent::kBlocked;
    }
    auto builder = ib::PacketBuilder::begin(room, headers, payload_bytes, ib::Crcs::kElided);
    if (!builder || (payload_bytes != 0 && !fill(builder->payload()))) {
        return Sent::kNoPayload;
    }
    observe(std::span<const uint8_t>(builder->finish()));
    to.port.commit_packet();
    return Sent::kYes;
}

template <typename Fill>
Sent send_packet(const Outlet& to, const ib::PacketHeaders& headers, uint32_t payload_bytes,
                 Fill&& fill) {
    return send_packet(to, headers, payload_bytes, fill, [](auto) {});
}

// How many packets, at most `wanted`, the port takes as one run with this one as its longest.
inline uint32_t run_limit(const Outlet& to, const ib::PacketHeaders& longest, uint32_t mtu,
                          uint32_t wanted) {
    const auto size = ib::packet_size(longest, mtu, ib::Crcs::kElided);
    if (wanted < 2 || !size) {
        return 0;
    }
    return std::min(wanted, to.port.run_limit(tx_request(to, longest, *size), mtu));
}

// As run_limit(), of runs whose payload stays where it is.
inline uint32_t reference_limit(const Outlet& to, const ib::PacketHeaders& longest, uint32_t mtu,
                                uint32_t wanted) {
    const auto size = ib::packet_size(longest, mtu, ib::Crcs::kElided);
    return size ? std::min(wanted, to.port.reference_limit(tx_request(to, longest, *size), mtu))
                : 0;
}

// The ends of a run, and what it carries.
struct RunOut {
    ib::PacketHeaders first{};
    ib::PacketHeaders last{};
    uint32_t packets = 0;
    uint32_t mtu = 0;
    uint32_t payload_bytes = 0;
};

// Sends consecutive packets as one run. Unless that is kYes nothing has happened, and they can be
// sent singly.
template <typename Fill>
Sent send_run(const Outlet& to, const RunOut& run, Fill&& fill) {
    const auto size =
        ib::RunBuilder::size(run.first, run.last, run.packets, run.mtu, run.payload_bytes);
    if (!size) {
        return Sent::kNoPayload;
    }
    const std::span<uint8_t> room =
        to.port.begin_run(tx_request(to, run.first, size->longest()), *size);
    if (room.empty()) {
        return Sent::kBlocked;
    }
    if (!fill(ib::RunBuilder::begin(room, *size, run.first, run.last, run.payload_bytes))) {
        return Sent::kNoPayload;
    }
    to.port.commit_packet();
    return Sent::kYes;
}

// Sends MIDDLE packets as one run whose payload stays at `located`, where the switch takes it.
// False: nothing has happened.
bool send_by_reference(QpServices& services, const QueuePair& qp, const RunOut& run,
                       const Located& located, const ReferenceOwner& owner);

// A packet without payload.
inline Sent send_packet(const Outlet& to, const ib::PacketHeaders& headers) {
    return send_packet(to, headers, 0, [](auto) { return true; });
}

}  // namespace pib::hca
