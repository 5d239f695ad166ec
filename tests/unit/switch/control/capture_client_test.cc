// SPDX-License-Identifier: GPL-2.0-or-later
// A client with a live capture: the packets that it gets, and its end.
#include "control/capture_client.h"

#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "test_fabric.h"

namespace pib::test {
namespace {

using fabric::UniqueFd;

constexpr const char* kAnswer = "{\"format\":\"pcapng\",\"ok\":true}\n";
constexpr size_t kHeaders = 28 + 32;  // blocks before the first packet

fabric::Arrival at(uint64_t now_ns) {
    return {.now_ns = now_ns, .lid = 0, .port = 0, .credits = std::nullopt};
}

// Bytes of a packet's block: 32, and ERF header, packet and checksums, padded to a multiple of 4.
size_t block_bytes(size_t packet) {
    return 32 + (24 + packet + 6 + 3) / 4 * 4;
}

std::string read_all(int fd) {
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t n = 0; (n = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT)) > 0;) {
        text.append(buffer.data(), static_cast<size_t>(n));
    }
    return text;
}

}  // namespace

TEST_CASE("capture client: a reader gets the packets of its rules until it ends") {
    fabric::Poller poller;
    fabric::Fabric one(TestFabric::default_config());
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0);
    UniqueFd reader(fds[1]);
    auto filter = fabric::CaptureFilter::from(nlohmann::json::parse(R"([{"dlid":2}])"));
    REQUIRE(filter);
    fabric::CaptureClient client(poller, one, UniqueFd(fds[0]), *filter);
    poller.wait(0, [] {});
    const std::string answer = read_all(reader.get());
    CHECK(answer.starts_with(kAnswer));
    CHECK(answer.size() == std::string(kAnswer).size() + kHeaders);

    const Bytes wanted = make_packet(0, 2, 64), other = make_packet(0, 3, 64);
    client.packet_seen(wanted, at(5));
    client.packet_seen(other, at(6));
    client.packet_seen(wanted, at(7));
    poller.wait(0, [] {});
    CHECK(read_all(reader.get()).size() == 2 * block_bytes(wanted.size()));
    CHECK_FALSE(client.is_over());

    reader.reset();
    poller.wait(0, [] {});
    CHECK(client.is_over());
    client.packet_seen(wanted, at(8));  // no effect
}

}  // namespace pib::test
