// SPDX-License-Identifier: GPL-2.0-or-later
#include "messaging.h"

#include <algorithm>
#include <utility>

#include "violation.h"

namespace pib::simulation {
namespace {

constexpr uint32_t kMostDatagram = 1000;  // bytes

// Mostly short lengths; sometimes an MTU of a path, or one byte more or less.
uint32_t random_length(uint32_t number, uint32_t most) {
    const uint32_t length = number % 8 == 0   ? (256u << number / 8 % 4) + number / 32 % 3 - 1
                            : number % 8 == 1 ? number / 8 % most
                                              : number / 8 % 128;
    return std::clamp(length, Ledger::kLeastBytes, most);
}

Sent draw(const Messaging::Choice& choice, uint32_t most) {
    return {.bytes = random_length(choice.b, most),
            .imm = choice.c % 3 == 0 ? std::optional(choice.b) : std::nullopt};
}

}  // namespace

// The guests and services of the lines follow from the seed.
Messaging::Messaging(const Setup& setup, const test::MiniSm& sm, const std::vector<Owner>& owners)
    : is_clean_(setup.hazards == 0), sm_(sm), was_reset_(owners.size()) {
    for (unsigned i = 0; i < owners.size() && setup.lines != 0; ++i) {
        stations_.push_back(std::make_unique<Station>(owners[i], i));
    }
    auto number = static_cast<uint32_t>(setup.seed * 0x9e3779b97f4a7c15u >> 32);
    for (unsigned i = 0; i < setup.lines; ++i, number = number * 69069 + 1) {
        Station& from = *stations_[number / 8 % stations_.size()];
        Station& to = *stations_[number / 64 % stations_.size()];
        const auto service = static_cast<Line::Service>((setup.seed + i) % 3);
        const auto which = static_cast<uint32_t>(stations_.size()) + i;
        lines_.push_back(std::make_unique<Line>(from, to, service, which));
    }
}

Sender& Messaging::sender(uint32_t number) {
    require(number < stations_.size() + lines_.size(), "a message has no sender");
    return number < stations_.size() ? stations_[number]->sender
                                     : lines_[number - stations_.size()]->sender;
}

// Posts up to eight messages of one sender.
uint32_t Messaging::post_messages(const Choice& choice) {
    uint32_t posted = 0;
    for (uint32_t i = 0; i <= choice.c % 8 && line_count() != 0; ++i) {
        const Choice one{
            .a = choice.b * (i + 1) >> 8, .b = choice.c * (2 * i + 1) >> 4, .c = choice.a / 64 + i};
        const uint32_t number = choice.a % (line_count() + 1);
        const bool is_posted = number == line_count()
                                   ? post_datagram(*stations_[choice.a / 8 % stations_.size()], one)
                                   : post_to_line(*lines_[number], one);
        posted += is_posted ? 1 : 0;
    }
    return posted;
}

// Posts a datagram to a guest, or sometimes to all; false if there is no room. On a clean fabric
// each receiver must have a work request for it.
bool Messaging::post_datagram(Station& from, const Choice& choice) {
    Sent sent = draw(choice, kMostDatagram);
    Station* to = stations_[choice.a / 64 % stations_.size()].get();
    const auto has_place = [&](const auto& station) {
        const ReceiveQueue& queue = station->queue(Station::kDatagrams);
        return queue.waiting() > queue.in_flight;
    };
    const bool is_to_all = choice.a / 1024 % 4 == 0;
    if (!from.sender.has_room() ||
        (is_clean_ && !(is_to_all ? std::ranges::all_of(stations_, has_place) : has_place(to)))) {
        return false;
    }
    if (is_to_all) {
        to = nullptr;
    } else {
        sent.to = to->owner().index;
    }
    for (const auto& station : stations_) {
        if (is_clean_ && (is_to_all || station.get() == to)) {
            ++station->queue(Station::kDatagrams).in_flight;
        }
    }
    from.send(to, to != nullptr ? sm_.lid_of(*sent.to) : 0, sent, {choice.a, choice.b});
    return true;
}

bool Messaging::post_to_line(Line& line, const Choice& choice) {
    Sender& sender = line.sender;
    Sent sent = draw(choice, Sender::kMostBytes);
    sent.to = line.receiver();
    const bool may_be_lost = sender.ledger.delivery() == Delivery::kMayBeLost;
    ReceiveQueue& queue = line.queue();
    if (!sender.has_room() || (line.has_failed() && choice.c % 16 != 0) ||
        (is_clean_ && may_be_lost && queue.waiting() <= queue.in_flight)) {
        return false;
    }
    queue.in_flight += is_clean_ && may_be_lost ? 1 : 0;
    line.post(sent, {choice.a, choice.b});
    return true;
}

uint32_t Messaging::post_receives(const Choice& choice) {
    if (line_count() == 0) {
        return 0;
    }
    const uint32_t queues = static_cast<uint32_t>(stations_.size()) * Station::kQueues;
    const uint32_t which = choice.a % (queues + line_count());
    const uint32_t count = choice.b % 12;
    ReceiveQueue& queue = which < queues
                              ? stations_[which / Station::kQueues]->queue(which % Station::kQueues)
                              : lines_[which - queues]->queue();
    const uint32_t before = queue.waiting();
    if (which < queues) {
        stations_[which / Station::kQueues]->post_receives(which % Station::kQueues, count);
    } else {
        lines_[which - queues]->post_receives(count);
    }
    return queue.waiting() - before;
}

void Messaging::kill(const Choice& choice) {
    if (line_count() != 0) {
        lines_[choice.a % lines_.size()]->kill(choice.b % 2);
    }
}

void Messaging::reopen(const Choice& choice, const Connection::Attributes& attributes,
                       bool had_outage) {
    Line& line = *lines_[choice.a % lines_.size()];
    if (line.has_failed() || choice.b % 16 == 0) {
        close(line);
        line.open(sm_, attributes);
        line.sender.had_outage = had_outage;
        line.sender.ledger.is_scrambled = is_scrambled_;
    }
}

// Checks what the completion of a message says about its sender and its queue. A device that was
// reset may give the number of a QP again, so late packets of UC and UD may meet a new QP.
void Messaging::check_origin(const pib_hca_cqe& cqe, uint32_t number, unsigned guest) {
    const auto text = [&] {
        return sender(number).ledger.name() + ", at guest " + std::to_string(guest);
    };
    const uint32_t stations = static_cast<uint32_t>(stations_.size());
    if (number < stations) {
        require(cqe.slid == sm_.lid_of(number), text, ": a datagram names another LID");
        require(was_reset_[number] || cqe.src_qp == sender(number).qp().qpn, text,
                ": a datagram names another QP");
        return;
    }
    const Line& line = *lines_[number - stations];
    const bool is_shared = (cqe.flags & PIB_HCA_CQE_FLAG_SRQ) != 0;
    require(line.receiver() == guest && is_shared == (line.srqn() != 0) &&
                (!is_shared || cqe.srqn == line.srqn()),
            text, ": a message is in another queue");
    require(cqe.qpn == line.receiver_qpn() || (!is_shared && was_reset_[guest]), text,
            ": a message names another QP");
}

// Whether a QP of the guest with this number has been moved to Error.
bool Messaging::may_flush(uint32_t qpn, unsigned guest) const {
    return std::ranges::any_of(lines_, [&](const auto& line) {
        return line->receiver() == guest && line->receiver_qpn() == qpn &&
               line->may_flush_receives();
    });
}

// Handles a completion of a receive CQ.
void Messaging::receive(const pib_hca_cqe& cqe, ReceiveQueue& queue, unsigned guest) {
    ++completions_.all;
    if (cqe.status != PIB_HCA_WC_SUCCESS) {
        ++completions_.errors;
        require(
            may_flush(cqe.qpn, guest) && cqe.status == PIB_HCA_WC_WR_FLUSH_ERR,
            [&] {
                return "guest " + std::to_string(guest) + ", QP " + std::to_string(cqe.qpn) +
                       ": a receive completes with status " + std::to_string(cqe.status);
            },
            " without a cause");
        queue.drop(cqe);
        return;
    }
    const Bytes data = queue.take(cqe);
    const uint32_t number = Ledger::sender_of(data);
    Ledger& ledger = sender(number).ledger;
    check_origin(cqe, number, guest);
    const bool is_late = ledger.delivery() == Delivery::kDatagrams ||
                         (ledger.delivery() == Delivery::kMayBeLost && was_reset_[guest]);
    ledger.received(data, cqe, guest, is_late);
    queue.in_flight -= is_clean_ && ledger.delivery() != Delivery::kReliable ? 1 : 0;
}

Connection::Completions Messaging::poll() {
    const auto add = [this](const Connection::Completions& more) {
        completions_.all += more.all;
        completions_.errors += more.errors;
    };
    for (const auto& station : stations_) {
        add(station->sender.poll());
        for (const unsigned which : {Station::kDatagrams, Station::kXrc}) {
            while (const auto cqe = station->poll(which)) {
                receive(*cqe, station->queue(which), station->owner().index);
            }
        }
    }
    for (const auto& line : lines_) {
        add(line->sender.poll());
        while (const auto cqe = line->poll_receives()) {
            receive(*cqe, line->queue(), line->receiver());
        }
    }
    for (const auto& line : lines_) {
        if (!line->is_receiver_lost()) {
            line->sender.ledger.check_delivery();
        }
    }
    return std::exchange(completions_, {});
}

void Messaging::refill() {
    for (const auto& station : stations_) {
        for (unsigned which = 0; which < Station::kQueues; ++which) {
            station->post_receives(which, ReceiveQueue::kDepth);
        }
    }
    for (const auto& line : lines_) {
        line->post_receives(ReceiveQueue::kDepth);
    }
}

bool Messaging::is_done() const {
    return std::ranges::all_of(stations_,
                               [](const auto& station) { return station->sender.is_done(); }) &&
           std::ranges::all_of(lines_, [](const auto& line) { return line->is_done(); });
}

void Messaging::check_completed() {
    const auto check = [&](Sender& sender, const ReceiveQueue& queue) {
        if (!sender.is_lost) {
            sender.ledger.rest_completed();
        }
        require(queue.in_flight == 0, sender.ledger.name(),
                ": a message does not arrive on a clean fabric");
    };
    for (const auto& station : stations_) {
        check(station->sender, station->queue(Station::kDatagrams));
    }
    for (const auto& line : lines_) {
        check(line->sender, line->queue());
    }
}

void Messaging::close(Line& line) {
    line.stop();
    const Connection::Completions completions = poll();
    line.destroy();
    completions_ = completions;  // the next poll() returns them as well
}

void Messaging::close() {
    for (const auto& line : lines_) {
        close(*line);
    }
}

void Messaging::release() {
    for (const auto& station : stations_) {
        station->check_receives();
        station->destroy();
    }
    for (const auto& line : lines_) {
        line->release();
    }
}

void Messaging::set_outage(unsigned guest) {
    for (const auto& line : lines_) {
        if (line->is_at(guest)) {
            line->sender.had_outage = true;
        }
    }
}

void Messaging::set_lossy() {
    for (const auto& line : lines_) {
        line->sender.had_outage = true;
    }
}

void Messaging::set_scrambled() {
    is_scrambled_ = true;
    for (uint32_t i = 0; i < stations_.size() + lines_.size(); ++i) {
        sender(i).ledger.is_scrambled = true;
    }
}

void Messaging::lose(unsigned guest) {
    was_reset_[guest] = true;
    for (const auto& line : lines_) {
        line->lose(guest);
    }
    if (line_count() != 0) {
        stations_[guest]->sender.lose();
    }
}

void Messaging::restore(const Owner& owner) {
    if (line_count() != 0) {
        stations_[owner.index]->restore(owner);
        for (const auto& line : lines_) {
            line->restore(owner);
        }
    }
}

}  // namespace pib::simulation
