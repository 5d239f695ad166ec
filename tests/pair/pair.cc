// SPDX-License-Identifier: GPL-2.0-or-later
#include "pair.h"

#include <algorithm>
#include <stdexcept>

namespace pib::hca::test {

void Pair::put(std::vector<uint8_t> bytes) {
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
        std::vector<uint8_t> bytes = std::move(from.port.sent.front());
        from.port.sent.pop_front();
        put(std::move(bytes));
    }
    if (from.port.refused) {
        from.port.refused = false;
        from.transport->port_ready(1);
    }
}

bool Pair::deliver_one() {
    if (wire_.empty()) {
        return false;
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
            hca->transport->packet_in(1, *view);
        }
    }
}

void Pair::inject(Hca& to, const ib::PacketHeaders& headers, std::span<const uint8_t> payload) {
    std::vector<uint8_t> bytes(ib::kMaxPacket);
    auto builder =
        ib::PacketBuilder::begin(bytes, headers, payload.size(), ib::Crcs::kElided).value();
    builder.gather({{payload}});
    const auto view = ib::PacketView::parse(builder.finish(), ib::Crcs::kElided).value();
    to.transport->packet_in(1, view);
    settle();
}

void Pair::settle() {
    for (bool busy = true; busy;) {
        busy = false;
        for (Hca* hca : {&a, &b}) {
            hca->host.woken = false;
            busy = hca->transport->run() || busy;
            carry(*hca);
        }
        // A few at a time, so that answers mix with what follows.
        for (int i = 0; i < 8 && deliver_one(); ++i) {
            busy = true;
        }
        busy = busy || a.host.woken || b.host.woken || !wire_.empty();
    }
}

bool Pair::step_clock() {
    const uint64_t next = std::min(a.transport->next_deadline(), b.transport->next_deadline());
    if (next == kNever) {
        return false;
    }
    a.host.clock_ns = b.host.clock_ns = std::max(next, now());
    a.transport->timer(now());
    b.transport->timer(now());
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
    to_init(a, qa, attr);
    to_init(b, qb, attr);
    to_rtr(a, qa, a.av_to(b), qb.qpn, attr);
    to_rtr(b, qb, b.av_to(a), qa.qpn, attr);
    to_rts(a, qa, attr);
    to_rts(b, qb, attr);
}

Pair::Connection Pair::rc_pair(const RcAttributes& attr, const QpConfig& config) {
    Connection connection{a.create(config), b.create(config)};
    connect(connection.a, connection.b, attr);
    return connection;
}

}  // namespace pib::hca::test
