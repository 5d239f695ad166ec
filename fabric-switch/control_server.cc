// SPDX-License-Identifier: GPL-2.0-or-later
// Control clients. Nothing they send can grow without bound or hold up the switch: a client that
// does not read its answers is not read either, and one that talks too long a line is dropped.
#include "control_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "address.h"
#include "control_commands.h"

namespace pib::fabric {
namespace {

constexpr std::size_t kMaxClients = 32;
constexpr std::size_t kMaxLineBytes = 64 * 1024;
constexpr unsigned kRequestsPerTurn = 16;

}  // namespace

class ControlServer::Client final : public PollHandler {
  public:
    Client(ControlServer& server, UniqueFd fd) : server_(server), fd_(std::move(fd)) {}

    void ready(std::uint32_t events) override {
        if (!fd_) {
            return;
        }
        if ((events & EPOLLOUT) != 0) {
            write();
        }
        if (fd_ && output_.empty() && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
            read();
        }
    }
    [[nodiscard]] int fd() const { return fd_.get(); }
    void close_fd() { fd_.reset(); }

  private:
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
        input_.append(buffer.data(), static_cast<std::size_t>(n));
        answer_lines();
    }

    // Answers are collected, so that a client that does not read them stops being served.
    void answer_lines() {
        std::size_t begin = 0;
        for (unsigned i = 0; i < kRequestsPerTurn; ++i) {
            const std::size_t end = input_.find('\n', begin);
            if (end == std::string::npos) {
                break;
            }
            output_ += run_control_line(server_.switch_, input_.substr(begin, end - begin));
            output_ += '\n';
            begin = end + 1;
        }
        input_.erase(0, begin);
        if (input_.size() > kMaxLineBytes) {
            server_.close(*this);
            return;
        }
        write();
    }

    void write() {
        while (written_ < output_.size()) {
            const ssize_t n = ::send(fd_.get(), output_.data() + written_,
                                     output_.size() - written_, MSG_NOSIGNAL);
            if (n <= 0) {
                if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
                    server_.poller_.modify(fd_.get(), EPOLLOUT, *this);
                    return;
                }
                server_.close(*this);
                return;
            }
            written_ += static_cast<std::size_t>(n);
        }
        written_ = 0;
        output_.clear();
        server_.poller_.modify(fd_.get(), EPOLLIN, *this);
        if (input_.find('\n') != std::string::npos) {
            answer_lines();
        }
    }

    ControlServer& server_;
    UniqueFd fd_;
    std::string input_;
    std::string output_;
    std::size_t written_ = 0;
};

class ControlServer::Listener final : public PollHandler {
  public:
    Listener(ControlServer& server, UniqueFd fd) : server_(server), fd_(std::move(fd)) {}
    void ready(std::uint32_t) override { server_.accept_all(fd_.get()); }
    [[nodiscard]] int fd() const { return fd_.get(); }

  private:
    ControlServer& server_;
    UniqueFd fd_;
};

ControlServer::ControlServer(std::string path, UniqueFd fd, Poller& poller, Switch& sw)
    : path_(std::move(path)),
      poller_(poller),
      switch_(sw),
      listener_(std::make_unique<Listener>(*this, std::move(fd))) {}

ControlServer::~ControlServer() {
    ::unlink(path_.c_str());
}

std::expected<std::unique_ptr<ControlServer>, std::string> ControlServer::create(
    const std::string& path, Poller& poller, Switch& sw) {
    auto fd = listen_on({Address::Kind::kUnix, path, {}, {}}, 0600);
    if (!fd) {
        return std::unexpected(fd.error());
    }
    std::unique_ptr<ControlServer> server(new ControlServer(path, std::move(*fd), poller, sw));
    if (!poller.add(server->listener_->fd(), EPOLLIN, *server->listener_)) {
        return std::unexpected(path + ": " + std::strerror(errno));
    }
    return server;
}

// Who comes when there are enough has to wait in the backlog; who connects without a descriptor
// left is tried again when one is free.
void ControlServer::accept_all(int listening_fd) {
    UniqueFd fd(::accept4(listening_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
        return;
    }
    auto client = std::make_unique<Client>(*this, std::move(fd));
    if (clients_.size() >= kMaxClients) {
        close(*clients_.front());
    }
    if (poller_.add(client->fd(), EPOLLIN, *client)) {
        clients_.push_back(std::move(client));
    }
}

void ControlServer::bury() {
    gone_.clear();
}

void ControlServer::close(Client& client) {
    poller_.remove(client.fd());
    client.close_fd();
    const auto at = std::ranges::find(clients_, &client, &std::unique_ptr<Client>::get);
    if (at != clients_.end()) {
        gone_.splice(gone_.end(), clients_, at);
    }
}

}  // namespace pib::fabric
