// SPDX-License-Identifier: GPL-2.0-or-later
// A link in shared memory: both ends of a ring, wake-ups, and a hostile peer that writes anything
// to the shared memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <thread>

#include "idle_spin.h"
#include "link_pair.h"
#include "shared_memory.h"

namespace pib::test {
namespace {

using link::RingConsumer;
using link::RingProducer;
using link::SharedMemory;

constexpr unsigned kLogRing = SharedMemory::kMinLogRing;
constexpr uint32_t kRing = 1U << kLogRing;

struct SharedRecorder : LinkRecorder {
    std::optional<link::LinkRings> rings;
    std::optional<link::LinkRings> link_rings() override { return rings; }
};

// An HCA's and a switch's end that share memory. Only pump() wakes an end that sleeps.
struct SharedPair {
    SharedMemory memory = SharedMemory::create(kLogRing).value();
    SharedRecorder hca_events, switch_events;
    link::LinkEndpoint hca, sw;
    std::string error;
    unsigned hca_kicks = 0, switch_kicks = 0;  // how often each was woken

    SharedPair() : hca(hello(), make_buffers(), hca_events), sw(make_buffers(), switch_events) {
        hca_events.endpoint = &hca;
        switch_events.endpoint = &sw;
        hca_events.rings = {.out = memory.ring(0), .in = memory.ring(1)};
        switch_events.rings = {.out = memory.ring(1), .in = memory.ring(0)};
        switch_events.answer = link::Welcome{.features = kFeatures, .port_number = 1};
    }
    static constexpr uint32_t kFeatures = link::kFeatureSharedMemory | link::kFeatureBursts;
    static link::Hello hello() {
        auto hello = make_hello(0x100);
        hello.features = kFeatures;
        return hello;
    }
    void bring_up() {
        hca.training().set_parameters(make_parameters());
        sw.training().set_parameters(make_parameters());
        for (auto [from, to] : {std::pair(&hca, &sw), std::pair(&sw, &hca)}) {
            const Bytes bytes(from->output().begin(), from->output().end());
            from->consume_output(bytes.size());
            REQUIRE(feed(*to, bytes));
        }
        pump();
    }
    // Serves both ends until both sleep.
    void pump() {
        bool more = true;
        while (more && error.empty()) {
            more = serve(hca, switch_kicks);
            more = serve(sw, hca_kicks) || more;
        }
    }
    bool serve(link::LinkEndpoint& end, unsigned& kicks_of_peer) {
        if (const auto received = end.receive(SIZE_MAX); !received) {
            error = received.error().text;
        }
        const bool kicked = end.channel().publish();
        kicks_of_peer += kicked;
        return !end.may_sleep() || kicked;
    }
    // Writes these bytes into the HCA's ring, and publishes `published` bytes.
    void forge(const Bytes& bytes, uint32_t published) {
        const link::RingView ring = memory.ring(0);
        const uint32_t at = ring.control->produced;
        std::memcpy(ring.bytes + at % kRing, bytes.data(), bytes.size());
        ring.control->produced = at + published;
    }
};

}  // namespace

TEST_CASE("shared memory: a ring is mapped twice in a row") {
    auto memory = SharedMemory::create(kLogRing).value();
    auto mapped = SharedMemory::map(memory.memfd()).value();
    CHECK(mapped.ring_size() == kRing);
    for (unsigned direction = 0; direction < 2; ++direction) {
        const auto ring = memory.ring(direction);
        ring.bytes[kRing + 5] = static_cast<uint8_t>(7 + direction);
        CHECK(ring.bytes[5] == 7 + direction);
        CHECK(mapped.ring(direction).bytes[5] == 7 + direction);
        ring.control->produced = 64 + direction;
        CHECK(mapped.ring(direction).control->produced == 64 + direction);
    }
}

TEST_CASE("shared memory: an unsealed memfd, or one of a wrong size, is refused") {
    const int loose = ::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(::ftruncate(loose, 65536 + 2 * kRing) == 0);
    CHECK_FALSE(SharedMemory::map(loose));
    REQUIRE(::fcntl(loose, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    CHECK(SharedMemory::map(loose));
    REQUIRE(::ftruncate(loose, 65536 + 2 * kRing + 2) == 0);
    CHECK_FALSE(SharedMemory::map(loose));
    REQUIRE(::ftruncate(loose, 65536 + 3 * kRing) == 0);
    CHECK_FALSE(SharedMemory::map(loose));
    ::close(loose);
    CHECK_FALSE(SharedMemory::map(0));
}

TEST_CASE("ring: a first position between frames breaks it") {
    auto memory = SharedMemory::create(kLogRing).value();
    memory.ring(1).control->consumed = 1;
    RingConsumer consumer(memory.ring(1));
    memory.ring(1).control->produced = 64;
    CHECK(consumer.available() == 0);
    CHECK(consumer.broken());
    // A consumer that took 63 bytes for a frame of 64 would be behind the producer's position, and
    // would believe that 4 GiB are available.
    memory.ring(1).control->consumed = 64;
    RingConsumer aligned(memory.ring(1));
    memory.ring(1).control->produced = 128;
    CHECK(aligned.available() == 64);
    CHECK_FALSE(aligned.broken());
}

TEST_CASE("ring: it fills and empties while its positions wrap") {
    auto memory = SharedMemory::create(kLogRing).value();
    memory.ring(0).control->produced = memory.ring(0).control->consumed = 0u - 4 * kRing;
    RingProducer producer(memory.ring(0));
    RingConsumer consumer(memory.ring(0));
    uint32_t next = 0, expected = 0;
    for (unsigned round = 0; round < 1000; ++round) {
        for (auto room = producer.reserve(100 + round); !room.empty();
             room = producer.reserve(100 + round)) {
            std::memcpy(room.data(), &next, sizeof(next));
            ++next;
            producer.commit(room.size());
        }
        CHECK_FALSE(producer.has_room(kRing / 2));
        producer.publish();
        while (consumer.available() != 0) {
            uint32_t got;
            std::memcpy(&got, consumer.front(), sizeof(got));
            REQUIRE(got == expected++);
            consumer.skip(100 + round);
        }
        consumer.give_back();
    }
    CHECK(next > 50'000);
    CHECK_FALSE(producer.broken());
    CHECK_FALSE(consumer.broken());
}

TEST_CASE("ring: a sleeping side is woken once, an awake one never") {
    auto memory = SharedMemory::create(kLogRing).value();
    RingProducer producer(memory.ring(0));
    RingConsumer consumer(memory.ring(0));
    const auto put = [&] {
        producer.commit(producer.reserve(10).size());
        producer.publish();
        return producer.must_kick();
    };
    REQUIRE(consumer.await_data());
    CHECK(put());        // the consumer slept
    CHECK_FALSE(put());  // the consumer has been kicked
    CHECK(consumer.available() == 128);
    consumer.skip(10);
    consumer.skip(10);
    CHECK_FALSE(put());  // the consumer is awake and looks again before it sleeps
    CHECK_FALSE(consumer.await_data());
    consumer.skip(10);
    REQUIRE(consumer.await_data());
    CHECK(put());
}

TEST_CASE("ring: a producer whose bytes are all consumed does not wait for room") {
    auto memory = SharedMemory::create(kLogRing).value();
    RingProducer producer(memory.ring(0));
    RingConsumer consumer(memory.ring(0));
    CHECK_FALSE(producer.await_room());
    producer.commit(producer.reserve(10).size());
    producer.publish();
    CHECK(producer.await_room());
    REQUIRE(consumer.available() != 0);
    consumer.skip(10);
    consumer.give_back();
    CHECK_FALSE(producer.await_room());
    CHECK_FALSE(producer.await_room());
}

TEST_CASE("ring: no wake-up and no byte is lost between two threads") {
    constexpr uint32_t kFrames = 20'000;
    constexpr size_t kFrameBytes = 4000;
    // Only the first and the last byte are checked: ThreadSanitizer remembers few accesses, and
    // more of them would displace those that race.
    const auto frame_is = [](const uint8_t* bytes, uint32_t number) {
        return bytes[0] == (number & 0xFF) && bytes[kFrameBytes - 1] == (number & 0xFF);
    };
    bool intact = true;  // only the reading thread uses it until the thread ends
    auto memory = SharedMemory::create(kLogRing).value();
    std::atomic<uint32_t> to_consumer{0}, to_producer{0};
    const auto wake = [](std::atomic<uint32_t>& word) {
        ++word;
        word.notify_one();
    };
    std::jthread reader([&] {
        RingConsumer consumer(memory.ring(0));
        for (uint32_t frames = 0; frames < kFrames;) {
            const uint32_t seen = to_consumer;
            for (; consumer.available() != 0; ++frames) {
                intact = intact && frame_is(consumer.front(), frames);
                consumer.skip(kFrameBytes);
            }
            consumer.give_back();
            if (consumer.must_kick()) {
                wake(to_producer);
            }
            if (frames < kFrames && consumer.await_data()) {
                to_consumer.wait(seen);
            }
        }
    });
    RingProducer producer(memory.ring(0));
    for (uint32_t frames = 0; frames < kFrames; ++frames) {
        std::span<uint8_t> room;
        while ((room = producer.reserve(kFrameBytes)).empty()) {
            const uint32_t seen = to_producer;
            if (producer.await_room()) {
                to_producer.wait(seen);
            }
        }
        room.front() = room.back() = static_cast<uint8_t>(frames);
        producer.commit(kFrameBytes);
        producer.publish();
        if (producer.must_kick()) {
            wake(to_consumer);
        }
    }
    reader.join();
    CHECK_FALSE(producer.broken());
    CHECK(intact);
}

namespace {

// One end in its own thread, as in the device and the switch: run() sends `count` packets, receives
// as many, and ends when the peer is done, too. `fine` is false after an error of the link.
struct Side {
    link::LinkEndpoint& end;
    SharedRecorder& events;
    std::atomic<uint32_t> word{0};  // the thread sleeps until it changes
    Side* peer = nullptr;
    std::atomic<bool> done{false}, fine{true};

    void wake() {
        ++word;
        word.notify_one();
    }
    void run(const Bytes& packet, size_t count) {
        for (size_t sent = 0; fine && !(done && peer->done);) {
            const uint32_t seen = word;
            while (sent < count && send(end, packet)) {
                ++sent;
            }
            if (!end.receive(SIZE_MAX)) {
                fine = peer->fine = false;
                peer->wake();
            }
            if (end.channel().publish()) {
                peer->wake();
            }
            if (!done && sent == count && events.packets.size() >= count) {
                done = true;
                peer->wake();
            }
            if (fine && end.may_sleep() && !(done && peer->done)) {
                word.wait(seen);
            }
        }
    }
};

}  // namespace

TEST_CASE("shared link: two threads exchange packets") {
    constexpr size_t kPackets = 5000;
    SharedPair pair;
    pair.bring_up();
    REQUIRE(pair.error.empty());
    Side hca{pair.hca, pair.hca_events}, sw{pair.sw, pair.switch_events};
    hca.peer = &sw;
    sw.peer = &hca;
    const Bytes to_switch = make_packet(0, 2, 1024), to_hca = make_packet(1, 1, 512);
    std::jthread other([&] { sw.run(to_hca, kPackets); });
    hca.run(to_switch, kPackets);
    other.join();
    CHECK((hca.fine && sw.fine));
    CHECK(pair.hca_events.packets == std::vector(kPackets, to_hca));
    CHECK(pair.switch_events.packets == std::vector(kPackets, to_switch));
}

TEST_CASE("shared link: frames travel through the rings with few wake-ups") {
    SharedPair pair;
    pair.bring_up();
    REQUIRE(pair.error.empty());
    REQUIRE(pair.hca.is_up());
    REQUIRE(pair.sw.is_up());
    CHECK(pair.hca.channel().is_shared());
    CHECK(pair.hca.output().empty());
    const unsigned kicks = pair.switch_kicks;
    Bytes packet = make_packet(0, 5, 1000);
    for (unsigned i = 0; i < 10; ++i) {
        packet.back() = static_cast<uint8_t>(i);
        REQUIRE(send(pair.hca, packet));
    }
    pair.pump();
    REQUIRE(pair.switch_events.packets.size() == 10);
    CHECK(pair.switch_events.packets.back() == packet);
    CHECK(pair.switch_kicks == kicks + 1);
    CHECK(pair.hca.output().empty());
}

TEST_CASE("shared link: a sender at a full ring is woken when there is room") {
    SharedPair pair;
    pair.bring_up();
    pair.switch_events.hold = true;  // no credit arrives, which would wake the sender
    const Bytes packet = make_packet(1, 5, 4096);
    size_t sent = 0;
    for (; send(pair.hca, packet); ++sent) {
    }
    CHECK(sent >= 6);
    CHECK_FALSE(pair.hca.sender().can_send(1, packet.size()));
    (void)pair.hca.channel().publish();
    REQUIRE(pair.hca.may_sleep());
    REQUIRE(pair.sw.receive(SIZE_MAX));
    CHECK(pair.sw.channel().publish());  // there is room again
    CHECK(pair.hca.channel().room_is_back());
    CHECK(pair.hca.channel().room_is_back());  // a second call says the same
    CHECK_FALSE(pair.hca.may_sleep());
    REQUIRE(pair.hca.receive(SIZE_MAX));
    CHECK(pair.hca.sender().can_send(1, packet.size()));
    // Now can_send() returns false before a send is refused: that counts as waiting, too.
    for (; pair.hca.sender().can_send(1, packet.size()); ++sent) {
        REQUIRE(send(pair.hca, packet));
    }
    (void)pair.hca.channel().publish();
    REQUIRE(pair.hca.may_sleep());
    REQUIRE(pair.sw.receive(SIZE_MAX));
    CHECK(pair.sw.channel().publish());
    CHECK(pair.switch_events.packets.size() == sent);
    CHECK(pair.error.empty());
}

TEST_CASE("shared link: a retrain and a closed peer work as over a stream") {
    SharedPair pair;
    pair.bring_up();
    pair.sw.training().retrain();
    pair.pump();
    CHECK(pair.hca_events.downs == 1);
    CHECK(pair.hca.is_up());
    pair.hca.training().close();
    CHECK(pair.hca_events.downs == 2);
    CHECK_FALSE(pair.hca.receive(SIZE_MAX).value());
}

TEST_CASE("shared link: WELCOME must carry the memory that it announces") {
    SharedPair pair;
    pair.hca_events.rings.reset();
    pair.hca.training().set_parameters(make_parameters());
    const Bytes hello(pair.hca.output().begin(), pair.hca.output().end());
    pair.hca.consume_output(hello.size());
    REQUIRE(feed(pair.sw, hello));
    const Bytes welcome(pair.sw.output().begin(), pair.sw.output().end());
    const auto fed = feed(pair.hca, welcome);
    REQUIRE_FALSE(fed);
    CHECK(fed.error().error == link::LinkError::kUnexpectedFrame);
}

TEST_CASE("shared link: WELCOME with shared memory for a HELLO without it ends the link") {
    SharedPair pair;
    link::LinkEndpoint hca(make_hello(0x100), make_buffers(), pair.hca_events);
    pair.hca_events.endpoint = &hca;
    Bytes welcome;
    append(welcome, link::Welcome{.features = link::kFeatureSharedMemory, .port_number = 1});
    const auto fed = feed(hca, welcome);
    REQUIRE_FALSE(fed);
    CHECK(fed.error().error == link::LinkError::kUnexpectedFrame);
    CHECK(pair.hca_events.welcomes.empty());
    CHECK_FALSE(hca.channel().is_shared());
}

TEST_CASE("shared link: frames on the stream are refused once memory is shared") {
    SharedPair pair;
    pair.bring_up();
    Bytes bytes;
    append(bytes, link::Credit{.vl = 0, .epoch = 1, .limit = 1000});
    CHECK_FALSE(feed(pair.sw, bytes));
    CHECK(pair.switch_events.downs == 1);
}

TEST_CASE("shared link: a hostile peer ends only its own link") {
    SharedPair pair;
    pair.bring_up();
    auto& control = *pair.memory.ring(0).control;
    SECTION("more bytes published than the ring has") {
        control.produced += kRing + 64;
    }
    SECTION("a position between frames") {
        control.produced += 8;
    }
    SECTION("a position that goes back") {
        control.produced -= 64;
    }
    SECTION("an unknown frame") {
        pair.forge({77, 0, 0, 0, 0, 0, 0, 8}, 64);
    }
    SECTION("a frame longer than the limit") {
        pair.forge({6, 1, 0, 0, 0xff, 0xff, 0xff, 0xff}, 64);
    }
    std::string why;  // a part of the error's text
    SECTION("a frame longer than the published bytes") {
        pair.forge({6, 1, 0, 0, 0, 0, 8, 0}, 64);
        why = "an incomplete frame";
    }
    SECTION("a burst of no packets") {
        pair.forge({7, 0, 0, 0, 0, 0, 0, 184}, 192);
    }
    SECTION("a burst shorter than its headers") {
        pair.forge({7, 0, 0, 0, 0, 0, 0, 183}, 192);
    }
    SECTION("a burst longer than the limit") {
        pair.forge({7, 0, 0, 0, 0, 1, 0, 185}, 192);
    }
    SECTION("a second HELLO") {
        Bytes bytes;
        append(bytes, SharedPair::hello());
        pair.forge(bytes, 128);
    }
    SECTION("more bytes consumed than published") {
        pair.memory.ring(1).control->consumed += 64;
        REQUIRE(send(pair.sw, make_packet(0, 5, 100)));
        while (send(pair.sw, make_packet(1, 5, 4000))) {
        }
        REQUIRE_FALSE(pair.sw.may_sleep());
    }
    const auto received = pair.sw.receive(SIZE_MAX);
    REQUIRE_FALSE(received);
    CHECK(received.error().error != link::LinkError::kRefused);
    CHECK(received.error().text.contains(why));
    CHECK(pair.switch_events.downs == 1);
    CHECK_FALSE(pair.sw.receive(SIZE_MAX).value());
}

TEST_CASE("shared link: a flood is received in portions") {
    SharedPair pair;
    pair.bring_up();
    while (send(pair.hca, make_packet(0, 5, 4000))) {
    }
    (void)pair.hca.channel().publish();
    CHECK(pair.sw.receive(4096).value());
    CHECK(pair.switch_events.packets.size() <= 2);
}

// Writes to a packet in the ring, as a hostile peer does, while the packet is handled.
struct Tampered : SharedRecorder {
    uint8_t* frame = nullptr;  // the packet in the ring
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override {
        std::memset(frame, 0xEE, burst.bytes().size());
        return SharedRecorder::link_burst(burst, payload);
    }
};

TEST_CASE("shared link: a turn ends after a few LINKs, each of which is a retraining") {
    SharedPair pair;
    pair.bring_up();
    constexpr uint16_t kLinks = 500;
    Bytes flood;
    for (uint16_t i = 0; i < kLinks; ++i) {
        Bytes frame;
        auto parameters = make_parameters();
        parameters.epoch = static_cast<uint16_t>(1000 + i);
        append(frame, parameters);
        frame.resize(link::kRingAlign);
        flood.insert(flood.end(), frame.begin(), frame.end());
    }
    pair.forge(flood, static_cast<uint32_t>(flood.size()));
    const unsigned before = pair.switch_events.downs;
    unsigned turns = 0;
    for (bool more = true; more; ++turns) {
        const unsigned downs = pair.switch_events.downs;
        const auto received = pair.sw.receive(128 * 1024);
        REQUIRE(received);
        CHECK(pair.switch_events.downs - downs <= 8);
        more = *received;
        (void)pair.sw.channel().publish();
    }
    CHECK(pair.switch_events.downs == before + kLinks);
    CHECK(turns > kLinks / 8);
}

TEST_CASE("shared link: headers are copied before their checks, also those of long packets") {
    const auto [payload, payload_is_copied] =
        GENERATE(table<size_t, bool>({{16, true}, {256, true}, {1024, false}, {4096, false}}));
    SharedPair pair;
    Tampered receiver;
    link::LinkEndpoint sw(make_buffers(), receiver);
    receiver.endpoint = &sw;
    receiver.rings = pair.switch_events.rings;
    receiver.answer = pair.switch_events.answer;
    for (auto [from, to] : {std::pair(&pair.hca, &sw), std::pair(&sw, &pair.hca)}) {
        from->training().set_parameters(make_parameters());
        const Bytes bytes(from->output().begin(), from->output().end());
        from->consume_output(bytes.size());
        REQUIRE(feed(*to, bytes));
    }
    for (unsigned i = 0; i < 4; ++i) {
        REQUIRE(sw.receive(SIZE_MAX));
        (void)sw.channel().publish();
        REQUIRE(pair.hca.receive(SIZE_MAX));
        (void)pair.hca.channel().publish();
    }
    const Bytes packet = make_packet(0, 2, payload);
    const auto room = pair.hca.begin({.vl = 0, .longest = packet.size()});
    REQUIRE(room.bytes().size() == packet.size());
    std::ranges::copy(packet, room.bytes().begin());
    receiver.frame = room.bytes().data();
    pair.hca.commit(ib::BurstSize::of(packet.size()));
    (void)pair.hca.channel().publish();
    REQUIRE(sw.receive(SIZE_MAX));
    REQUIRE(receiver.packets.size() == 1);
    const Bytes& seen = receiver.packets[0];
    REQUIRE(seen.size() == packet.size());
    CHECK(
        std::equal(packet.begin(), packet.begin() + ib::Lrh::kSize + ib::Bth::kSize, seen.begin()));
    CHECK((seen.back() == packet.back()) == payload_is_copied);
}

TEST_CASE("idle: runnable threads are read from loadavg, and malformed text gives none") {
    CHECK(pib_runnable_threads("0.10 0.20 0.30 3/456 7890\n") == 3);
    CHECK(pib_runnable_threads("12.00 0.20 0.30 17/456 7890\n") == 17);
    for (const char* text : {"", "0.1", "0.1 0.2 0.3", "0.1 0.2 0.3 x/4 5", "0.1 0.2 0.3 4",
                             "0.1 0.2 0.3 -1/4", "0.1 0.2 0.3 99999999999/4 5"}) {
        CHECK(pib_runnable_threads(text) == 0);
    }
}

TEST_CASE("idle: polling is bounded, and off with 0") {
    PibIdleSpin spin;
    pib_idle_spin_init(&spin, 0);
    CHECK_FALSE(pib_idle_spin_go_on(&spin));
    pib_idle_spin_end(&spin);
    pib_idle_spin_init(&spin, 50);
    for (unsigned round = 0; round < 10; ++round) {
        while (pib_idle_spin_go_on(&spin)) {
        }
        CHECK(spin.began_ns == 0);
    }
    pib_idle_spin_end(&spin);
    CHECK_FALSE(pib_idle_spin_go_on(&spin));
}

TEST_CASE("idle: the polling time doubles after a success and halves after a failure") {
    PibIdleSpin spin;
    pib_idle_spin_init(&spin, 16);
    for (unsigned round = 0; round < 5; ++round) {
        spin.began_ns = 1;  // as if it had been idle since boot
        pib_idle_spin_found(&spin);
    }
    CHECK(spin.budget_ns == 16'000);
    pib_idle_spin_found(&spin);  // there was no idle time before this work
    CHECK(spin.budget_ns == 16'000);
    for (unsigned round = 0; round < 5 && spin.loadavg_fd >= 0; ++round) {
        spin.began_ns = 1;
        CHECK_FALSE(pib_idle_spin_go_on(&spin));
    }
    CHECK((spin.loadavg_fd < 0 || spin.budget_ns == 2'000));
    pib_idle_spin_end(&spin);
}

}  // namespace pib::test
