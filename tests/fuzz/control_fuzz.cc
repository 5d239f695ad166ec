// SPDX-License-Identifier: GPL-2.0-or-later
// The control socket: clients connect, send anything in any pieces, read or not, capture and
// disconnect, while the fabric has traffic. A client that reads gets one line for each request.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/poller.h"
#include "control/control_server.h"
#include "fabric/topology.h"
#include "fuzz_target.h"

namespace pib::fuzz {
namespace {

using fabric::Fabric;

constexpr unsigned kClients = 6;
constexpr unsigned kMaxSteps = 100;
constexpr const char* kTopology =
    "switchguid=0x100\nSwitch 8 \"left\"\n[1] \"a\"[1]\n[7] \"right\"[7]\n\n"
    "switchguid=0x200\nSwitch 8 \"right\"\n[1] \"b\"[1]\n\ncaguid=0x10\nCa 1 \"a\"\n\n"
    "caguid=0x20\nCa 1 \"b\"\n";

// Bytes from 128 on stand for these words, so that few bytes make a command.
constexpr std::array<std::string_view, 48> kWords = {
    R"({"command":)",
    R"("status")",
    R"("nodes")",
    R"("lft")",
    R"("mft")",
    R"("counters")",
    R"("link")",
    R"("fault")",
    R"("capture")",
    R"("journal")",
    R"("run")",
    R"("traffic")",
    R"("ports")",
    R"("cables")",
    R"("unplug")",
    R"("plug")",
    R"(,"port":)",
    R"(,"switch":)",
    R"(,"line":)",
    R"(,"rules":)",
    R"(,"set":)",
    R"(,"state":)",
    R"("left")",
    R"("left[7]")",
    R"("a[1]")",
    R"({"drop":0.5)",
    R"(,"delay":)",
    R"({"dlid":)",
    R"({"qp":)",
    R"("down")",
    R"("up")",
    R"("Trap a[1] 131")",
    R"("Unlink left[7]")",
    R"("ReLink left[7]")",
    "}",
    "}\n",
    "[",
    "]",
    "-1",
    "65536",
    "1e300",
    "\"\\ud800\"",
    "null",
    "true",
    "{}",
    "\n",
    R"(,"count":)",
    R"(,"since":)",
};

std::string path() {
    static const std::string folder = [] {
        char name[] = "/tmp/pib-control-fuzz-XXXXXX";
        return std::string(::mkdtemp(name));
    }();
    return folder + "/control";
}

struct Client {
    fabric::UniqueFd fd;
    std::string answers;
};

class Bench {
  public:
    Bench() {
        auto topology = fabric::parse_topology(kTopology, "control");
        fabric_ = std::move(*Fabric::make(std::move(*topology), {}));
        server_ = std::move(*fabric::ControlServer::create(path(), poller_, *fabric_));
    }
    ~Bench() { ::rmdir(path().substr(0, path().rfind('/')).c_str()); }

    void step(Input& in) {
        const uint8_t op = in.byte();
        Client& client = clients_[(op >> 3) % kClients];
        switch (op % 8) {
            case 0:
                connect(client);
                break;
            case 1:
                client = {};
                break;
            case 2:
                if (client.fd) {
                    ::shutdown(client.fd.get(), (op & 0x80) != 0 ? SHUT_RD : SHUT_WR);
                }
                break;
            case 3:
                read(client);
                break;
            case 4:
                fabric_->advance(now_ns_ += uint64_t{in.byte()} << 20);
                break;
            default:
                send(client, in);
                break;
        }
        turn();
    }
    // Checks that a new client gets an answer, whatever the others did.
    void finish() {
        Client& client = clients_[0];
        connect(client);
        turn();
        const std::string_view question = "{\"command\":\"status\"}\n";
        require(::send(client.fd.get(), question.data(), question.size(), MSG_NOSIGNAL) ==
                    static_cast<ssize_t>(question.size()),
                "a client can ask");
        for (unsigned i = 0; i < 50 && client.answers.find('\n') == std::string::npos; ++i) {
            turn();
            read(client);
        }
        require(client.answers.find('\n') != std::string::npos, "a client is answered");
    }

  private:
    static void connect(Client& client) {
        client = {};
        if (auto connected = fabric::connect_unix(path())) {
            client.fd = std::move(*connected);
        }
    }
    static void send(Client& client, Input& in) {
        std::string text;
        for (const uint8_t byte : in.take(in.byte())) {
            if (byte >= 128) {
                text += kWords[(byte - 128U) % kWords.size()];
            } else {
                text.push_back(static_cast<char>(byte));
            }
        }
        if (client.fd) {
            (void)::send(client.fd.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    }
    static void read(Client& client) {
        std::array<char, 65536> room;
        const ssize_t n =
            client.fd ? ::recv(client.fd.get(), room.data(), room.size(), MSG_DONTWAIT) : 0;
        if (n > 0) {
            client.answers.append(room.data(), std::min<size_t>(static_cast<size_t>(n), 4096));
        }
    }
    void turn() {
        poller_.wait(0, [] {});
        for (unsigned i = 0; fabric_->deliver(); ++i) {
            require(i < 10'000, "each packet ends");
        }
        server_->reap_closed();
    }

    fabric::Poller poller_;
    std::unique_ptr<Fabric> fabric_;
    std::unique_ptr<fabric::ControlServer> server_;
    std::array<Client, kClients> clients_;
    uint64_t now_ns_ = 1;
};

}  // namespace

std::vector<Bytes> seeds() {
    const auto send = [](std::initializer_list<uint8_t> words) {
        Bytes step = {5, static_cast<uint8_t>(words.size())};
        step.insert(step.end(), words);
        return step;
    };
    std::vector<Bytes> all;
    for (const Bytes& request :
         {send({128, 129, 163}), send({128, 130, 163}), send({128, 131, 145, 150, 163}),
          send({128, 135, 144, 151, 148, 153, 162, 163}),
          send({128, 136, 147, 164, 155, '1', 162, 165, 163}), send({128, 138, 146, 159, 163}),
          send({128, 138, 146, 160, 163}), send({128, 139, 163})}) {
        Bytes life = {0};
        std::ranges::copy(request, std::back_inserter(life));
        life.insert(life.end(), {4, 50, 3, 3, 8, 0x0d, 3, 128, 129, 163, 0x0b, 2, 3, 1});
        all.push_back(life);
    }
    return all;
}

void run(std::span<const uint8_t> input) {
    Input in(input);
    Bench bench;
    for (unsigned step = 0; step < kMaxSteps && !in.empty(); ++step) {
        bench.step(in);
    }
    bench.finish();
}

}  // namespace pib::fuzz
