// SPDX-License-Identifier: GPL-2.0-or-later
// The event loop of a pib-switch process: listening sockets, connections, time. A peer's fault ends
// at most that peer's connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/poller.h"
#include "control/control_server.h"
#include "fabric/fabric.h"
#include "links/connection.h"
#include "links/dialer.h"
#include "links/newcomers.h"
#include "links/note_budget.h"
#include "pcap_tap.h"
#include "tls/tls_credentials.h"

namespace pib::fabric {

class FabricServer final : private ConnectionHost {
  public:
    explicit FabricServer(std::unique_ptr<Fabric> fabric);
    ~FabricServer() override;

    // Errors are one line for a user.
    [[nodiscard]] std::expected<void, std::string> listen(const Address& address,
                                                          const SocketRules& rules);
    // Keeps the trunks to these nodes of other processes connected; if `nodes` is empty, all trunks
    // that are not connected yet. Queries the name server once, in this call.
    [[nodiscard]] std::expected<void, std::string> connect(const Address& address,
                                                           const std::vector<std::string>& nodes,
                                                           const SocketRules& rules);
    // Creates the control socket.
    [[nodiscard]] std::expected<void, std::string> listen_control(const std::string& path);
    // Writes all packets to a file, see PcapTap::open().
    [[nodiscard]] std::expected<void, std::string> capture(const std::string& path,
                                                           PcapFormat format);
    [[nodiscard]] Fabric& fabric() { return *fabric_; }
    // Certificates for TLS addresses. Without them listen() and connect() refuse such addresses.
    void set_tls(std::unique_ptr<TlsCredentials> tls) { tls_ = std::move(tls); }
    // Whether peers on Unix sockets are offered shared memory; the default is true.
    void set_shared_memory(bool offered) { shared_memory_ = offered; }
    // The caller starts the closer before it calls confine(), which permits no new thread.
    using ConnectionHost::closer;
    // Longest adaptive polling without work, in microseconds; 0: none.
    void set_poll_us(unsigned most) { poll_us_ = most; }

    // Serves until SIGINT or SIGTERM, which the caller has blocked.
    [[nodiscard]] std::expected<void, std::string> run();

  private:
    class Listener;
    class Signals;

    Poller& poller() override { return poller_; }
    [[nodiscard]] bool shares_memory() const override { return shared_memory_; }
    void schedule(Connection& connection) override;
    void make_busy(Connection& connection) override;
    void close(Connection& connection) override;
    void note(const Connection& connection, const std::string& text) override;
    [[nodiscard]] bool may_handshake() override;
    void pause_accept(bool paused);
    [[nodiscard]] bool accept_one(const Listener& listener);
    void serve_busy();
    void flush();
    void drop_overdue_connections();
    void dial(uint64_t now_ns);
    void reap_closed();
    [[nodiscard]] int timeout_ms();

    std::unique_ptr<Fabric> fabric_;
    Poller poller_;
    std::unique_ptr<TlsCredentials> tls_;
    unsigned handshakes_ = 0;  // steps of TLS handshakes in this turn
    std::unique_ptr<PcapTap> tap_;
    std::vector<std::unique_ptr<Listener>> listeners_;
    std::unique_ptr<ControlServer> control_;
    std::vector<Connection*> to_flush_;  // has room for all connections, as busy_ has
    std::vector<Connection*> busy_;
    std::list<std::unique_ptr<Connection>> connections_;  // declared after the lists that they fill
    std::vector<std::unique_ptr<Dialer>> dialers_;
    uint64_t dial_at_ns_ = UINT64_MAX;
    Newcomers newcomers_;
    std::list<std::unique_ptr<Connection>> closed_;
    UniqueFd spare_fd_;  // closed to accept and close a connection when no descriptor is free
    bool accept_paused_ = false;  // the listening sockets are not polled
    bool stop_ = false;
    bool shared_memory_ = true;
    unsigned poll_us_ = 20;
    NoteBudget notes_;
};

}  // namespace pib::fabric
