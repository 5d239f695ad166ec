// SPDX-License-Identifier: GPL-2.0-or-later
#include "pair.h"

#include <algorithm>
#include <stdexcept>

#include "ib/wire/field.h"

namespace pib::hca::test {

void Pair::put(SentPacket bytes) {
    const auto view = ib::PacketView::parse(bytes, ib::Crcs::kElided);
    if (!view) {
        throw std::runtime_error(std::string("malformed packet sent: ") +
                                 ib::to_string(view.error()));
    }
    ++packets;
    if (tap) {
        tap(*view);
    }
    if ((filter && !filter(*view)) || percent(faults.drop_percent)) {
        return;
    }
    const unsigned copies = percent(faults.duplicate_percent) ? 2 : 1;
    for (unsigned i = 0; i < copies; ++i) {
        const unsigned delay =
            percent(faults.reorder_percent) ? static_cast<unsigned>(random() % 8) + 1 : 0;
        wire_.push_back({bytes, delay});
    }
}

void Pair::carry(Hca& from) {
    while (!from.port.sent.empty()) {
        SentPacket bytes = std::move(from.port.sent.front());
        from.port.sent.pop_front();
        put(std::move(bytes));
    }
    if (from.port.refused) {
        from.port.refused = false;
        from.transport.port_ready(1);
    }
}

namespace {

// Whether `next` may follow `before` in a burst. Burst itself checks all other rules.
bool continues(const ib::PacketView& before, const ib::PacketView& next) {
    const auto position = next.opcode().position;
    return (position == ib::Position::kMiddle || position == ib::Position::kLast) &&
           next.bth().psn == before.bth().psn + 1 && next.lrh().slid == before.lrh().slid &&
           next.bth().dest_qp == before.bth().dest_qp && !before.bth().ack_req;
}

void put_headers(std::vector<uint8_t>& body, size_t at, const ib::PacketView& packet) {
    const size_t bytes = packet.bytes().size() - packet.payload().size() - packet.bth().pad_count;
    std::ranges::copy(packet.bytes().head().first(bytes),
                      body.begin() + static_cast<ptrdiff_t>(at));
}

std::vector<uint8_t> join(std::span<const ib::PacketView> packets) {
    std::vector<uint8_t> body(ib::kBurstPayload);
    body.reserve(ib::kBurstPayload + packets.size() * ib::kMaxPayload);
    ib::store_be(&body[0], static_cast<uint16_t>(packets.size()));
    ib::store_be(&body[2], static_cast<uint16_t>(packets.front().payload().size()));
    put_headers(body, ib::kBurstFirst, packets.front());
    put_headers(body, ib::kBurstLast, packets.back());
    for (const ib::PacketView& packet : packets) {
        body.insert(body.end(), packet.payload().begin(), packet.payload().end());
        body.insert(body.end(), packet.bth().pad_count, 0);
    }
    return body;
}

}  // namespace

// Delivers packets at the front of the wire as one burst; false if they form none.
bool Pair::deliver_burst() {
    std::vector<ib::PacketView> packets;
    for (const InFlight& next : wire_) {
        const auto view = ib::PacketView::parse(next.bytes, ib::Crcs::kElided);
        const bool full = !packets.empty() &&
                          (packets.size() + 1) * packets[0].payload().size() > ib::kMaxBurstPayload;
        // A burst ends before the first packet of an offer, which deliver_offer() may deliver.
        const bool refers =
            !packets.empty() && next.bytes.offer != nullptr && next.bytes.index == 0;
        if (next.delay != 0 || full || refers ||
            (!packets.empty() && !continues(packets.back(), *view))) {
            break;
        }
        packets.push_back(*view);
    }
    if (packets.size() < 2) {
        return false;
    }
    const std::vector<uint8_t> body = join(packets);
    const auto burst =
        ib::Burst::parse(std::span<const uint8_t>(body).first<ib::kBurstPayload>(), body);
    if (!burst) {
        return false;
    }
    ib::BurstHeaders room;
    // A limit, because comparing all packets of the largest messages would take minutes.
    constexpr uint64_t kCompared = 1u << 18;
    for (uint32_t i = 0; i < packets.size() && packets_joined < kCompared; ++i) {
        const ib::PacketBytes packet = burst->packet(i, room);
        std::vector<uint8_t> bytes(packet.size());
        packet.copy_to(bytes);
        if (bytes != wire_[i].bytes) {
            throw std::runtime_error("a burst's packet is not what it was");
        }
    }
    wire_.erase(wire_.begin(), wire_.begin() + static_cast<ptrdiff_t>(packets.size()));
    arrive(*burst);
    return true;
}

// Delivers a complete offer at the front of the wire. Its payload is copied from memory to memory
// if the receiver names a target, otherwise it is sent as packets.
bool Pair::deliver_offer() {
    if (wire_.empty() || !wire_.front().bytes.offer) {
        return false;
    }
    const auto offer = wire_.front().bytes.offer;
    std::vector<ib::PacketView> packets;
    for (const InFlight& next : wire_) {
        if (next.delay != 0 || next.bytes.offer != offer || next.bytes.index != packets.size()) {
            break;
        }
        packets.push_back(*ib::PacketView::parse(next.bytes, ib::Crcs::kElided));
    }
    if (packets.size() != offer->packets) {
        return false;
    }
    std::vector<uint8_t> body = join(packets);
    const std::vector<uint8_t> payload(body.begin() + ib::kBurstPayload, body.end());
    std::fill(body.begin() + ib::kBurstPayload, body.end(), uint8_t{0xdd});
    const auto dlid = packets.front().lrh().dlid.value();
    wire_.erase(wire_.begin(), wire_.begin() + static_cast<ptrdiff_t>(packets.size()));
    if (!offer->memory->is_live(offer->handle)) {
        return true;  // the sender has withdrawn the offer: its packets are lost
    }
    for (Hca* hca : {&a, &b}) {
        if (hca->port.owns_lid(dlid) && !place(*offer, body, *hca)) {
            std::ranges::copy(payload, body.begin() + ib::kBurstPayload);
            arrive(ib::Burst::parse(std::span<const uint8_t>(body).first<ib::kBurstPayload>(), body,
                                    link::kMaxOfferBytes)
                       .value());
        }
    }
    return true;
}

bool Pair::place(const SentOffer& offer, std::span<const uint8_t> body, Hca& to) {
    const auto burst =
        ib::Burst::parse(body.first<ib::kBurstPayload>(), body, link::kMaxOfferBytes).value();
    ib::Placement payload{.form = ib::Placement::Form::kOffered};
    if (to.transport.burst_in(1, burst, payload) == 0) {
        return false;
    }
    to.peer_copy->scatter(payload.where, offer.memory->gather(offer.segments));
    if (while_placing) {
        while_placing();
    }
    payload.form = ib::Placement::Form::kPulled;
    if (to.transport.burst_in(1, burst, payload) == 0) {
        return false;
    }
    packets_joined += burst.count();
    ++offers_placed;
    return true;
}

uint32_t Pair::give(Hca& to, const ib::Burst& burst) {
    ib::Placement here;
    return to.transport.burst_in(1, burst, here);
}

// Delivers a burst as a link does. If the HCA refuses the whole burst, the HCA gets the first
// packet alone, then the rest of the burst.
void Pair::arrive(const ib::Burst& burst) {
    const auto dlid = burst.lrh().dlid.value();
    for (Hca* hca : {&a, &b}) {
        for (uint32_t i = 0; i < burst.count() && hca->port.owns_lid(dlid);) {
            ib::BurstHead head;
            ib::Burst rest = burst.part(i, burst.count() - i, head).value();
            uint32_t taken = rest.is_single() ? 0 : give(*hca, rest);
            packets_joined += taken;
            if (taken == 0) {
                ib::Burst single = burst.part(i, 1, head).value();
                if (!single.check()) {
                    throw std::runtime_error("a packet of a burst is none");
                }
                taken = give(*hca, single);
            }
            i += taken;
        }
    }
}

bool Pair::deliver_one() {
    if (wire_.empty()) {
        return false;
    }
    if (joins_ && (deliver_offer() || deliver_burst())) {
        return true;
    }
    const auto due = std::ranges::find_if(wire_, [](const InFlight& p) { return p.delay == 0; });
    const auto next = due == wire_.end() ? wire_.begin() : due;
    for (auto it = wire_.begin(); it != next; ++it) {
        --it->delay;
    }
    const std::vector<uint8_t> bytes = std::move(next->bytes);
    wire_.erase(next);
    arrive(bytes);
    return true;
}

void Pair::arrive(const std::vector<uint8_t>& bytes) {
    const auto view = ib::PacketView::parse(bytes, ib::Crcs::kElided);
    const ib::Lid dlid = view->lrh().dlid;
    const ib::Lid slid = view->lrh().slid;
    for (Hca* hca : {&a, &b}) {
        const bool to_all = dlid.is_multicast() || dlid.is_permissive();
        const bool own = slid.value() == hca->port.lid();
        if (to_all ? !own : hca->port.owns_lid(dlid.value())) {
            give(*hca, ib::Burst(*view));
        }
    }
}

void Pair::inject(Hca& to, const ib::PacketHeaders& headers, std::span<const uint8_t> payload) {
    std::vector<uint8_t> bytes(ib::kMaxPacket);
    auto builder =
        ib::PacketBuilder::begin(bytes, headers, payload.size(), ib::Crcs::kElided).value();
    builder.gather({{payload}});
    const auto view = ib::PacketView::parse(builder.finish(), ib::Crcs::kElided).value();
    give(to, ib::Burst(view));
    settle();
}

void Pair::settle() {
    for (bool busy = true; busy;) {
        busy = false;
        for (Hca* hca : {&a, &b}) {
            hca->host.woken = false;
            busy = hca->transport.run() || busy;
            carry(*hca);
        }
        // A few packets at a time, so that responses mix with later requests.
        for (int i = 0; i < 8 && deliver_one(); ++i) {
            busy = true;
        }
        busy = busy || a.host.woken || b.host.woken || !wire_.empty();
    }
}

bool Pair::step_clock() {
    const uint64_t next = std::min(a.transport.next_deadline(), b.transport.next_deadline());
    if (next == kNever) {
        return false;
    }
    a.host.clock_ns = b.host.clock_ns = std::max(next, now());
    a.transport.timer(now());
    b.transport.timer(now());
    settle();
    return true;
}

bool Pair::run_until(const std::function<bool()>& done, unsigned max_steps) {
    settle();
    for (unsigned i = 0; i < max_steps && !done(); ++i) {
        if (!step_clock()) {
            break;
        }
    }
    return done();
}

void Pair::connect(const Qp& qa, const Qp& qb, const RcAttributes& attr) {
    connect(qa, qb, a.av_to(b), b.av_to(a), attr);
}

void Pair::connect(const Qp& qa, const Qp& qb, const pib_hca_av& to_b, const pib_hca_av& to_a,
                   const RcAttributes& attr) {
    to_init(a, qa, attr);
    to_init(b, qb, attr);
    to_rtr(a, qa, to_b, qb.qpn, attr);
    to_rtr(b, qb, to_a, qa.qpn, attr);
    to_rts(a, qa, attr);
    to_rts(b, qb, attr);
}

Pair::Connection Pair::rc_pair(const RcAttributes& attr, const QpConfig& config) {
    Connection connection{a.create(config), b.create(config)};
    connect(connection.a, connection.b, attr);
    return connection;
}

}  // namespace pib::hca::test
