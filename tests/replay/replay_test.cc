// SPDX-License-Identifier: GPL-2.0-or-later
// Recordings of devices under traffic of each kind: the replay has the same state. A changed
// recording is detected, and the difference is named.
#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "recorded_traffic.h"
#include "recording_content.h"
#include "replayer.h"

using namespace pib;
using namespace pib::test;
using namespace pib::hca::replay;
namespace record = pib::hca::record;
using hca::test::content_of;
using hca::test::recording_of;

namespace {

struct Played {
    explicit Played(const std::string& recording, ReplayOptions options = {})
        : file(recording), replayer(file, std::move(options)) {
        const auto header = replayer.open();
        error = header ? "" : header.error();
        if (header) {
            const auto played = replayer.run();
            error = played ? "" : played.error();
            result = played.value_or(ReplayResult{});
        }
    }
    std::istringstream file;
    Replayer replayer;
    ReplayResult result;
    std::string error;
};

// Checks that both recordings replay without a difference, also at the end.
void check_equal(RecordedSubnet& world) {
    for (unsigned guest : {0u, 1u}) {
        INFO("guest " << guest);
        world.subnet.advance(500'000'000);
        world.subnet.guest(guest).device->run();  // a mark is due
        const Played played(world.recording(guest));
        CHECK(played.error.empty());
        CHECK(played.result.difference.empty());
        CHECK_FALSE(played.result.truncated);
        CHECK(played.result.marks >= 2);
        CHECK(played.result.calls > 20);
        const record::State now = hca::state_of(world.subnet.guest(guest).device->engine());
        const record::State then =
            hca::state_of(const_cast<Replayer&>(played.replayer).device().engine());
        CHECK(record::differences(now, then).empty());
        CHECK(now == then);
    }
}

}  // namespace

TEST_CASE("replay: all operations of a reliable connection replay as they were recorded") {
    RecordedSubnet world;
    run_reliable(world, 40'000);
    run_reliable(world, 100);
    check_equal(world);
    // The payload is not in the recording.
    CHECK(world.recording(0).size() < 200'000);
}

TEST_CASE("replay: a recording with all payload replays as it was recorded") {
    RecordedSubnet world({.payload = true});
    run_reliable(world, 40'000);
    check_equal(world);
    CHECK(world.recording(0).size() > 4 * 40'000);
}

TEST_CASE("replay: traffic over a faulty wire replays as it was recorded") {
    RecordedSubnet world;
    world.subnet.set_faults({.drop = 0.05, .duplicate = 0.02, .reorder = 0.02, .seed = 7});
    run_reliable(world, 60'000);
    CHECK(world.subnet.fault_counts().dropped > 0);
    check_equal(world);
}

TEST_CASE("replay: unreliable connections replay as they were recorded") {
    RecordedSubnet world;
    run_unreliable(world, 30'000);
    check_equal(world);
}

TEST_CASE("replay: datagrams replay as they were recorded") {
    RecordedSubnet world;
    run_datagrams(world);
    check_equal(world);
}

TEST_CASE("replay: XRC replays as it was recorded") {
    RecordedSubnet world;
    run_xrc(world, 20'000);
    check_equal(world);
}

TEST_CASE("replay: a datagram to a group replays as it was recorded") {
    RecordedSubnet world;
    run_multicast(world);
    check_equal(world);
}

TEST_CASE("replay: kicks replay as they were recorded") {
    hca::Config config;
    config.shadow_doorbells = true;
    RecordedSubnet world({}, config);
    run_kicks(world);
    check_equal(world);
}

TEST_CASE("replay: absent pages of on-demand regions replay as they were recorded") {
    RecordedSubnet world;
    CHECK(run_on_demand(world) >= 4);  // each side in each direction
    check_equal(world);
}

TEST_CASE("replay: a path migration replays as it was recorded") {
    RecordedSubnet world;
    run_migration(world);
    check_equal(world);
}

TEST_CASE("replay: a reset under traffic replays as it was recorded") {
    RecordedSubnet world;
    run_reset(world);
    check_equal(world);
}

TEST_CASE("replay: a link that ends and comes back replays as it was recorded") {
    RecordedSubnet world;
    run_reliable(world, 5'000);
    world.subnet.guest(0).disconnect();
    world.subnet.advance(300'000'000);
    world.subnet.connect(0);
    world.subnet.advance(300'000'000);
    check_equal(world);
}

TEST_CASE("replay: a link that ends within a packet and comes back replays as it was recorded") {
    RecordedSubnet world;
    const auto header = link::packet_header(2000, true);
    std::vector<uint8_t> begun(header.begin(), header.end());
    begun.resize(header.size() + 500);  // more than the recording keeps of the packet
    world.subnet.guest(0).device->links().received(1, begun);
    world.subnet.guest(0).disconnect();
    world.subnet.advance(300'000'000);
    world.subnet.connect(0);
    world.subnet.advance(300'000'000);
    check_equal(world);
}

TEST_CASE("replay: a strict device with test knobs and a trace replays as it was recorded") {
    hca::Config config;
    config.trace_entries = 100;
    config.trace_kinds = {.registers = true, .dma = true, .interrupts = true};
    config.knobs = {.inject = true,
                    .poison_wc = true,
                    .shuffle_srq = true,
                    .warnings = true,
                    .qpn_choice = hca::NumberChoice::kRandom,
                    .strict = hca::Strictness::kOn,
                    .adversary = {}};
    RecordedSubnet world({}, config);
    run_reliable(world, 3'000);
    run_xrc(world, 3'000);
    check_equal(world);
}

TEST_CASE("replay: an adversarial device does the same again") {
    hca::Config config;
    config.knobs.adversary =
        hca::AdversaryPlan::parse("7:interrupts+events+writes+fetches+numbers+clock").value();
    RecordedSubnet world({}, config);
    run_reliable(world, 3'000);
    check_equal(world);
}

TEST_CASE("replay: a replay ends at the given time") {
    RecordedSubnet world;
    const uint64_t until = world.subnet.now_ns();
    world.subnet.advance(1'000'000'000);
    run_reliable(world, 1'000);
    const std::string& recording = world.recording(0);
    const Played whole(recording);
    const Played part(recording, {.until_ns = until});
    CHECK(part.error.empty());
    CHECK(part.result.difference.empty());
    CHECK(part.result.calls > 0);
    CHECK(part.result.calls < whole.result.calls);
    CHECK(part.result.last_ns <= until);
}

TEST_CASE("replay: dumps add nothing to a recording") {
    RecordedSubnet world;
    run_reliable(world, 1'000);
    const size_t before = world.recording(0).size();
    CHECK_FALSE(world.subnet.guest(0).device->objects().empty());
    CHECK_FALSE(world.subnet.guest(0).device->journal().empty());
    CHECK(world.recording(0).size() == before);
    check_equal(world);
}

TEST_CASE("replay: a replayed device may have a trace that the recorded one lacked") {
    RecordedSubnet world;
    run_reliable(world, 1'000);
    run_reliable(world, 40'000);
    const Played played(world.recording(0), {.trace_entries = 1000});
    CHECK(played.result.difference.empty());
    CHECK(const_cast<Replayer&>(played.replayer).device().trace().size() > 1000);
}

TEST_CASE("replay: loads that were traced for a time replay as they were recorded") {
    hca::Config config;
    config.trace_entries = 100;
    config.knobs.adversary = hca::AdversaryPlan::parse("7:interrupts").value();
    RecordedSubnet world({}, config);
    hca::Device& device = *world.subnet.guest(0).device;
    device.choose_trace(100, {.registers = true});
    for (unsigned i = 0; i < 1000; ++i) {
        (void)device.mmio_read(PIB_HCA_BAR_REGS, PIB_HCA_REG_STATUS, 4);
    }
    CHECK(device.trace().find("load") != std::string::npos);
    device.choose_trace(100, {});
    run_reliable(world, 1'000);
    check_equal(world);
}

TEST_CASE("replay: a trace may begin and end within the recording") {
    RecordedSubnet world;
    hca::Device& device = *world.subnet.guest(0).device;
    device.choose_trace(1000, {.registers = true, .interrupts = true});
    run_reliable(world, 40'000);
    CHECK(device.trace().size() > 1000);
    device.choose_trace(0, {});
    run_reliable(world, 40'000);
    check_equal(world);
}

// ---- differences

namespace {

// The end of the last mark in a recording's content, and the object that its last hash belongs to.
struct LastMark {
    size_t end = 0;
    record::StateEntry object;
    uint64_t number = 0;
};

LastMark find_last_mark(const std::string& recording) {
    std::istringstream file(recording);
    RecordingReader reader(file);
    REQUIRE(reader.header());
    LastMark found;
    for (auto item = reader.next(); item && *item != RecordingReader::Item::kEnd;
         item = reader.next()) {
        if (*item == RecordingReader::Item::kMark) {
            ++found.number;
            found.object = reader.mark().back();
            found.end = reader.position();
        }
    }
    return found;
}

}  // namespace

TEST_CASE("replay: an object that differs at one mark is named") {
    RecordedSubnet world;
    run_reliable(world, 1'000);
    world.subnet.advance(500'000'000);
    world.subnet.guest(0).device->run();
    std::string content = content_of(world.recording(0));
    const LastMark mark = find_last_mark(world.recording(0));
    REQUIRE(mark.end != 0);
    content[mark.end - 1] = static_cast<char>(content[mark.end - 1] ^ 1);
    const Played played(recording_of(content));
    INFO(played.result.difference);
    CHECK(played.result.difference.starts_with("at mark " + std::to_string(mark.number) + " ("));
    CHECK(played.result.difference.ends_with(
        record::to_string(mark.object.kind, mark.object.number) + " differs"));
}

TEST_CASE("replay: a device with another WQE differs at once") {
    RecordedSubnet world;
    RecordedEnd a(world.subnet.guest(0), PIB_HCA_QP_RC);
    RecordedEnd b(world.subnet.guest(1), PIB_HCA_QP_RC);
    a.connect(b, world.sm.lid_of(1), 20);  // 4 s; the peer does not answer
    // The WQE in the changed recording has another remote address.
    hca::test::SendWr wr = a.request(PIB_HCA_WQE_RDMA_WRITE, b, 64);
    wr.remote_addr = 0x1122334455667788;
    a.guest.driver.post_send(a.qp, wr);
    world.subnet.advance(500'000'000);
    world.subnet.guest(0).device->run();
    std::string content = content_of(world.recording(0));
    const size_t at = content.find("\x88\x77\x66\x55\x44\x33\x22\x11");
    REQUIRE(at != std::string::npos);
    content[at] = '\x08';
    const Played played(recording_of(content));
    INFO(played.result.difference);
    CHECK(played.result.difference.find("(requester) differs") != std::string::npos);
}

TEST_CASE("replay: a tolerant replay goes on after a difference") {
    RecordedSubnet world;
    run_reliable(world, 1'000);
    world.subnet.advance(500'000'000);
    world.subnet.guest(0).device->run();
    run_reliable(world, 1'000);
    std::string content = content_of(world.recording(0));
    const LastMark mark = find_last_mark(world.recording(0));
    content[mark.end - 1] = static_cast<char>(content[mark.end - 1] ^ 1);
    const Played strict(recording_of(content));
    const Played tolerant(recording_of(content), {.tolerant = true});
    CHECK(tolerant.result.differences == 1);
    CHECK(tolerant.result.calls > strict.result.calls);
}

// ---- a recording that ends early

TEST_CASE("replay: a full disk ends the recording, not the device") {
    MemorySink sink;
    hca::test::FakeHost host;
    hca::Config config;
    config.node_guid = 1;
    config.port_guids[0] = 2;
    sink.room = 1'000'000;
    auto device = hca::Device::create(config, host, {.sink = &sink}).value();
    hca::test::MiniDriver driver(host, *device);
    REQUIRE(driver.enable());
    for (unsigned i = 0; sink.refusals == 0 && i < 1'000'000; ++i) {
        (void)driver.read32(PIB_HCA_REG_STATUS);
    }
    CHECK(sink.refusals == 1);
    CHECK(driver.alloc_pd() != 0);
    device->recording().flush();
    CHECK(sink.refusals == 1);
    const Played played(sink.content);
    CHECK(played.error.empty());
    CHECK(played.result.difference.empty());
    CHECK(played.result.calls > 1000);
}

TEST_CASE("replay: a recording ends at its limit, with a warning") {
    MemorySink sink;
    hca::test::FakeHost host;
    hca::Config config;
    config.node_guid = 1;
    config.port_guids[0] = 2;
    auto device = hca::Device::create(config, host, {.sink = &sink, .limit = 600'000}).value();
    hca::test::MiniDriver driver(host, *device);
    REQUIRE(driver.enable());
    while (host.warnings.empty()) {
        (void)driver.read32(PIB_HCA_REG_STATUS);
    }
    CHECK(host.warnings[0].find("limit of 600000 bytes") != std::string::npos);
    CHECK(sink.content.size() <= 600'000);
    CHECK(Played(sink.content).result.difference.empty());
}
