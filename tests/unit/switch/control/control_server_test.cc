// SPDX-License-Identifier: GPL-2.0-or-later
// Clients of the control socket: captures, many clients, lines that do not end.
#include "control/control_server.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <list>
#include <nlohmann/json.hpp>
#include <string>

#include "base/address.h"
#include "program.h"

namespace pib::test {
namespace {

// A client that waits for its answers.
class Client {
  public:
    explicit Client(const Program& program)
        : fd_(fabric::connect_unix(program.control_path()).value()) {}

    void send(const std::string& text) {
        REQUIRE(::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(text.size()));
    }
    json ask(const std::string& line) {
        send(line + "\n");
        return json::parse(next_line());
    }
    // The next line without its newline; "" if the server has closed the connection.
    std::string next_line() {
        while (input_.find('\n') == std::string::npos) {
            char buffer[4096];
            const ssize_t n = ::recv(fd_.get(), buffer, sizeof(buffer), 0);
            if (n <= 0) {
                return "";
            }
            input_.append(buffer, static_cast<size_t>(n));
        }
        const size_t end = input_.find('\n');
        const std::string line = input_.substr(0, end);
        input_.erase(0, end + 1);
        return line;
    }
    [[nodiscard]] bool is_closed() { return next_line().empty(); }

  private:
    fabric::UniqueFd fd_;
    std::string input_;
};

constexpr const char* kCapture = R"({"command":"capture"})";

}  // namespace

TEST_CASE("control server: rules of a capture are checked, and the connection stays") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const Program program;
    Client client(program);
    for (const char* rules : {"7", "[7]", "[{}]", R"([{"dlid":-1}])", R"([{"dlid":65536}])",
                              R"([{"qp":16777216}])", R"([{"nothing":1}])", R"({"dlid":1})"}) {
        CAPTURE(rules);
        const json answer =
            client.ask(R"({"command":"capture","rules":)" + std::string(rules) + "}");
        CHECK(answer.at("ok") == false);
        CHECK_FALSE(answer.at("error").get<std::string>().empty());
    }
    CHECK(client.ask(R"({"command":"status"})").at("ok") == true);
    const json started = client.ask(R"({"command":"capture","rules":[{"dlid":1}]})");
    CHECK(started.at("ok") == true);
    CHECK(started.at("format") == "pcapng");
}

TEST_CASE("control server: only the user of the switch may open the socket") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const Program program({"--socket-mode", "0666"});  // for the socket of the fabric
    struct stat info{};
    REQUIRE(::stat(program.control_path().c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    CHECK(info.st_uid == ::geteuid());
}

TEST_CASE("control server: four captures run, and one that ends makes room") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const Program program;
    std::list<Client> captures;
    for (unsigned i = 0; i < 4; ++i) {
        REQUIRE(captures.emplace_back(program).ask(kCapture).at("ok") == true);
    }
    Client fifth(program);
    CHECK(fifth.ask(kCapture).at("error") == "4 captures run: end one of them");
    captures.pop_front();
    CHECK(eventually([&] { return fifth.ask(kCapture).at("ok") == true; }));
}

TEST_CASE("control server: a client beyond the limit replaces the oldest one") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const Program program;
    std::list<Client> clients;
    for (unsigned i = 0; i < 33; ++i) {
        REQUIRE(clients.emplace_back(program).ask(R"({"command":"status"})").at("ok") == true);
    }
    CHECK(clients.front().is_closed());
    clients.pop_front();
    for (Client& client : clients) {
        CHECK(client.ask(R"({"command":"status"})").at("ok") == true);
    }
}

TEST_CASE("control server: a client that waits for a descriptor is served when one is free") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const Program program;
    Client first(program);
    REQUIRE(first.ask(R"({"command":"status"})").at("ok") == true);
    rlimit before{};
    REQUIRE(::prlimit(program.pid(), RLIMIT_NOFILE, nullptr, &before) == 0);
    const rlimit none{.rlim_cur = 3, .rlim_max = before.rlim_max};
    REQUIRE(::prlimit(program.pid(), RLIMIT_NOFILE, &none, nullptr) == 0);
    Client late(program);
    REQUIRE(first.ask(R"({"command":"status"})").at("ok") == true);  // no descriptor for `late`
    // The host has descriptors again, and nothing else wakes the switch.
    REQUIRE(::prlimit(program.pid(), RLIMIT_NOFILE, &before, nullptr) == 0);
    CHECK(late.ask(R"({"command":"status"})").at("ok") == true);
}

TEST_CASE("control server: requests in one piece are answered in order") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const Program program;
    Client client(program);
    client.send("{\"command\":\"lft\"}\nnonsense\n{\"command\":\"status\"}\n{\"comm");
    CHECK(json::parse(client.next_line()).contains("top"));
    CHECK(json::parse(client.next_line()).at("ok") == false);
    CHECK(json::parse(client.next_line()).contains("switch"));
    CHECK(client.ask("and\":\"journal\"}").contains("entries"));
}

TEST_CASE("control server: a line without an end closes its connection only") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const Program program;
    Client good(program), endless(program);
    REQUIRE(good.ask(R"({"command":"status"})").at("ok") == true);
    const std::string part(4096, 'x');
    for (unsigned i = 0; i < 17; ++i) {  // 64 KiB, and more
        endless.send(part);
    }
    CHECK(endless.is_closed());
    CHECK(good.ask(R"({"command":"status"})").at("ok") == true);
}

}  // namespace pib::test
