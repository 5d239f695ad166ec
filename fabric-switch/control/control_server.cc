// SPDX-License-Identifier: GPL-2.0-or-later
// Control clients. Their input is bounded and does not delay the switch: the server stops reading
// from a client that does not read its answers, and drops a client that sends too long a line.
#include "control/control_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/address.h"
#include "control/control_commands.h"
#include "control/control_switch.h"

namespace pib::fabric {
namespace {

constexpr size_t kMaxClients = 32;
constexpr size_t kMaxLineBytes = 64 * 1024;
constexpr size_t kMaxCaptures = 4;

}  // namespace

class ControlServer::Client final : public PollHandler {
  public:
    Client(ControlServer& server, UniqueFd fd) : server_(server), fd_(std::move(fd)) {}

    void ready(uint32_t events) override {
        if (!fd_) {
            return;
        }
        if (waits_for_room_) {
            write();
        } else if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
            read();
        }
        if (fd_ && output_.empty()) {
            answer_one();
        }
        if (fd_) {
            wait_for_room(!output_.empty() || has_line());
        }
    }
    void out_of_memory() override {
        if (fd_) {
            server_.close(*this);
        }
    }
    [[nodiscard]] int fd() const { return fd_.get(); }
    void close_fd() { fd_.reset(); }
    [[nodiscard]] UniqueFd take_fd() { return std::move(fd_); }

  private:
    [[nodiscard]] bool has_line() const { return input_.find('\n') != std::string::npos; }

    void read() {
        std::array<char, 4096> buffer;
        const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n <= 0) {
            server_.close(*this);
            return;
        }
        input_.append(buffer.data(), static_cast<size_t>(n));
        if (input_.size() > kMaxLineBytes) {
            server_.close(*this);
        }
    }

    // Answers one request per turn, so that packets do not wait for busy clients.
    void answer_one() {
        const size_t end = input_.find('\n');
        if (end == std::string::npos) {
            return;
        }
        const std::string_view line = std::string_view(input_).substr(0, end);
        const auto refusal = server_.start_capture(*this, line);
        if (!fd_) {
            return;
        }
        output_ = refusal ? *refusal : run_control_line(server_.fabric_, line);
        output_ += '\n';
        input_.erase(0, end + 1);
        write();
    }

    void write() {
        while (written_ < output_.size()) {
            const ssize_t n = ::send(fd_.get(), output_.data() + written_,
                                     output_.size() - written_, MSG_NOSIGNAL);
            if (n <= 0) {
                if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
                    server_.close(*this);
                }
                return;
            }
            written_ += static_cast<size_t>(n);
        }
        written_ = 0;
        output_.clear();
    }

    // `wanted`: an answer is not written yet, or a complete request waits. The server then polls
    // for EPOLLOUT, which calls ready() as soon as the socket has room, and reads no further
    // requests.
    void wait_for_room(bool wanted) {
        if (wanted != waits_for_room_) {
            waits_for_room_ = wanted;
            server_.poller_.modify(fd_.get(), wanted ? EPOLLOUT : EPOLLIN, *this);
        }
    }

    ControlServer& server_;
    UniqueFd fd_;
    std::string input_;
    std::string output_;
    size_t written_ = 0;
    bool waits_for_room_ = false;
};

class ControlServer::Listener final : public PollHandler {
  public:
    Listener(ControlServer& server, UniqueFd fd, const std::string& path)
        : server_(server), fd_(std::move(fd)), file_(path) {}
    void ready(uint32_t) override { server_.accept_one(fd_.get()); }
    void out_of_memory() override {}  // the new connection is closed
    [[nodiscard]] int fd() const { return fd_.get(); }

  private:
    ControlServer& server_;
    UniqueFd fd_;
    SocketFile file_;  // destroyed before the socket is closed
};

ControlServer::ControlServer(const std::string& path, UniqueFd fd, Poller& poller, Fabric& fabric)
    : poller_(poller),
      fabric_(fabric),
      listener_(std::make_unique<Listener>(*this, std::move(fd), path)) {}

ControlServer::~ControlServer() = default;

std::expected<std::unique_ptr<ControlServer>, std::string> ControlServer::create(
    const std::string& path, Poller& poller, Fabric& fabric) {
    auto fds = listen_on({Address::Kind::kUnix, path, {}, {}}, {.mode = 0600, .group = {}});
    if (!fds) {
        return std::unexpected(fds.error());
    }
    std::unique_ptr<ControlServer> server(
        new ControlServer(path, std::move(fds->front()), poller, fabric));
    if (!poller.add(server->listener_->fd(), EPOLLIN, *server->listener_)) {
        return std::unexpected(path + ": " + std::strerror(errno) +
                               ": free some memory, and start the switch again");
    }
    return server;
}

// A client beyond the limit replaces the oldest one. Without a free descriptor the client waits in
// the backlog, and the listening socket is not polled for a while, so that it does not wake the
// server repeatedly.
void ControlServer::accept_one(int listening_fd) {
    UniqueFd fd(::accept4(listening_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
        if (errno == EMFILE || errno == ENFILE) {
            poller_.modify(listening_fd, 0, *listener_);
            paused_turns_ = 2;  // this turn and the next one
        }
        return;
    }
    if (clients_.size() >= kMaxClients) {
        close(*clients_.front());
    }
    auto client = std::make_unique<Client>(*this, std::move(fd));
    if (poller_.add(client->fd(), EPOLLIN, *client)) {
        clients_.push_back(std::move(client));
    }
}

std::optional<std::string> ControlServer::start_capture(Client& client, std::string_view line) {
    const auto request = parse_control_line(line);
    if (!request.is_object() || request.value("command", nlohmann::json()) != "capture") {
        return std::nullopt;
    }
    auto filter = CaptureFilter::from(request.value("rules", nlohmann::json::array()));
    if (!filter) {
        return control_failure(filter.error()).dump();
    }
    if (captures_.size() == kMaxCaptures) {
        return control_failure(std::to_string(kMaxCaptures) + " captures run: end one of them")
            .dump();
    }
    poller_.remove(client.fd());
    UniqueFd fd = client.take_fd();
    close(client);
    captures_.emplace_back(poller_, fabric_, std::move(fd), std::move(*filter));
    return "";
}

void ControlServer::reap_closed() {
    gone_.clear();
    std::erase_if(captures_, [](const CaptureClient& capture) { return capture.is_over(); });
    if (paused_turns_ == 0) {
        return;
    }
    --paused_turns_;
    if (paused_turns_ == 0) {
        poller_.modify(listener_->fd(), EPOLLIN, *listener_);
    }
}

void ControlServer::close(Client& client) {
    if (client.fd() >= 0) {
        poller_.remove(client.fd());
        client.close_fd();
    }
    const auto at = std::ranges::find(clients_, &client, &std::unique_ptr<Client>::get);
    if (at != clients_.end()) {
        gone_.splice(gone_.end(), clients_, at);
    }
}

}  // namespace pib::fabric
