// SPDX-License-Identifier: GPL-2.0-or-later
// The control socket: requests and answers as JSON, one a line, over a Unix stream socket.
#pragma once

#include <expected>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/poller.h"
#include "control/capture_client.h"
#include "fabric/fabric.h"

namespace pib::fabric {

class ControlServer {
  public:
    // The error is one line for a user. Poller and fabric outlive the server.
    [[nodiscard]] static std::expected<std::unique_ptr<ControlServer>, std::string> create(
        const std::string& path, Poller& poller, Fabric& fabric);
    ~ControlServer();

    // Frees disconnected clients, and ends a pause of the listener. Called once in each turn of the
    // event loop.
    void reap_closed();
    // Whether a client waits in the backlog because no descriptor was free: the event loop must not
    // sleep for a long time.
    [[nodiscard]] bool accept_paused() const { return paused_turns_ != 0; }

  private:
    class Client;
    class Listener;

    ControlServer(const std::string& path, UniqueFd fd, Poller& poller, Fabric& fabric);
    void accept_one(int listening_fd);
    void close(Client& client);
    // Handles a line that requests a capture. Returns "" if the client captures from now on, else
    // the answer that refuses the request; no value for other lines.
    [[nodiscard]] std::optional<std::string> start_capture(Client& client, std::string_view line);

    Poller& poller_;
    Fabric& fabric_;
    std::unique_ptr<Listener> listener_;
    std::list<std::unique_ptr<Client>> clients_;
    std::list<std::unique_ptr<Client>> gone_;
    std::list<CaptureClient> captures_;
    unsigned paused_turns_ = 0;  // turns until the listening socket is polled again
};

}  // namespace pib::fabric
