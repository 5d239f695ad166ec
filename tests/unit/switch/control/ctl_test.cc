// SPDX-License-Identifier: GPL-2.0-or-later
// `pib-switch ctl` with a running switch, and with servers that are not switches.
#include "control/ctl.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/address.h"
#include "program.h"
#include "socket_hca.h"

namespace pib::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

Ended ctl(const std::string& socket, std::vector<std::string> words,
          const std::string& input = {}) {
    words.insert(words.begin(), {"ctl", "--control", socket});
    return run_program(std::move(words), input);
}

size_t lines_of(const std::string& text) {
    return static_cast<size_t>(std::ranges::count(text, '\n'));
}

// Answers the first request of the first client with a fixed text, and keeps the request.
class CannedServer {
  public:
    explicit CannedServer(std::string answer) {
        char name[] = "/tmp/pib-ctl-test-XXXXXX";
        directory_ = ::mkdtemp(name);
        const fabric::Address address{fabric::Address::Kind::kUnix, path(), {}, {}};
        auto listening = fabric::listen_on(address, {.mode = 0600, .group = {}});
        REQUIRE(listening);
        listener_ = std::move(listening->front());
        // The listening socket does not block; the server waits for its client.
        REQUIRE(::fcntl(listener_.get(), F_SETFL, 0) == 0);
        thread_ = std::thread([this, answer = std::move(answer)] { serve(answer); });
    }
    ~CannedServer() {
        finish();
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
    }
    CannedServer(const CannedServer&) = delete;
    CannedServer& operator=(const CannedServer&) = delete;

    [[nodiscard]] std::string path() const { return directory_ + "/control"; }
    // The request that the server has received. The client must have ended.
    [[nodiscard]] json request() {
        finish();
        return json::parse(request_);
    }

  private:
    void serve(const std::string& answer) {
        const fabric::UniqueFd client(::accept(listener_.get(), nullptr, nullptr));
        char byte = 0;
        while (byte != '\n' && ::recv(client.get(), &byte, 1, 0) == 1) {
            request_ += byte;
        }
        (void)!::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
    void finish() {
        if (thread_.joinable()) {
            ::shutdown(listener_.get(), SHUT_RDWR);  // ends accept() if no client came
            thread_.join();
        }
    }

    std::string directory_;
    fabric::UniqueFd listener_;
    std::string request_;
    std::thread thread_;
};

// The output of a command for a fixed answer.
std::string printed(const std::vector<std::string>& words, const json& answer) {
    CannedServer server(answer.dump() + "\n");
    const Ended ended = ctl(server.path(), words);
    CHECK(ended.status == 0);
    CHECK(ended.err.empty());
    return ended.out;
}

// The request that a command sends.
json requested(const std::vector<std::string>& words) {
    CannedServer server("{\"ok\":true}\n");
    (void)ctl(server.path(), words);
    return server.request();
}

}  // namespace

TEST_CASE("ctl: commands show the running switch, its links and its faults") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    Program program({"--guid", "6500000000000001", "--name", "sw", "--ports", "4"});
    SocketHca one(program.fabric_path(), 0x1000);
    REQUIRE(one.until([&] { return one.end->is_up(); }));
    REQUIRE(program.reaches(1, "Initialize"));
    const auto run = [&](const std::vector<std::string>& words) {
        const Ended ended = ctl(program.control_path(), words);
        CHECK(ended.status == 0);
        CHECK(ended.err.empty());
        return ended.out;
    };
    std::string status = run({"status"});
    CHECK_THAT(status, StartsWith("sw  GUID 0x6500000000000001  LID 0  SM LID 0  4 ports\n"));
    CHECK_THAT(status, ContainsSubstring("   1  Initialize LinkUp "));
    CHECK_THAT(status, EndsWith("test node port 1 (0x0000000000001001)\n"));
    CHECK(lines_of(status) == 3);

    CHECK(run({"link", "2", "down"}).empty());
    CHECK_THAT(run({"fault", "1", "--drop", "0.5", "--direction", "in"}),
               StartsWith("port 1 in: drop 0.5; 0 packets\nport 1 out: none; "));
    status = run({"status"});
    CHECK_THAT(status, ContainsSubstring("(0x0000000000001001) [faults]\n"));
    CHECK_THAT(status, EndsWith(" [unplugged]\n"));
    CHECK(lines_of(status) == 4);
    CHECK_THAT(run({"fault", "1", "--clear"}), StartsWith("port 1 in: none; "));

    CHECK_THAT(run({"nodes"}), EndsWith(" sw\n"));
    CHECK_THAT(run({"lft"}), EndsWith("  port   (LinearFDBTop 0)\n"));
    CHECK_THAT(run({"mft"}), EndsWith("  ports\n"));
    CHECK_THAT(run({"counters", "2"}), StartsWith("port 2\n"));
    CHECK(lines_of(run({"counters"})) >= 5);
    const std::string journal = run({"journal"});
    CHECK_THAT(journal, ContainsSubstring("port 2   cable pulled"));
    CHECK_THAT(journal, ContainsSubstring("port 1   faults        drop 0.5\n"));
    const std::string vls = run({"vls", "1"});
    CHECK_THAT(vls, ContainsSubstring(" VL   waiting  credits\n  0         0  1024\n"));
    CHECK_THAT(vls, ContainsSubstring("\n 15         0  \nhigh priority"));
    CHECK_THAT(vls, ContainsSubstring("VL by SL, a line for each input port:\n   0  [0,"));
    CHECK(json::parse(run({"--json", "status"})).at("switch").at("description") == "sw");

    one.fd.reset();
    REQUIRE(program.reaches(1, "Down"));
    CHECK_THAT(run({"status"}), ContainsSubstring("(0x0000000000001001) gone\n"));
}

TEST_CASE("ctl: a refusal goes to stderr, and the status is 1") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const Program program;
    const Ended plain = ctl(program.control_path(), {"counters", "99"});
    CHECK(plain.status == 1);
    CHECK(plain.out.empty());
    CHECK_THAT(plain.err, StartsWith("pib-switch ctl: no such port: the switch has ports 1 to "));
    const Ended as_json = ctl(program.control_path(), {"--json", "counters", "99"});
    CHECK(as_json.status == 1);
    CHECK(json::parse(as_json.out).at("ok") == false);
    CHECK_THAT(json::parse(as_json.out).at("error").get<std::string>(),
               StartsWith("no such port: "));
    const Ended nobody = ctl(program.directory() + "/nothing", {"status"});
    CHECK(nobody.status == 1);
    CHECK_THAT(nobody.err, StartsWith("pib-switch ctl: "));
    CHECK_THAT(nobody.err, ContainsSubstring("/nothing"));
}

TEST_CASE("ctl: answers that no switch gives are errors") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const auto error = [](const std::string& answer) {
        CannedServer server(answer);
        const Ended ended = ctl(server.path(), {"status"});
        CHECK(ended.status == 1);
        CHECK(ended.out.empty());
        const std::string path = server.path();
        const auto at = ended.err.find(path);
        return at == std::string::npos ? ended.err : ended.err.substr(at + path.size());
    };
    for (const char* ended : {"", "{\"ok\":true"}) {
        CHECK(error(ended) == ": the switch closed the connection: look at its log\n");
    }
    for (const char* strange : {"[]\n", "junk\n"}) {
        CHECK_THAT(error(strange), StartsWith(": not the answer of a switch: give the path "));
    }
    CHECK(error("{}\n") == "pib-switch ctl: refused\n");
    CHECK(error("{\"ok\":1,\"error\":7}\n") == "pib-switch ctl: refused\n");
    for (const char* answer : {"{\"ok\":true}\n", "{\"ok\":true,\"switch\":7}\n"}) {
        CHECK(error(answer) ==
              "pib-switch ctl: the switch has another version: use its own pib-switch\n");
    }
}

TEST_CASE("ctl: tables of a subnet are printed, a line for each entry") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    CHECK(printed({"lft"}, json::parse(R"({"ok":true,"top":9,"entries":[[1,0],[9,36]]})")) ==
          "   LID  port   (LinearFDBTop 9)\n     1  0\n     9  36\n");
    CHECK(printed({"mft"}, json::parse(R"({"ok":true,"entries":[[49153,[0,3]]]})")) ==
          "  MLID  ports\n0xc001  [0,3]\n");
    CHECK(printed(
              {"counters"},
              json::parse(
                  R"({"ok":true,"ports":[{"port":3,"PortRcvPkts":7,"SymbolErrorCounter":0}]})")) ==
          "port 3\n  PortRcvPkts                      7\n");
    CHECK(printed({"journal"},
                  json::parse(R"({"ok":true,"entries":[{"age_ns":1500000000,"port":4,"times":3,)"
                              R"("change":"link error","detail":"overrun"}]})")) ==
          "       1.500 s ago  port 4   link error    overrun  (3 times)\n");
    CHECK_THAT(
        printed({"fault", "1"},
                json::parse(
                    R"({"ok":true,"port":1,)"
                    R"("in":{"description":"drop 1","counts":{"seen":9,"dropped":8,"delayed":0}},)"
                    R"("out":{"description":"none","counts":{"seen":0}}})")),
        StartsWith("port 1 in: drop 1; 9 packets, dropped 8\nport 1 out: none; 0 packets\n"));
}

TEST_CASE("ctl: each option is a member of the request") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    CHECK(requested({"--switch", "s1", "counters", "7", "--clear"}) ==
          json::parse(R"({"command":"counters","switch":"s1","port":7,"clear":true})"));
    CHECK(requested({"link", "leaf[3]", "retrain"}) ==
          json::parse(R"({"command":"link","port":"leaf[3]","state":"retrain"})"));
    CHECK(requested({"run", "Unlink", "leaf1[3]"}) ==
          json::parse(R"({"command":"run","line":"Unlink leaf1[3]"})"));
    CHECK(requested({"fault", "2", "--drop", "0.5", "--reorder-depth", "4", "--vl15", "--direction",
                     "out", "--opcode", "much"}) ==
          json::parse(R"({"command":"fault","port":2,"direction":"out",)"
                      R"("set":{"drop":0.5,"reorder_depth":4,"vl15":true,"opcode":"much"}})"));
    CHECK(requested({"--switch", "\xFF", "status"}).at("switch") == "\uFFFD");
    CHECK(requested({"fault", "2", "--clear"}).at("set") == json::object());
    CHECK_FALSE(requested({"fault", "2"}).contains("set"));
}

TEST_CASE("ctl: a script ends at its first refused line") {
    const char* topologies = std::getenv("PIB_TOPOLOGIES");
    if (!have_program() || topologies == nullptr) {
        SKIP("PIB_SWITCH or PIB_TOPOLOGIES is not set");
    }
    const Program program({"--topology", std::string(topologies) + "/line-4.topo"});
    const std::string file = program.directory() + "/script";
    std::ofstream(file) << "# a comment\nNothing here\nUnlink also[1]\n";
    const Ended refused = ctl(program.control_path(), {"script", file});
    CHECK(refused.status == 1);
    CHECK_THAT(refused.err, StartsWith("pib-switch ctl: " + file + ":2: "));
    CHECK(lines_of(refused.err) == 1);
    CHECK(ctl(program.control_path(), {"script", "-"}, "# nothing\n\n").status == 0);
    const Ended missing = ctl(program.control_path(), {"script", file + ".none"});
    CHECK(missing.status == 1);
    CHECK(missing.err ==
          "pib-switch ctl: cannot read " + file + ".none: No such file or directory\n");
    CHECK_THAT(ctl(program.control_path(), {"nodes"}).out, ContainsSubstring("\nswitch "));
    CHECK_THAT(ctl(program.control_path(), {"status"}).err,
               ContainsSubstring("there are 4 switches"));
}

}  // namespace pib::test
