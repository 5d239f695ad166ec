// SPDX-License-Identifier: GPL-2.0-or-later
// A listening switch before and during the handshakes: any bytes on a plain socket, with and
// without descriptors; with TLS before, during and after the TLS handshake, for which an honest
// client makes messages that the input corrupts. The connection ends or gets a port, and has no
// other effect.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>

#include "base/poller.h"
#include "fabric/fabric.h"
#include "fuzz_target.h"
#include "link_parts.h"
#include "link_steps.h"
#include "links/connection.h"
#include "tls/cert_command.h"
#include "tls/tls_credentials.h"

namespace pib::fuzz {
namespace {

using fabric::Connection;
using fabric::TlsSession;
using fabric::UniqueFd;

constexpr unsigned kMaxSteps = 64;

// Certificates of a switch and of a client, made once.
struct Certificates {
    std::unique_ptr<fabric::TlsCredentials> at_switch;
    std::unique_ptr<fabric::TlsCredentials> at_client;

    Certificates() {
        char name[] = "/tmp/pib-handshake-fuzz-XXXXXX";
        const std::string folder = ::mkdtemp(name);
        const std::string ca = folder + "/ca";
        make({"ca", ca, {}, {}, {}, {}, 2});
        make({"switch", ca, "a", {"any"}, {}, {"a"}, 2});
        make({"host", ca, "b", {"any"}, {}, {}, 2});
        for (const char* kind : {"cert", "key"}) {
            std::filesystem::copy_file(ca + "/b/client-" + kind + ".pem",
                                       ca + "/b/server-" + kind + ".pem");
        }
        at_switch = std::move(*fabric::TlsCredentials::load(ca + "/a"));
        at_client = std::move(*fabric::TlsCredentials::load(ca + "/b"));
        std::filesystem::remove_all(folder);
    }
    static void make(const fabric::CertOptions& options) {
        const auto made = fabric::make_certificate(options);
        require(made.has_value(), "certificates can be made");
    }
};

struct Pair {
    UniqueFd near;
    UniqueFd far;

    Pair() {
        int fds[2];
        require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0,
                "sockets can be made");
        near = UniqueFd(fds[0]);
        far = UniqueFd(fds[1]);
    }
};

fabric::SwitchConfig a_config() {
    fabric::SwitchConfig config;
    config.node_guid = ib::Guid(0x51);
    config.num_ports = 4;
    return config;
}

class Bench final : private fabric::ConnectionHost {
  public:
    explicit Bench(uint8_t kind) : with_tls_((kind & 1) != 0), fabric_(a_config()) {
        Pair sockets;
        std::unique_ptr<TlsSession> tls;
        if (with_tls_) {
            static const Certificates certificates;
            tls = certificates.at_switch->accept(sockets.near.get());
            // relay() passes messages between client and switch, and corrupts them by the input.
            client_ = certificates.at_client->connect(client_sockets_.near.get(), "");
        }
        far_ = std::move(sockets.far);
        connection_ = std::make_unique<Connection>(
            static_cast<fabric::ConnectionHost&>(*this), fabric_,
            Connection::Socket{std::move(sockets.near), std::move(tls)}, 1);
        require(connection_->start(), "a connection starts");
    }
    ~Bench() override {
        if (connection_->is_open()) {
            close(*connection_);
        }
    }
    void step(Input& in) {
        const uint8_t op = in.byte();
        switch (op % 8) {
            case 0: {
                const auto raw = in.take(in.byte());
                send(raw);
                break;
            }
            case 1:
            case 2:
                say(steps_.next(in));
                break;
            case 3:
                hand_over(in.byte());
                break;
            case 4:
            case 5:
                relay(in, op >= 0x80);
                break;
            case 6:
                ::shutdown(far_.get(), op >= 0x80 ? SHUT_RD : SHUT_WR);
                break;
            default:
                fabric_.advance(now_ns_ += uint64_t{in.byte()} << 20);
                break;
        }
        turn();
    }
    [[nodiscard]] bool is_open() const { return connection_->is_open(); }

  private:
    void send(std::span<const uint8_t> bytes) {
        (void)::send(far_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    // Sends bytes, through TLS after its handshake.
    void say(const Bytes& bytes) {
        if (!with_tls_) {
            send(bytes);
        } else if (secured_) {
            (void)client_->write(bytes);
        }
    }
    // Passes descriptors to the switch: of suitable memory or of other files, sometimes too many.
    void hand_over(uint8_t how) {
        std::array<UniqueFd, 5> files;
        std::array<int, 5> fds{};
        const unsigned count = 1 + how % 5U;
        for (unsigned i = 0; i < count; ++i) {
            files[i] =
                UniqueFd((how & 0x80) != 0 ? ::open("/dev/null", O_RDWR | O_CLOEXEC)
                                           : ::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
            fds[i] = files[i].get();
            if ((how & 0x40) != 0) {
                (void)::ftruncate(fds[i], 65536);
                (void)::fcntl(fds[i], F_ADD_SEALS, F_SEAL_SHRINK);
            }
        }
        Bytes frame;
        link::Memory memory;
        memory.blocks.assign(std::max(1U, (how >> 3) % 5U), 65536);
        append(frame, memory);
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> room{};
        iovec part{frame.data(), frame.size()};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = room.data();
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof(int));
        std::memcpy(CMSG_DATA(header), fds.data(), count * sizeof(int));
        (void)::sendmsg(far_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    // Relays messages between client and switch, and corrupts one of the client's.
    void relay(Input& in, bool bends) {
        std::array<uint8_t, 16384> bytes;
        if (!with_tls_) {
            (void)::recv(far_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
            return;
        }
        if (!secured_) {
            secured_ = client_->handshake() == TlsSession::Progress::kDone;
        }
        ssize_t n = ::recv(client_sockets_.far.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (n > 0) {
            if (bends) {
                const size_t at = in.byte() | in.byte() << 8;
                bytes[at % static_cast<size_t>(n)] = in.byte();
            }
            send(std::span(bytes).first(static_cast<size_t>(n)));
        }
        turn();
        n = ::recv(far_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (n > 0) {
            (void)::send(client_sockets_.far.get(), bytes.data(), static_cast<size_t>(n),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    }
    void turn() {
        handshakes_ = 0;
        poller_.wait(0, [] {});
        for (unsigned i = 0; i < 4 && connection_->is_open(); ++i) {
            if (busy_) {
                busy_ = connection_->serve() && !connection_->link.may_sleep();
            }
            connection_->write();
            (void)fabric_.deliver();
        }
        if (!connection_->is_open()) {
            require(fabric_.switches().front()->held_packets() == 0, "packets go with their link");
        }
    }

    // ---- ConnectionHost
    fabric::Poller& poller() override { return poller_; }
    [[nodiscard]] bool shares_memory() const override { return true; }
    void schedule(Connection&) override {}
    void make_busy(Connection&) override { busy_ = true; }
    [[nodiscard]] bool may_handshake() override { return handshakes_++ < 2; }
    void close(Connection& connection) override {
        if (connection.is_open()) {
            connection.link.close();
            connection.close_fds();
        }
    }
    void note(const fabric::Connection&, const std::string& text) override {
        require(!text.empty(), "a note says something");
    }

    bool with_tls_;
    bool secured_ = false;
    bool busy_ = false;
    unsigned handshakes_ = 0;
    uint64_t now_ns_ = 1;
    fabric::Fabric fabric_;
    fabric::Poller poller_;
    Pair client_sockets_;
    UniqueFd far_;
    std::unique_ptr<TlsSession> client_;
    std::unique_ptr<Connection> connection_;
    LinkSteps steps_{{.hello = {.features = link::kFeatureSharedMemory | link::kFeatureBursts |
                                            link::kFeaturePeerCopy,
                                .role = link::Role::kChannelAdapter,
                                .port_number = 1,
                                .node_guid = ib::Guid(1),
                                .port_guid = ib::Guid(2),
                                .node_description = "node"},
                      .welcome = {.switch_guid = ib::Guid(9), .port_number = 4}}};
};

}  // namespace

std::vector<Bytes> seeds() {
    std::vector<Bytes> all = {{0, 0, 4, 1, 2, 3, 4}, {1, 0, 6, 22, 3, 3, 0, 2, 1}};
    for (const uint8_t tls : {0, 1}) {
        Bytes bytes = {tls};
        for (unsigned i = 0; i < tls * 4U; ++i) {
            bytes.push_back(4);
        }
        for (const Bytes& step : LinkSteps::opening(false)) {
            bytes.push_back(1);
            std::ranges::copy(step, std::back_inserter(bytes));
        }
        bytes.insert(bytes.end(), {3, 0x48 | 1, 4});
        for (const Bytes& step : LinkSteps::packets()) {
            bytes.push_back(1);
            std::ranges::copy(step, std::back_inserter(bytes));
        }
        all.push_back(bytes);
    }
    // Changes a byte of the client's first message.
    all.push_back({1, 0x84, 40, 0, 7, 4, 4, 1, 0});
    return all;
}

void run(std::span<const uint8_t> input) {
    Input in(input);
    Bench bench(in.byte());
    for (unsigned step = 0; step < kMaxSteps && !in.empty() && bench.is_open(); ++step) {
        bench.step(in);
    }
}

}  // namespace pib::fuzz
