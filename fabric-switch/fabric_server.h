// SPDX-License-Identifier: GPL-2.0-or-later
// The process around a switch: listening sockets, connections, time. Whatever a peer does, it costs
// at most its own connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "address.h"
#include "control_server.h"
#include "fabric.h"
#include "pcap_tap.h"
#include "poller.h"
#include "shared_link.h"
#include "switch_link.h"

namespace pib::fabric {

class FabricServer final {
  public:
    explicit FabricServer(std::unique_ptr<Fabric> fabric);
    ~FabricServer();

    // Errors are one line for a user.
    [[nodiscard]] std::expected<void, std::string> listen(const Address& address);
    [[nodiscard]] std::expected<void, std::string> listen_control(const std::string& path);
    [[nodiscard]] std::expected<void, std::string> capture(const std::string& path,
                                                           PcapFormat format);
    [[nodiscard]] Fabric& fabric() { return *fabric_; }
    // Whether peers on Unix sockets are offered shared memory; true unless told otherwise.
    void set_shared_memory(bool offered) { shared_memory_ = offered; }

    // Serves until SIGINT or SIGTERM, which the caller has blocked.
    [[nodiscard]] std::expected<void, std::string> run();

  private:
    class Connection;
    class Listener;
    class Signals;

    void schedule(Connection& connection);  // has output
    void note(const std::string& text, bool known);
    void accept_from(int listening_fd);
    bool accept_one(int listening_fd);
    void shed(int listening_fd);
    void close(Connection& connection);
    void make_busy(Connection& connection);  // its rings want to be looked at
    void serve_busy();
    void flush();
    void forget_who_has_spoken();
    void drop_silent_connections();
    void bury();
    [[nodiscard]] int timeout_ms();
    static std::uint64_t clock_ns();

    std::unique_ptr<Fabric> fabric_;
    Poller poller_;
    std::unique_ptr<PcapTap> tap_;
    std::vector<std::unique_ptr<Listener>> listeners_;
    std::unique_ptr<ControlServer> control_;
    std::list<std::unique_ptr<Connection>> connections_;
    std::deque<Connection*> silent_;  // no HELLO yet, oldest first
    std::vector<Connection*> to_flush_;
    std::vector<Connection*> busy_;
    std::list<std::unique_ptr<Connection>> closed_;
    UniqueFd spare_fd_;  // given up to refuse a connection when there are no descriptors
    bool stop_ = false;
    bool shared_memory_ = true;
    std::uint64_t note_second_ = 0;  // notes are limited per second: a peer can cause them
    unsigned notes_ = 0;
};

}  // namespace pib::fabric
