// SPDX-License-Identifier: GPL-2.0-or-later
#include "world.h"

#include <algorithm>

#include "posting.h"
#include "violation.h"

namespace pib::simulation {
namespace {

constexpr uint64_t kLongestDelayNs = 10'000'000'000;  // longer than any delay or retry
constexpr unsigned kRecoveryRounds = 20'000;          // movements of the clock

// Returns the first PSN of a QP: with `may_wrap` often one that is at most 63 before the wrap to 0.
uint32_t first_psn(uint32_t number, bool may_wrap) {
    const bool wraps = may_wrap && number % 3 == 0;
    return (wraps ? 0u - number % 64 : number * 2654435761u >> 8) & 0xffffff;
}

// Without hazards each packet and each answer arrives, so no request is sent twice.
void check_retries(test::Subnet& subnet, const Setup& setup) {
    for (unsigned i = 0; i < setup.guests && setup.hazards == 0; ++i) {
        for (const auto counter :
             {PIB_HCA_COUNTER_LOCAL_ACK_TIMEOUT_ERR, PIB_HCA_COUNTER_DUPLICATE_REQUEST}) {
            require(
                subnet.guest(i).counter(counter) == 0, [&] { return "guest " + std::to_string(i); },
                " has retried on a clean fabric");
        }
    }
}

// Attributes of QPs. `may_wrap`: as in first_psn().
Connection::Attributes attributes(uint32_t number, bool may_wrap) {
    return {.path_mtu = static_cast<uint8_t>(1 + number % 4),
            .timeout = static_cast<uint8_t>(8 + number / 4 % 6),
            .max_rd_atomic = static_cast<uint8_t>(1 + number / 32 % 8),
            .psn = {first_psn(number, may_wrap), first_psn(number * 69069 + 1, may_wrap)}};
}

// Fails on a fatal event: the guests do nothing that is fatal for a QP or CQ.
void read_events(const Owner& owner) {
    while (const auto event = owner.guest->driver.poll(owner.guest->async_eq)) {
        const bool is_fatal =
            event->type == PIB_HCA_EVENT_CQ_ERROR || event->type == PIB_HCA_EVENT_QP_FATAL ||
            event->type == PIB_HCA_EVENT_SRQ_ERROR || event->type == PIB_HCA_EVENT_DEVICE_FATAL;
        const auto text = [&] {
            return "guest " + std::to_string(owner.index) + " has event " +
                   std::to_string(event->type) + " of object " + std::to_string(event->number);
        };
        require(!is_fatal, text, "");
    }
}

Owner own(test::Subnet& subnet, unsigned guest) {
    test::Guest& its = subnet.guest(guest);
    return {.guest = &its,
            .index = guest,
            .pd = its.driver.alloc_pd(),
            .eqn = its.driver.create_eq(2).eqn};
}

// Brings the subnet up, and creates the objects that the connections of each guest share.
std::vector<Owner> own_all(test::Subnet& subnet, test::MiniSm& sm, unsigned guests) {
    sm.sweep();
    std::vector<Owner> owners;
    for (unsigned i = 0; i < guests; ++i) {
        owners.push_back(own(subnet, i));
    }
    return owners;
}

}  // namespace

Totals& Totals::operator+=(const Totals& other) {
    scripts += other.scripts;
    requests += other.requests;
    completions += other.completions;
    errors += other.errors;
    faults += other.faults;
    return *this;
}

World::World(const Setup& setup)
    : setup_(setup),
      subnet_(setup.guests, static_cast<test::LinkMode>(setup.link_mode)),
      sm_(subnet_, subnet_.guest(0)),
      owners_(own_all(subnet_, sm_, setup.guests)),
      unplugged_(setup.guests),
      was_reset_(setup.guests),
      messaging(setup, sm_, owners_) {
    sweep();
    for (unsigned i = 0; i < setup.connections; ++i) {
        const unsigned a = i % setup.guests;
        const unsigned b = (a + 1 + i / setup.guests % (setup.guests - 1)) % setup.guests;
        connections_.push_back(std::make_unique<Connection>(owners_[a], owners_[b],
                                                            "connection " + std::to_string(i)));
        reconnect(*connections_.back(), static_cast<uint32_t>(setup.seed) + i * 0x9e3779b9u);
    }
    for (uint32_t i = 0; i < messaging.line_count(); ++i) {
        reopen_line({.a = i, .b = 0, .c = static_cast<uint32_t>(setup.seed) + i * 0x85ebca6bu});
    }
}

uint32_t World::pd_of(const test::Guest& guest) const {
    return std::ranges::find(owners_, &guest, &Owner::guest)->pd;
}

void World::settle() {
    subnet_.settle();
    poll();
}

void World::poll() {
    for (const auto& connection : connections_) {
        if (connection->is_open()) {
            const Connection::Completions completions = connection->poll();
            totals.completions += completions.all;
            totals.errors += completions.errors;
        }
    }
    const Connection::Completions completions = messaging.poll();
    totals.completions += completions.all;
    totals.errors += completions.errors;
    for (const Owner& owner : owners_) {
        read_events(owner);
    }
}

void World::check_memory(Extent extent) {
    for (const auto& connection : connections_) {
        for (Flow& flow : connection->flows) {
            flow.check_memory(extent);
        }
    }
}

// A device that was reset gives the numbers of its lost QPs to new QPs, and peers may still send to
// the lost ones. A new QP must not expect the PSN of such a packet: so after a reset no connection
// starts with one of the few PSNs before the wrap, which other connections have used as well.
void World::reconnect(Connection& connection, uint32_t number) {
    connection.close();
    connection.open(sm_,
                    attributes(number, std::ranges::find(was_reset_, true) == was_reset_.end()));
    if (lossy_) {
        connection.set_lossy();
    }
    for (const Owner& owner : owners_) {
        if (connection.is_at(owner.index) && may_have_outage(owner.index)) {
            connection.set_outage();
        }
    }
}

void World::reopen_line(const Messaging::Choice& choice) {
    if (messaging.line_count() == 0) {
        return;
    }
    const Line& line = messaging.line(choice.a);
    const bool had_outage = lossy_ || std::ranges::any_of(owners_, [&](const Owner& owner) {
                                return line.is_at(owner.index) && may_have_outage(owner.index);
                            });
    const bool may_wrap = std::ranges::find(was_reset_, true) == was_reset_.end();
    messaging.reopen(choice, attributes(choice.c, may_wrap), had_outage);
}

bool World::may_have_outage(unsigned guest) const {
    return unplugged_[guest] || was_reset_[guest] || owners_[guest].guest->is_stalled;
}

void World::mark_outage(unsigned guest) {
    for (const auto& connection : connections_) {
        if (connection->is_at(guest)) {
            connection->set_outage();
        }
    }
    messaging.set_outage(guest);
}

void World::count_packet_faults() {
    const fabric::FaultCounts counts = subnet_.fault_counts();
    totals.faults += counts.dropped + counts.duplicated + counts.reordered + counts.corrupted;
}

void World::set_faults(const fabric::FaultSpec& faults) {
    count_packet_faults();
    subnet_.set_faults(faults);
    lossy_ = faults.any();
    if (lossy_) {
        messaging.set_lossy();
    }
    if (faults.duplicate != 0 || faults.reorder != 0 || faults.delay_ns != 0 ||
        faults.jitter_ns != 0) {
        messaging.set_scrambled();
    }
    for (const auto& connection : connections_) {
        if (lossy_) {
            connection->set_lossy();
        }
    }
}

void World::unplug(unsigned guest) {
    if (!unplugged_[guest]) {
        subnet_.guest(guest).disconnect();
        unplugged_[guest] = true;
        mark_outage(guest);
    }
}

void World::plug(unsigned guest) {
    if (unplugged_[guest]) {
        resume();
        unplugged_[guest] = false;
        subnet_.connect(guest);
        sweep();
    }
}

// take_traps() posts a new receive request for each that a trap has used.
void World::sweep() {
    sm_.take_traps();
    sm_.sweep();
    std::vector<unsigned> members;
    for (const Owner& owner : owners_) {
        if (!unplugged_[owner.index]) {
            members.push_back(owner.index);
        }
    }
    sm_.set_group(Station::kGroupLid, members);
}

void World::stall(unsigned guest) {
    subnet_.guest(guest).is_stalled = true;
    mark_outage(guest);
}

void World::resume() {
    for (const Owner& owner : owners_) {
        owner.guest->is_stalled = false;
    }
}

void World::reset(unsigned guest) {
    for (const auto& connection : connections_) {
        if (connection->is_at(guest)) {
            connection->lose(guest);
        }
    }
    messaging.lose(guest);
    was_reset_[guest] = true;
    mark_outage(guest);
    test::Guest& its = subnet_.guest(guest);
    its.device->reset(false);
    its.start();
    owners_[guest] = own(subnet_, guest);
    for (const auto& connection : connections_) {
        if (connection->is_at(guest)) {
            connection->restore(owners_[guest]);
        }
    }
    messaging.restore(owners_[guest]);
}

void World::restart_switch() {
    for (const Owner& owner : owners_) {
        mark_outage(owner.index);
    }
    count_packet_faults();
    lossy_ = false;
    resume();
    subnet_.restart_switch();
    std::fill(unplugged_.begin(), unplugged_.end(), false);
    sweep();
}

void World::recover() {
    set_faults({});
    resume();
    for (const Owner& owner : owners_) {
        plug(owner.index);
    }
    const auto is_done = [](const auto& connection) { return connection->is_done(); };
    const auto all_done = [&] {
        return std::ranges::all_of(connections_, is_done) && messaging.is_done();
    };
    settle();
    for (unsigned i = 0; i < kRecoveryRounds && !all_done(); ++i) {
        for (const auto& connection : connections_) {
            for (Flow& flow : connection->flows) {
                if (!flow.to.is_lost) {
                    post_receives(flow, flow.starved());
                }
            }
        }
        messaging.refill();
        subnet_.step_clock();
        settle();
    }
    require(all_done(), "a work request does not complete");
    subnet_.advance(kLongestDelayNs);
    poll();
    for (const auto& connection : connections_) {
        connection->check_completed();
    }
    messaging.check_completed();
    check_memory(Extent::kWritten);
}

void World::finish() {
    recover();
    check_retries(subnet_, setup_);
    for (const auto& connection : connections_) {
        connection->close();
    }
    messaging.close();
    settle();
    check_memory(Extent::kAll);
    release();
    count_packet_faults();
    ++totals.scripts;
}

// Fails if a step has left an object behind: the device refuses to destroy objects in use.
void World::release() {
    messaging.release();
    for (const auto& connection : connections_) {
        for (Flow& flow : connection->flows) {
            for (Region* region : {&flow.local, &flow.remote, &flow.inbox}) {
                if (region->has_key()) {
                    region->destroy_key();
                }
            }
            flow.window.release();
        }
    }
    for (const Owner& owner : owners_) {
        owner.guest->driver.destroy(PIB_HCA_CMD_FREE_PD, owner.pd);
        owner.guest->driver.destroy(PIB_HCA_CMD_DESTROY_EQ, owner.eqn);
    }
    require(subnet_.sw.held_packets() == 0, "the switch has kept packets");
}

}  // namespace pib::simulation
