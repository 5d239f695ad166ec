// SPDX-License-Identifier: GPL-2.0-or-later
#include "steps.h"

#include "posting.h"

namespace pib::simulation {
namespace {

enum Hazard : uint32_t {
    kKeys = 1 << 0,
    kErrors = 1 << 1,
    kLinks = 1 << 2,
    kCables = 1 << 3,
    kStalls = 1 << 4,
    kResets = 1 << 5,
    kSwitch = 1 << 6,
};

Choice choice_of(const Step& step) {
    return {.a = step.a, .b = step.b, .c = step.c};
}

Messaging::Choice message_choice(const Step& step) {
    return {.a = step.a, .b = step.b, .c = step.c};
}

// Index of a guest other than the subnet manager's.
unsigned victim(const World& world, uint32_t number) {
    return 1 + number % (world.setup().guests - 1);
}

// One of a flow's regions.
Region& region(World& world, const Step& step) {
    Flow& flow = world.flow(step.a);
    Region* const regions[] = {&flow.local, &flow.remote, &flow.inbox};
    return *regions[step.b % 3];
}

test::Guest& guest_of(World& world, const Step& step) {
    const Flow& flow = world.flow(step.a);
    return step.b % 3 == 0 ? *flow.from.guest : *flow.to.guest;
}

// ---- actions of guests

// Posts up to eight requests with a doorbell each, or a chain of up to sixteen with one doorbell;
// rarely to a failed connection, which only flushes them.
void post(World& world, const Step& step) {
    Flow& flow = world.flow(step.a);
    if (flow.from.is_lost || (world.connection(step.a / 2).has_failed() && step.c / 8 % 16 != 0)) {
        return;
    }
    const bool is_chain = step.c / 128 % 2 == 0;
    const uint32_t count = 1 + (is_chain ? step.c / 256 % Flow::kDepth : step.c % 8);
    for (uint32_t i = 0; i < count; ++i) {
        const Choice choice{.a = step.b * (i + 1) >> 8,
                            .b = step.c + i * 77,
                            .c = (step.b ^ step.c) + (is_chain ? i * 0x9e3779b9u : 0),
                            .may_be_refused = (world.setup().hazards & kErrors) != 0,
                            .may_lack_window = (world.setup().hazards & kKeys) != 0,
                            .is_quiet = is_chain};
        world.totals.requests += post_send(flow, choice) ? 1 : 0;
    }
    if (is_chain) {
        flow.from.guest->driver.ring_send(flow.from.qp);
    }
}

void receive(World& world, const Step& step) {
    Flow& flow = world.flow(step.a);
    if (!flow.to.is_lost) {
        const uint64_t before = flow.receives.size();
        post_receives(flow, step.b % 12);
        world.totals.requests += flow.receives.size() - before;
    }
}

void store_bytes(World& world, const Step& step) {
    store(world.flow(step.a), choice_of(step));
}

void settle(World& world, const Step&) {
    world.settle();
}

// Gives turns to some devices and none to the others.
void turns(World& world, const Step& step) {
    for (uint32_t i = 0; i < 1 + step.b % 4; ++i) {
        test::Guest& guest = world.subnet().guest((step.a >> i) % world.setup().guests);
        if (!guest.is_stalled) {
            guest.move();
        }
    }
    world.poll();
}

void clock(World& world, const Step& step) {
    // The timeout of a request may pass while its answer waits for a device's turn.
    if (world.setup().hazards == 0) {
        world.settle();
    }
    for (unsigned i = 0; world.setup().hazards != 0 && i < world.setup().connections; ++i) {
        world.connection(i).set_lossy();
    }
    for (uint32_t i = 0; i <= step.a % 8; ++i) {
        world.subnet().step_clock();
        world.poll();
    }
}

void check(World& world, const Step&) {
    world.check_memory(Extent::kWritten);
}

void create_key(World& world, const Step& step) {
    Region& which = region(world, step);
    if (!which.has_key()) {
        which.create_key(world.pd_of(guest_of(world, step)));
    }
}

// Posts a bind or an invalidation at the responder, unless its device has been reset.
void use_window(World& world, const Step& step, bool binds) {
    Flow& flow = world.flow(step.a);
    if (!flow.to.is_lost && post_on_window(flow, binds)) {
        ++world.totals.requests;
    }
}

void bind(World& world, const Step& step) {
    use_window(world, step, true);
}

void invalidate(World& world, const Step& step) {
    use_window(world, step, false);
}

// Replaces a connection if it has failed, and rarely if it has not.
void reconnect(World& world, const Step& step) {
    Connection& connection = world.connection(step.a);
    if (connection.has_failed() || step.b % 16 == 0) {
        world.reconnect(connection, step.c);
    }
}

// Posts messages to stations and lines.
void message(World& world, const Step& step) {
    world.totals.requests += world.messaging.post_messages(message_choice(step));
}

void receive_messages(World& world, const Step& step) {
    world.totals.requests += world.messaging.post_receives(message_choice(step));
}

void reopen_line(World& world, const Step& step) {
    world.reopen_line(message_choice(step));
}

// ---- faults

void destroy_key(World& world, const Step& step) {
    Region& which = region(world, step);
    if (which.has_key()) {
        which.destroy_key();
    }
}

void kill_qp(World& world, const Step& step) {
    world.connection(step.a).kill(step.b % 2);
}

void kill_line(World& world, const Step& step) {
    world.messaging.kill(message_choice(step));
}

// Sets one of several kinds of link faults, or none.
void links(World& world, const Step& step) {
    fabric::FaultSpec faults;
    const auto share = [&](unsigned shift) { return (step.b >> shift) % 16 / 600.0; };
    if (step.a % 3 != 0) {
        faults.drop = share(0);
        faults.duplicate = share(4);
        faults.reorder = share(8);
        faults.corrupt = share(12) / 4;
        faults.delay_ns = step.b >> 16 & 1 ? step.c % 50'000 : 0;
        faults.jitter_ns = step.b >> 17 & 1 ? step.c / 7 % 400'000 : 0;
        faults.seed = step.c + 1;
    }
    world.set_faults(faults);
}

void unplug(World& world, const Step& step) {
    world.unplug(victim(world, step.a));
}

void plug(World& world, const Step& step) {
    world.plug(victim(world, step.a));
}

void stall(World& world, const Step& step) {
    world.stall(victim(world, step.a));
}

void resume(World& world, const Step& step) {
    world.subnet().guest(victim(world, step.a)).is_stalled = false;
}

void reset(World& world, const Step& step) {
    world.reset(victim(world, step.a));
}

void restart_switch(World& world, const Step&) {
    world.restart_switch();
}

constexpr StepKind kKinds[] = {
    {"post", 300, 0, false, post},
    {"receive", 200, 0, false, receive},
    {"settle", 60, 0, false, settle},
    {"turns", 150, 0, false, turns},
    {"clock", 60, 0, false, clock},
    {"store", 40, 0, false, store_bytes},
    {"bind", 60, 0, false, bind},
    {"invalidate", 6, kKeys, true, invalidate},
    {"check", 20, 0, false, check},
    {"message", 150, 0, false, message},
    {"receive-messages", 150, 0, false, receive_messages},
    {"reopen-line", 30, 0, false, reopen_line},
    {"reconnect", 60, 0, false, reconnect},
    {"destroy-key", 4, kKeys, true, destroy_key},
    {"create-key", 24, kKeys, false, create_key},
    {"kill-qp", 4, kErrors, true, kill_qp},
    {"kill-line", 4, kErrors, true, kill_line},
    {"links", 8, kLinks, true, links},
    {"unplug", 4, kCables, true, unplug},
    {"plug", 8, kCables, false, plug},
    {"stall", 8, kStalls, true, stall},
    {"resume", 16, kStalls, false, resume},
    {"reset", 3, kResets, true, reset},
    {"restart-switch", 1, kSwitch, true, restart_switch},
};

}  // namespace

std::span<const StepKind> step_kinds() {
    return kKinds;
}

void execute(World& world, const Step& step) {
    const StepKind& kind = kKinds[step.kind];
    world.totals.faults += kind.is_fault ? 1 : 0;
    kind.execute(world, step);
}

}  // namespace pib::simulation
