// SPDX-License-Identifier: GPL-2.0-or-later
// The program itself, over real sockets: two adapters, the control socket, peers that misbehave.
// PIB_SWITCH names the program; without it the tests are skipped.
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "base/address.h"
#include "link_pair.h"
#include "program.h"
#include "socket_hca.h"
#include "test_fabric.h"

namespace pib::test {
namespace {

using fabric::UniqueFd;
namespace pi = ib::port_info;

// A subnet manager at an adapter of the program; it manages the switch, by SMPs of one hop.
class Manager {
  public:
    explicit Manager(SocketHca& hca) : hca_(hca) {}

    // Sends a Get or Set to the switch; returns the answer.
    ib::Mad ask(ib::Method method, uint16_t attribute, uint32_t modifier,
                std::span<const uint8_t> data = {}) {
        ib::Mad smp = make_smp(method, attribute, modifier, data);
        smp.set(ib::mad_header::kTransactionId, ++transaction_);
        smp.bytes[7] = 1;  // hops
        initial_path(smp)[1] = 1;
        REQUIRE(ib::smi_send(smp, {ib::NodeType::kChannelAdapter, 1}, 1).action ==
                ib::SmiAction::kPort);
        REQUIRE(send(*hca_.end, smp_packet(smp, ib::kPermissiveLid, ib::kPermissiveLid)));
        ib::Mad answer;
        REQUIRE(hca_.until([&] { return find(answer); }));
        return answer;
    }
    // Changes one field of an attribute of the switch.
    void change(uint16_t attribute, uint32_t modifier, ib::Field field, uint64_t value) {
        ib::Mad got = ask(ib::Method::kGet, attribute, modifier);
        if (attribute == ib::attr::kPortInfo) {
            ib::set(got.smp_data(), pi::kPortState, 0);
            ib::set(got.smp_data(), pi::kPortPhysicalState, 0);
        }
        ib::set(got.smp_data(), field, value);
        REQUIRE(ask(ib::Method::kSet, attribute, modifier, got.smp_data()).status() == 0);
    }
    // LIDs 1 and 2 lead to ports 1 and 2, which become Active; no packet is ever too old.
    void make_active() {
        change(ib::attr::kSwitchInfo, 0, ib::switch_info::kLinearFdbTop, 2);
        change(ib::attr::kSwitchInfo, 0, ib::switch_info::kLifeTimeValue, 31);
        std::array<uint8_t, 64> block;
        block.fill(fabric::kNoPort);
        block[1] = 1;
        block[2] = 2;
        (void)ask(ib::Method::kSet, ib::attr::kLinearForwardingTable, 0, block);
        for (const unsigned port : {1U, 2U}) {
            change(ib::attr::kPortInfo, port, pi::kHoqLife, 31);
            for (const auto state : {ib::PortState::kArmed, ib::PortState::kActive}) {
                change(ib::attr::kPortInfo, port, pi::kPortState, static_cast<unsigned>(state));
            }
        }
    }

  private:
    bool find(ib::Mad& answer) const {
        for (const Bytes& packet : hca_.recorder.packets) {
            const auto view = ib::PacketView::parse(packet, ib::Crcs::kElided);
            if (view && view->payload().size() == ib::kMadSize) {
                std::ranges::copy(view->payload(), answer.bytes.begin());
                if (answer.transaction_id() == transaction_) {
                    return true;
                }
            }
        }
        return false;
    }

    SocketHca& hca_;
    uint64_t transaction_ = 0;
};

uint64_t counter(const Program& program, unsigned port, const char* name) {
    const auto answer = program.ask({{"command", "counters"}, {"port", port}});
    return answer.at("ports").at(0).at(name).get<uint64_t>();
}

}  // namespace

TEST_CASE("program: links come up over sockets, and again after a restart") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    Program program;
    SocketHca one(program.fabric_path(), 0x1000), two(program.fabric_path(), 0x2000);
    REQUIRE(one.until([&] { return one.end->is_up(); }));
    REQUIRE(two.until([&] { return two.end->is_up(); }));
    CHECK(program.reaches(1, "Initialize"));
    CHECK(program.reaches(2, "Initialize"));

    two.fd.reset();
    CHECK(program.reaches(2, "Down"));
    CHECK(program.reaches(1, "Initialize"));
    SocketHca again(program.fabric_path(), 0x2000);
    REQUIRE(again.until([&] { return again.end->is_up(); }));
    CHECK(again.recorder.welcomes.at(0).port_number == 2);

    program.stop(SIGKILL);
    REQUIRE(one.until([&] { return one.closed; }));
    program.start();
    SocketHca back(program.fabric_path(), 0x1000);
    REQUIRE(back.until([&] { return back.end->is_up(); }));
    CHECK(program.stop(SIGTERM) == 0);
}

TEST_CASE("program: a switch that ends leaves the sockets of another one at its paths") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    Program old, next;
    std::filesystem::rename(next.fabric_path(), old.fabric_path());
    std::filesystem::rename(next.control_path(), old.control_path());
    REQUIRE(old.stop(SIGTERM) == 0);
    CHECK(fabric::connect_unix(old.fabric_path()));
    CHECK(fabric::connect_unix(old.control_path()));
}

TEST_CASE("program: --socket-mode sets the permissions of the socket") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const auto mode_of = [](const std::string& path) {
        return static_cast<unsigned>(std::filesystem::status(path).permissions());
    };
    CHECK(mode_of(Program().fabric_path()) == 0660);
    CHECK(mode_of(Program({"--socket-mode", "0600"}).fabric_path()) == 0600);
}

TEST_CASE("program: garbage, silence and thousands of connections disturb no link") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    Program program;
    SocketHca good(program.fabric_path(), 0x1000);
    REQUIRE(good.until([&] { return good.end->is_up(); }));
    std::vector<UniqueFd> silent;
    for (unsigned i = 0; i < 5000; ++i) {
        auto fd = fabric::connect_unix(program.fabric_path());
        REQUIRE(fd);
        const std::string junk(64, static_cast<char>(i));
        (void)::send(fd->get(), junk.data(), i % 3 == 0 ? junk.size() : i % 5,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
        if (i % 50 == 0) {
            silent.push_back(std::move(*fd));
        }
    }
    SocketHca twin(program.fabric_path(), 0x1000);
    REQUIRE(twin.until([&] { return twin.closed; }));
    REQUIRE(twin.recorder.refusals.size() == 1);
    CHECK(twin.recorder.refusals[0].reason == link::RefuseReason::kDuplicatePortGuid);
    REQUIRE(program.alive());
    CHECK(program.reaches(1, "Initialize"));
    good.pump();
    CHECK(good.end->is_up());
}

TEST_CASE("program: SIGTERM ends a switch in which packets wait") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    Program program;
    SocketHca one(program.fabric_path(), 0x1000);
    REQUIRE(one.until([&] { return one.end->is_up(); }));
    SocketHca two(program.fabric_path(), 0x2000);
    REQUIRE(two.until([&] { return two.end->is_up(); }));
    Manager(one).make_active();
    const uint64_t received = counter(program, 2, "PortRcvPkts");
    const uint64_t passed_on = counter(program, 1, "PortXmitPkts");
    one.recorder.hold = true;
    uint64_t sent = 0;
    REQUIRE(two.until([&] {
        sent += sent < 20 && send(*two.end, make_packet(0, 1, 4096, 2)) ? 1 : 0;
        return sent == 20;
    }));
    CHECK(eventually([&] {
        two.pump();
        return counter(program, 2, "PortRcvPkts") == received + sent;
    }));
    // The rest waits at port 1, because the first adapter frees no buffer.
    CHECK(counter(program, 1, "PortXmitPkts") < passed_on + sent);
    CHECK(program.stop(SIGTERM) == 0);
    CHECK_FALSE(std::filesystem::exists(program.fabric_path()));
}

TEST_CASE("program: a capture that reaches the limit of a file's size ends, the switch goes on") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    char name[] = "/tmp/pib-switch-capture-XXXXXX";
    const UniqueFd file(::mkstemp(name));
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit small{4096, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    Program program({"--pcap", name});
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    SocketHca one(program.fabric_path(), 0x1000);
    REQUIRE(one.until([&] { return one.end->is_up(); }));
    Manager manager(one);
    // The switch writes its buffer at intervals. If the full file has ended the switch, the later
    // requests fail.
    CHECK(eventually([&] {
        (void)manager.ask(ib::Method::kGet, ib::attr::kNodeInfo, 0);
        return std::filesystem::file_size(name) == 4096;
    }));
    for (unsigned i = 0; i < 1000; ++i) {
        (void)manager.ask(ib::Method::kGet, ib::attr::kNodeInfo, 0);
    }
    CHECK(program.reaches(1, "Initialize"));
    CHECK(program.stop(SIGTERM) == 0);
    ::unlink(name);
}

TEST_CASE("program: without free file descriptors only newcomers are refused") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    Program program({}, 40);
    SocketHca good(program.fabric_path(), 0x1000);
    REQUIRE(good.until([&] { return good.end->is_up(); }));
    {
        std::vector<UniqueFd> many;
        for (unsigned i = 0; i < 200; ++i) {
            if (auto fd = fabric::connect_unix(program.fabric_path())) {
                many.push_back(std::move(*fd));
            }
        }
        good.pump();
        CHECK(good.end->is_up());
    }
    REQUIRE(program.alive());
    CHECK(eventually([&] {
        const auto fd = fabric::connect_unix(program.control_path());
        const std::string line = "{\"command\":\"status\"}\n";
        char byte;
        return fd && ::send(fd->get(), line.data(), line.size(), MSG_NOSIGNAL) > 0 &&
               ::recv(fd->get(), &byte, 1, 0) == 1;
    }));
}

TEST_CASE("program: memory for control clients that flood or do not read is bounded") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    Program program;
    auto endless = fabric::connect_unix(program.control_path());
    REQUIRE(endless);
    const std::string part(4096, 'x');
    CHECK(eventually([&] {  // a line without end is cut off
        return ::send(endless->get(), part.data(), part.size(), MSG_NOSIGNAL) < 0;
    }));
    auto unread = fabric::connect_unix(program.control_path());
    REQUIRE(unread);
    std::string requests;
    for (unsigned i = 0; i < 200; ++i) {
        requests += "{\"command\":\"status\"}\n";
    }
    for (unsigned i = 0; i < 20; ++i) {
        (void)::send(unread->get(), requests.data(), requests.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    CHECK(program.ask({{"command", "status"}}).at("ok") == true);
}

TEST_CASE("program: a switch without --guid has a locally administered GUID") {
    if (!have_program()) {
        SKIP("no pib-switch");
    }
    const Program program;
    const json answer = program.ask({{"command", "status"}});
    CHECK(answer.at("switch").at("guid").get<std::string>().starts_with("0x06"));
}

TEST_CASE("program: a control client gets the answers of many requests") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    constexpr ptrdiff_t kRequests = 500;
    Program program;
    SocketHca good(program.fabric_path(), 0x1000);
    REQUIRE(good.until([&] { return good.end->is_up(); }));
    auto eager = fabric::connect_unix(program.control_path());
    REQUIRE(eager);
    std::string requests;
    for (int i = 0; i < kRequests; ++i) {
        requests += "{\"command\":\"lft\"}\n";
    }
    size_t sent = 0;
    ptrdiff_t answers = 0;
    CHECK(eventually([&] {
        if (sent < requests.size()) {
            const ssize_t n = ::send(eager->get(), requests.data() + sent, requests.size() - sent,
                                     MSG_NOSIGNAL | MSG_DONTWAIT);
            sent += n > 0 ? static_cast<size_t>(n) : 0;
        }
        char buffer[4096];
        const ssize_t n = ::recv(eager->get(), buffer, sizeof(buffer), MSG_DONTWAIT);
        answers += n > 0 ? std::count(buffer, buffer + n, '\n') : 0;
        return answers >= kRequests;
    }));
    CHECK(answers == kRequests);
    good.pump();
    CHECK(good.end->is_up());
}

}  // namespace pib::test
