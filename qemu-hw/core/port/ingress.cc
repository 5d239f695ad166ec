// SPDX-License-Identifier: GPL-2.0-or-later
#include "port/ingress.h"

#include "base/adversary.h"
#include "base/trace.h"

namespace pib::hca {

void Ingress::fault(link::PacketFault fault) {
    const uint64_t now_ns = port_.host.now_ns();
    if (const auto error =
            link_errors_.dropped(fault, port_.attrs(), port_.pma_counters(), now_ns)) {
        ib::tell_link_error(*error, port_.number8(), port_.attrs(), now_ns);
    }
}

bool Ingress::accepts_dlid(const ib::Lrh& lrh) const {
    if (lrh.vl == ib::kVl15) {
        return lrh.dlid.is_permissive() || attributes_.view().owns_lid(lrh.dlid.value());
    }
    return lrh.dlid.is_multicast() || attributes_.view().owns_lid(lrh.dlid.value());
}

// A packet to a group has a multicast LID, a multicast GID and QPN 0xffffff. The DGID of a packet
// to one port is a GID of this port. QP0 and only QP0 uses VL15 (IBA 9.6.1.2.3, 9.6.1.5, C9-53,
// 10.5.2).
bool Ingress::accepts_address(const ib::PacketView& packet) const {
    const ib::Lrh& lrh = packet.lrh();
    const bool to_group = lrh.dlid.is_multicast();
    if (to_group != (packet.bth().dest_qp == ib::kMulticastQpn) ||
        (lrh.vl == ib::kVl15) != (packet.bth().dest_qp == ib::kQp0)) {
        return false;
    }
    if (to_group) {
        return packet.grh() && packet.grh()->dgid.is_multicast();
    }
    return !packet.grh() || attributes_.view().owns_gid(packet.grh()->dgid);
}

// Decides whether the port takes a packet, by link state, VL and DLID (IBA 7.2.7, 7.6, 7.11).
Ingress::Admission Ingress::admit(const ib::Lrh& lrh, bool looped) const {
    const PortView& view = attributes_.view();
    const bool vl15 = lrh.vl == ib::kVl15;
    if (!vl15 && lrh.vl.value() >= view.data_vls) {
        return Admission::kNoVl;
    }
    const bool state = vl15 ? looped || view.link_up : view.receives;
    if (!state || !accepts_dlid(lrh)) {
        return Admission::kDropped;
    }
    return vl15 || view.active ? Admission::kYes : Admission::kWakes;
}

// Whether the packets pass the checks of the link layer. A burst of several packets passes only if
// a single packet would pass without changing the state of the port. The SM may have changed the
// port's state or VLs since the port has queued a looped packet. The packet is then dropped: it is
// neither a sign that the neighbour is Active nor an error of the link.
bool Ingress::passes_link(const ib::Burst& burst, bool looped) {
    const Admission admission = admit(burst.lrh(), looped);
    if (admission == Admission::kYes) [[likely]] {
        return true;
    }
    if (!burst.is_single()) {
        return false;
    }
    if (admission == Admission::kWakes && !looped) {
        // The neighbour sends data, so it is Active, and this port becomes Active as well.
        attributes_.apply(ib::port_data_arrived(port_.attrs()));
        return true;
    }
    if (admission == Admission::kNoVl && !looped) {
        fault(link::PacketFault::kMalformed);
    } else {
        drop();
    }
    return false;
}

void Ingress::count(const ib::Burst& burst, uint32_t packets, bool looped) {
    if (!looped) {
        link_errors_.good(packets);
        port_.pma_counters().count_received(burst.lrh(), burst.size().words(0, packets), packets);
    }
    port_.count(HcaCounter::kRxPackets, packets);
    port_.count(HcaCounter::kRxBytes, burst.size().bytes(0, packets));
}

// Counts a single packet before its delivery, because the packet may be a query of these counters.
// Counts several packets after their delivery, because only those that were taken count.
uint32_t Ingress::receive(ib::Burst& burst, ib::Placement& payload, bool looped) {
    Trace* trace = port_.counters.trace;
    if (burst.is_single()) {
        count(burst, 1, looped);
        if (trace != nullptr) [[unlikely]] {
            trace->packet_in(port_.host.now_ns(), port_.number, burst.bytes().head(),
                             burst.bytes().size());
        }
        (void)take(burst, payload, looped);
        if (trace != nullptr) [[unlikely]] {
            trace->packet_handled();
        }
        return 1;
    }
    const uint32_t taken =
        trace == nullptr ? take(burst, payload, looped) : take_traced(burst, payload, looped);
    if (taken != 0 && !payload.is_offered()) {
        count(burst, taken, looped);
    }
    return taken;
}

// Refuses payload that is not in the burst, so that it arrives packet by packet.
uint32_t Ingress::take_traced(ib::Burst& burst, ib::Placement& payload, bool looped) {
    if (!payload.is_here()) {
        return 0;
    }
    Trace& trace = *port_.counters.trace;
    const uint64_t now_ns = port_.host.now_ns();
    const uint64_t begin = trace.count();
    const uint32_t taken = take(burst, payload, looped);
    if (taken != 0) {
        trace.burst_in(now_ns, port_.number, burst, taken, begin);
    }
    return taken;
}

// An adversarial device loses MADs, because their senders repeat them.
bool Ingress::loses_mad(const ib::Burst& burst) {
    Adversary* adversary = port_.counters.adversary;
    return adversary != nullptr && burst.is_single() &&
           (burst.lrh().vl == ib::kVl15 || burst.first().bth().dest_qp == ib::kQp1) &&
           adversary->loses_mad();
}

uint32_t Ingress::take(ib::Burst& burst, ib::Placement& payload, bool looped) {
    if (!passes_link(burst, looped)) {
        return 0;
    }
    if (!burst.check() || !accepts_address(burst.first())) {
        if (burst.is_single()) {
            drop();
        }
        return 0;
    }
    if (!looped && loses_mad(burst)) [[unlikely]] {
        drop();
        return 1;
    }
    if (burst.lrh().vl == ib::kVl15) {
        return mad_in(burst, payload, mads_.smp_in(burst.first(), looped));
    }
    if (burst.first().bth().dest_qp == ib::kQp1 && burst.is_single()) {
        return mad_in(burst, payload, mads_.gmp_in(burst.first()));
    }
    return port_.client->burst_in(port_.number, burst, payload);
}

uint32_t Ingress::mad_in(const ib::Burst& packet, ib::Placement& payload, PortMads::Taken taken) {
    if (taken == PortMads::Taken::kForeign) {
        (void)port_.client->burst_in(port_.number, packet, payload);
    } else if (taken == PortMads::Taken::kDropped) {
        drop();
    }
    return 1;
}

}  // namespace pib::hca
