// SPDX-License-Identifier: GPL-2.0-or-later
// The format of recordings: contents, payload that is left out, and files that a reader refuses,
// because a recording may come from an attacker.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <random>
#include <sstream>

#include "record/config_text.h"
#include "recorded_traffic.h"
#include "recording_content.h"
#include "replay_options.h"
#include "replayer.h"

using namespace pib;
using namespace pib::test;
using namespace pib::hca::replay;
namespace record = pib::hca::record;
using hca::test::content_of;
using hca::test::kRecordingStart;
using hca::test::recording_of;
using record::Tag;

namespace {

// The reason why a file cannot be replayed; empty: it can.
std::string refusal_of_file(const std::string& recording) {
    std::istringstream file(recording);
    Replayer replayer(file, {.tolerant = true});
    if (const auto header = replayer.open(); !header) {
        return header.error();
    }
    const auto result = replayer.run();
    return result ? "" : result.error();
}

// As refusal_of_file(), for a recording with this content.
std::string refusal(const std::string& content) {
    return refusal_of_file(recording_of(content));
}

bool refused(const std::string& content, const char* why) {
    const std::string text = refusal(content);
    INFO(text);
    CHECK(text.find(why) != std::string::npos);
    return text.find(why) != std::string::npos;
}

// The content of a recording without events.
std::string header_of(const std::string& config) {
    std::string text;
    const auto word = [&](uint32_t value) {
        for (unsigned i = 0; i < 4; ++i) {
            text += static_cast<char>(value >> (8 * i));
        }
    };
    word(PIB_HCA_INTERFACE_MAJOR);
    word(PIB_HCA_INTERFACE_MINOR);
    word(static_cast<uint32_t>(config.size()));
    return text + config;
}

const std::string& plain() {
    static const std::string text = header_of("node-guid=1\nport-guid-1=2\n");
    return text;
}

std::string number(uint64_t value) {
    std::string text;
    for (; value >= 0x80; value >>= 7) {
        text += static_cast<char>(value | 0x80);
    }
    return text + static_cast<char>(value);
}

// An entry with the same time as the previous one, and with the check of a first entry.
std::string entry(Tag tag, std::initializer_list<uint64_t> fields) {
    std::string text(1, static_cast<char>(tag));
    text += number(0);
    for (unsigned i = 0; i < 4; ++i) {
        text += static_cast<char>(record::OutputCheck().low() >> (8 * i));
    }
    for (const uint64_t field : fields) {
        text += number(field);
    }
    return text;
}

std::string recording_of_traffic() {
    RecordedSubnet world;
    run_reliable(world, 2'000);
    return world.recording(0);
}

}  // namespace

TEST_CASE("recording: a configuration becomes text and comes back") {
    hca::Config config;
    {
        // This does not compile when a member is new: add it to record/config_text.cc as well.
        [[maybe_unused]] const auto& [ports, vectors, node, port, description, width, speed, ext,
                                      mtu, vls, pages, shadow, bursts, copy, entries, kinds,
                                      knobs] = config;
        [[maybe_unused]] const auto& [registers, dma, interrupts] = kinds;
        [[maybe_unused]] const auto& [inject, poison, shuffle, warnings, qpn, number, strict,
                                      adversary] = knobs;
        [[maybe_unused]] const auto& [seed, of] = adversary;
    }
    config.port_count = 2;
    config.node_guid = 0x0670696200010000;
    config.port_guids = {1, 2, 3, 4};
    config.node_description = "vm0 pib-hca";
    config.shadow_doorbells = true;
    config.trace_entries = 7;
    config.trace_kinds.dma = true;
    config.knobs.strict = hca::Strictness::kFatal;
    config.knobs.qpn_choice = hca::NumberChoice::kLowest;
    config.knobs.number_choice = hca::NumberChoice::kRandom;
    const std::string text = record::config_to_text(config);
    const auto back = record::config_from_text(text);
    REQUIRE(back);
    CHECK(record::config_to_text(*back) == text);
    CHECK(back->node_guid == config.node_guid);
    CHECK(back->node_description == "vm0 pib-hca");
    CHECK(back->knobs.strict == hca::Strictness::kFatal);
    CHECK(back->knobs.number_choice == hca::NumberChoice::kRandom);
    CHECK(back->trace_kinds.dma);
}

TEST_CASE("recording: a configuration of another version is refused") {
    for (const char* text : {"colour=7", "ports", "ports=", "ports=two", "ports=4294967296",
                             "bursts=2", "strict=3", "=1"}) {
        INFO(text);
        const auto config = record::config_from_text(text);
        REQUIRE_FALSE(config);
        CHECK(config.error().find(text) != std::string::npos);
    }
}

TEST_CASE("recording: objects have names, and so have differences") {
    using record::StateKind;
    CHECK(record::to_string(StateKind::kQp, 0x41) == "qp 0x41");
    CHECK(record::to_string(StateKind::kRequester, 0x41) == "qp 0x41 (requester)");
    CHECK(record::to_string(StateKind::kCq, 3) == "cq 3");
    CHECK(record::to_string(StateKind::kDevice, 0) == "the device itself");
    const record::State recorded = {
        {StateKind::kCq, 1, 5}, {StateKind::kQp, 0x40, 1}, {StateKind::kMr, 0x500, 9}};
    const record::State replayed = {
        {StateKind::kCq, 1, 6}, {StateKind::kCq, 2, 6}, {StateKind::kMr, 0x500, 9}};
    CHECK(record::differences(recorded, replayed) ==
          "cq 1 differs, qp 0x40 is missing, cq 2 is only in the replay");
    CHECK(record::differences(recorded, replayed, 1) == "cq 1 differs and 2 more");
    CHECK(record::differences(recorded, recorded).empty());
}

TEST_CASE("recording: the payload of long packets in a stream is left out, however it is cut") {
    const auto packet = link::packet_header(2000, true);
    const auto with_crcs = link::packet_header(2000, false);
    const auto mad = link::packet_header(300, true);
    std::vector<uint8_t> stream;
    for (const auto& [header, bytes] :
         {std::pair{packet, 2000u}, std::pair{mad, 300u}, std::pair{with_crcs, 2000u}}) {
        stream.insert(stream.end(), header.begin(), header.end());
        stream.insert(stream.end(), bytes, 0xab);
    }
    for (const size_t step : {size_t{1}, size_t{7}, size_t{600}, stream.size()}) {
        record::StreamCut cut;
        size_t kept = 0, left_out = 0;
        for (size_t at = 0; at < stream.size(); at += step) {
            auto rest =
                std::span<const uint8_t>(stream).subspan(at, std::min(step, stream.size() - at));
            while (!rest.empty()) {
                const auto piece = cut.next(rest);
                REQUIRE(piece.kept + piece.left_out > 0);
                kept += piece.kept;
                left_out += piece.left_out;
                rest = rest.subspan(piece.kept + piece.left_out);
            }
        }
        CHECK(left_out == 2000 - 128);
        CHECK(kept + left_out == stream.size());
    }
    // All bytes of a stream without frames are kept.
    record::StreamCut cut;
    const std::vector<uint8_t> noise(100, 0xff);
    CHECK(cut.next(noise).kept == 100);
    CHECK(cut.next(noise).kept == 100);
}

TEST_CASE("recording: other files are refused, with advice") {
    const auto refused_file = [](const std::string& file, const char* why) {
        const std::string text = refusal_of_file(file);
        INFO(text);
        CHECK(text.find(why) != std::string::npos);
    };
    refused_file("", "not a recording of a pib-hca");
    refused_file("#!/bin/sh\nexit 0\n", "not a recording of a pib-hca");
    std::string other = recording_of(plain());
    refused_file(other.substr(0, 10), "ends in its header");
    refused_file(other.substr(0, kRecordingStart + 2), "ends in its header");
    other[8] = 9;
    refused_file(other, "its format is version 9");
    CHECK(refused("", "ends in its header"));
    other = plain();
    other[0] = PIB_HCA_INTERFACE_MAJOR + 1;
    CHECK(refused(other, "take the pib-replay of the version that recorded it"));
    other = plain();
    other[9] = 0x7f;
    CHECK(refused(other, "its configuration is damaged"));
    CHECK(refused(header_of("colour=7\n"), "colour=7"));
    CHECK(refused(header_of("colour\x1b[2J\xff=7\n"), "\"colour?[2J?=7\""));
    CHECK(refused(header_of("ports=77\n"), "its configuration is impossible"));
    CHECK(refusal(plain()).empty());
}

TEST_CASE("recording: impossible events are refused") {
    const std::string too_long = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
    CHECK(refused(plain() + '\x1f', "an unknown event 31"));
    CHECK(refused(plain() + '\x7f', "an unknown event 127"));
    CHECK(refused(plain() + std::string(1, static_cast<char>(Tag::kMmioRead)) + too_long,
                  "more than 64 bits"));
    CHECK(refused(plain() + entry(Tag::kMmioRead, {0, 0, 3}), "an impossible load"));
    CHECK(refused(plain() + entry(Tag::kMmioRead, {9, 0, 4}), "an impossible load"));
    CHECK(refused(plain() + entry(Tag::kMmioWrite, {0, 0, 0, 16}), "an impossible store"));
    CHECK(refused(plain() + entry(Tag::kKick, {1u << 30}), "an impossible UAR"));
    CHECK(refused(plain() + entry(Tag::kLinkClosed, {5}), "an impossible port"));
    CHECK(refused(plain() + entry(Tag::kLinkReceived, {1, 1u << 30}), "from a link at once"));
    CHECK(refused(plain() + entry(Tag::kLinkReceived, {1, 8}) + number(9), "in wrong pieces"));
    CHECK(refused(plain() + entry(Tag::kLinkReceived, {1, 8}) + number(0) + number(0),
                  "an empty piece"));
    for (const uint64_t size : {uint64_t{0}, uint64_t{96}, uint64_t{1} << 40}) {
        CHECK(refused(plain() + entry(Tag::kLinkShared, {1, size, 65536}), "shared memory"));
        CHECK(refused(plain() + entry(Tag::kLinkShared, {1, 65536, size}), "shared memory"));
    }
    std::string rings = plain();
    for (unsigned i = 0; i < 10; ++i) {
        rings += entry(Tag::kLinkShared, {1, 65536, 65536});
    }
    CHECK(refused(rings, "shared memory"));
    const std::string run = plain() + entry(Tag::kRun, {});
    CHECK(refused(run + static_cast<char>(Tag::kRead) + number(1u << 25), "bytes in one event"));
    CHECK(refused(run + static_cast<char>(Tag::kMark) + number(1u << 25), "a mark of"));
    CHECK(refused(run + static_cast<char>(Tag::kMark) + number(1) + '\x7f', "unknown kind"));
}

TEST_CASE("recording: an answer that the replayed device does not ask for is a difference") {
    std::istringstream file(recording_of(plain() + entry(Tag::kRun, {}) +
                                         static_cast<char>(Tag::kWritten) + entry(Tag::kRun, {})));
    Replayer replayer(file, {});
    REQUIRE(replayer.open());
    const auto result = replayer.run();
    REQUIRE(result);
    CHECK(result->difference.find(
              "a DMA write at the end of the call, which this device does not make") !=
          std::string::npos);
}

TEST_CASE("recording: a file may end at any byte") {
    const std::string whole = recording_of_traffic();
    for (size_t length = 0; length < whole.size(); length += 1 + length / 40) {
        INFO("length " << length);
        std::istringstream file(whole.substr(0, length));
        Replayer replayer(file, {});
        if (!replayer.open()) {
            continue;
        }
        const auto result = replayer.run();
        REQUIRE(result);
        CHECK(result->difference.empty());
    }
}

TEST_CASE("recording: damage does no harm") {
    const std::string whole = content_of(recording_of_traffic());
    std::mt19937_64 random(5);
    for (unsigned round = 0; round < 200; ++round) {
        std::string damaged = whole;
        for (unsigned i = 0; i <= round % 4; ++i) {
            // Half of the damage is near the start, where the device is set up.
            const size_t range = round % 2 == 0 ? damaged.size() : damaged.size() / 8;
            damaged[random() % range] = static_cast<char>(random());
        }
        std::istringstream file(recording_of(damaged));
        Replayer replayer(file, {.tolerant = round % 3 == 0});
        if (replayer.open()) {
            (void)replayer.run();
            (void)replayer.device().objects();
        }
    }
}

// ---- blocks

namespace {

// The result of the replay of a damaged file.
struct Outcome {
    std::string error;
    bool truncated = false;
};

Outcome outcome_of(const std::string& recording) {
    std::istringstream file(recording);
    Replayer replayer(file, {});
    if (const auto header = replayer.open(); !header) {
        return {header.error()};
    }
    const auto result = replayer.run();
    REQUIRE((!result || result->difference.empty()));
    return result ? Outcome{"", result->truncated} : Outcome{result.error()};
}

}  // namespace

TEST_CASE("recording: a reader notices each changed bit before a difference") {
    const std::string whole = recording_of_traffic();
    std::mt19937_64 random(11);
    for (unsigned round = 0; round < 300; ++round) {
        std::string damaged = whole;
        const size_t at = random() % damaged.size();
        damaged[at] = static_cast<char>(damaged[at] ^ 1 << random() % 8);
        INFO("byte " << at);
        const Outcome outcome = outcome_of(damaged);
        // A length that is too large goes beyond the end of the file.
        CHECK((!outcome.error.empty() || outcome.truncated));
    }
}

TEST_CASE("recording: a lost, a repeated and an exchanged block are noticed") {
    std::string content = plain();
    while (content.size() < 3 * record::kMostBlockBytes) {
        content += entry(Tag::kRun, {});
    }
    const std::string whole = recording_of(content);
    CHECK(outcome_of(whole).error.empty());
    const size_t bytes = sizeof(record::BlockHeader) + record::kMostBlockBytes;
    const std::string start = whole.substr(0, kRecordingStart + bytes);
    const std::string second = whole.substr(start.size(), bytes);
    const std::string third = whole.substr(start.size() + bytes, bytes);
    for (const std::string& changed :
         {start + third, start + second + second + third, start + third + second}) {
        CHECK(outcome_of(changed).error.find("its checksum is wrong") != std::string::npos);
    }
}

TEST_CASE("recording: impossible lengths of blocks are refused") {
    const std::string whole = recording_of(plain());
    for (const uint32_t bytes : {uint32_t{0}, uint32_t{record::kMostBlockBytes + 1}, ~0u}) {
        std::string changed = whole;
        std::memcpy(&changed[kRecordingStart], &bytes, sizeof(bytes));
        CHECK(outcome_of(changed).error.find("a block of " + std::to_string(bytes) + " bytes") !=
              std::string::npos);
    }
}

// ---- the command line

namespace {

std::expected<CommandLine, std::string> parsed(std::vector<std::string> words) {
    std::vector<char*> pointers;
    for (std::string& word : words) {
        pointers.push_back(word.data());
    }
    return parse_command_line(pointers);
}

}  // namespace

TEST_CASE("pib-replay: times have units") {
    CHECK(parse_time("12.5") == 12'500'000'000);
    CHECK(parse_time("12.5s") == 12'500'000'000);
    CHECK(parse_time("300ms") == 300'000'000);
    CHECK(parse_time("7us") == 7'000);
    CHECK(parse_time("40ns") == 40);
    for (const char* text : {"", "s", "-1", "1h", "nan", "1e30", "inf"}) {
        INFO(text);
        CHECK_FALSE(parse_time(text));
    }
}

TEST_CASE("pib-replay: arguments are parsed") {
    const auto line = parsed({"a.rec", "--until", "2s", "--dump", "qp", "0x40", "--dump", "cq 7",
                              "--dump", "trace", "--list", "--log", "--tolerant"});
    REQUIRE(line);
    CHECK(line->file == "a.rec");
    CHECK(line->until_ns == 2'000'000'000);
    REQUIRE(line->dumps.size() == 3);
    CHECK(line->dumps[0].number == 0x40);
    CHECK(line->dumps[1].kind == "cq");
    CHECK(line->dumps[1].number == 7);
    CHECK(line->wants_trace());
    CHECK(line->tolerant);
    CHECK(parsed({"--help"})->help);
    for (const auto& wrong : std::vector<std::vector<std::string>>{{},
                                                                   {"a", "b"},
                                                                   {"a", "--colour"},
                                                                   {"a", "--until"},
                                                                   {"a", "--dump"},
                                                                   {"a", "--dump", "door", "1"},
                                                                   {"a", "--dump", "qp"},
                                                                   {"a", "--dump", "qp", "x"}}) {
        CHECK_FALSE(parsed(wrong));
    }
}

TEST_CASE("pib-replay: one object is dumped") {
    RecordedSubnet world;
    run_reliable(world, 100);
    hca::Device& device = *world.subnet.guest(0).device;
    const auto qp = dump_of(device, {.kind = "qp", .number = 0x40});
    REQUIRE(qp);
    CHECK(qp->find("\"qpn\":64") != std::string::npos);
    CHECK(qp->find("\"type\":\"RC\"") != std::string::npos);
    CHECK(dump_of(device, {.kind = "port", .number = 1}));
    CHECK(dump_of(device, {.kind = "objects"})->find("\"cqs\"") != std::string::npos);
    CHECK(dump_of(device, {.kind = "journal"}));
    const auto none = dump_of(device, {.kind = "qp", .number = 0x7777});
    REQUIRE_FALSE(none);
    CHECK(none.error().find("--dump objects") != std::string::npos);
}
