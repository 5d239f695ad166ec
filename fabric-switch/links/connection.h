// SPDX-License-Identifier: GPL-2.0-or-later
// A link over one socket, whichever side has connected it. No call here blocks, and a peer's fault
// ends at most its own connection.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd_closer.h"
#include "base/poller.h"
#include "base/unique_fd.h"
#include "links/connection_peer.h"
#include "links/passed_fds.h"
#include "links/shared_rings.h"
#include "links/switch_endpoint.h"
#include "links/unfinished_memory.h"
#include "tls/tls_session.h"

namespace pib::fabric {

class Connection;

// The functions of the server that its connections call. A turn is one pass of its event loop.
class ConnectionHost {
  public:
    virtual ~ConnectionHost() = default;
    [[nodiscard]] virtual Poller& poller() = 0;
    // Closes the sockets of peers, and the descriptors that they pass.
    [[nodiscard]] FdCloser& closer() { return closer_; }
    // Connections that have not passed all of their memory. The host closes the overdue ones, and
    // removes those that end from this list.
    [[nodiscard]] UnfinishedMemory& unfinished_memory() { return unfinished_memory_; }
    // Whether peers on Unix sockets are offered shared memory.
    [[nodiscard]] virtual bool shares_memory() const = 0;
    virtual void schedule(Connection& connection) = 0;   // calls write(), for its output
    virtual void make_busy(Connection& connection) = 0;  // calls serve() until its rings are empty
    // Whether a TLS handshake may continue in this turn: the number of handshake steps in a turn is
    // bounded.
    [[nodiscard]] virtual bool may_handshake() = 0;
    // Closes the connection now; destroys it at the end of the turn: events for it may be waiting.
    virtual void close(Connection& connection) = 0;
    // Logs `text`, one line. The number of notes is limited, because a peer can cause them.
    virtual void note(const Connection& connection, const std::string& text) = 0;

  private:
    FdCloser closer_;
    UnfinishedMemory unfinished_memory_;
};

class Connection final : public PollHandler, private SwitchEndpoint::Owner {
  public:
    // A connected socket, with TLS or without.
    struct Socket {
        UniqueFd fd;
        std::unique_ptr<TlsSession> tls;
    };

    // An accepted connection: the peer sends HELLO.
    Connection(ConnectionHost& host, Admission& admission, Socket socket, uint64_t now_ns);
    // An outgoing connection: connect() has been called, and may still be under way.
    Connection(ConnectionHost& host, SwitchEndpoint::Outgoing& outgoing, Socket socket,
               uint64_t now_ns);
    // Adds the socket to the host's poller; false: the kernel has refused it.
    [[nodiscard]] bool start();

    void ready(uint32_t events) override;
    void out_of_memory() override;
    // Sends output: through the socket as far as it has room, or through the ring.
    void write();
    // Handles a bounded number of bytes of the ring and of the peer's pull; false: the connection
    // has ended.
    [[nodiscard]] bool serve();
    // The peer sees the end of the connection at once; the host's closer closes the socket.
    void close_fds();
    [[nodiscard]] bool is_open() const { return static_cast<bool>(fd_); }
    [[nodiscard]] const Peer& peer() const { return peer_; }
    // Why the connection was closed, in one line; empty if the socket just ended or failed.
    [[nodiscard]] const std::string& reason() const { return reason_; }

    const uint64_t began_ns;
    SwitchEndpoint link;
    bool in_flush_list = false;
    bool is_busy = false;
    bool waits_for_room = false;  // the socket is polled for EPOLLOUT

  private:
    void link_output_ready() override { host_.schedule(*this); }
    void link_note(const std::string& text) override { host_.note(*this, text); }
    [[nodiscard]] const Peer& link_peer() const override { return peer_; }
    [[nodiscard]] std::optional<link::LinkRings> link_share() override;
    [[nodiscard]] std::expected<std::shared_ptr<const AdapterMemory>, std::string> link_map(
        const link::Memory& memory) override;
    void link_wake() override;
    [[nodiscard]] bool finish_connect();
    // Continues the TLS handshake, and begins the link when it ends.
    void continue_handshake();
    // Write and read the socket, as send() and recvmsg() do. 0: the socket would block; no value:
    // the connection has ended.
    [[nodiscard]] std::optional<size_t> put(std::span<const uint8_t> bytes);
    [[nodiscard]] std::optional<size_t> get(std::span<uint8_t> space);
    void read();
    void lost(const link::LinkFailure& failure);
    void want_write(bool wanted);
    void write_output();

    // Handles a wake-up by the peer, which has published frames or freed ring space.
    struct Waker final : PollHandler {
        Connection& connection;
        explicit Waker(Connection& c) : connection(c) {}
        void ready(uint32_t) override { connection.host_.make_busy(connection); }
        void out_of_memory() override { connection.out_of_memory(); }
    };

    UniqueFd fd_;
    std::unique_ptr<TlsSession> tls_;
    bool secured_;  // no TLS handshake is under way
    Peer peer_;
    ConnectionHost& host_;
    const bool outgoing_;
    bool connecting_;
    Waker waker_{*this};
    std::unique_ptr<SharedRings> shared_;
    bool handed_over_ = false;  // the descriptors of shared_ have been sent
    PassedFds passed_;          // descriptors of an incomplete MEMORY frame
    std::string reason_;
};

}  // namespace pib::fabric
