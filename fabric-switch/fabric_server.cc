// SPDX-License-Identifier: GPL-2.0-or-later
// Sockets and the event loop. One turn: wait, move the clock, read what came in, write what is due.
#include "fabric_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "short_slices.h"

namespace pib::fabric {
namespace {

constexpr std::uint64_t kNsPerMs = 1'000'000;
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint64_t kHelloTimeoutNs = 10 * kNsPerSecond;
constexpr std::size_t kMaxSilent = 128;  // connections without HELLO; the oldest has to go
constexpr unsigned kAcceptsPerTurn = 64;
constexpr unsigned kReadsPerTurn = 2;  // of one connection: what came in goes out first
// Shared memory: what one connection may bring before the others have their turn, and how many
// turns pass before sockets are looked at again.
constexpr std::size_t kRingBytesPerTurn = 128 * 1024;
constexpr unsigned kRingTurns = 16;
constexpr unsigned kNotesPerSecond = 50;
constexpr int kMaxWaitMs = 1000;  // captures are flushed at least so often
constexpr int kSocketBufferBytes = 1 << 20;
// A TCP peer that is gone without a word is noticed after so long.
constexpr int kTcpUserTimeoutMs = 20'000;
constexpr int kTcpIdleSeconds = 10;

bool is_unix(int fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    return ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
           address.ss_family == AF_UNIX;
}

// send() that hands descriptors over, too.
template <std::size_t N>
ssize_t send_with(int socket, std::span<const std::uint8_t> bytes, const std::array<int, N>& fds) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(fds))> room{};
    iovec part{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fds));
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(fds));
    return ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

void tune(int fd) {
    const int on = 1, buffer = kSocketBufferBytes, idle = kTcpIdleSeconds;
    const unsigned timeout = kTcpUserTimeoutMs;
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
    if (is_unix(fd)) {
        return;
    }
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

bool would_block() {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

// ---- what polls

class FabricServer::Connection final : public PollHandler, private SwitchLink::Owner {
  public:
    Connection(FabricServer& server, UniqueFd fd)
        : accepted_ns(clock_ns()),
          link(*server.fabric_, *this),
          fd_(std::move(fd)),
          server_(server) {}

    void ready(std::uint32_t events) override {
        if (!fd_) {
            return;  // closed earlier in this turn
        }
        if ((events & EPOLLOUT) != 0) {
            write();
        }
        if (fd_ && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
            read();
        }
    }

    void write() {
        while (fd_ && !link.output().empty()) {
            const auto out = link.output();
            const bool hand_over = link.is_shared() && !handed_over_;
            const ssize_t n = hand_over ? send_with(fd_.get(), out, shared_->handed_over())
                                        : ::send(fd_.get(), out.data(), out.size(), MSG_NOSIGNAL);
            if (n > 0) {
                handed_over_ = handed_over_ || hand_over;
                link.consume_output(static_cast<std::size_t>(n));
                continue;
            }
            if (!would_block()) {
                server_.close(*this);
                return;
            }
            break;
        }
        want_write(!link.output().empty());
        if (!fd_) {
            return;
        }
        if (link.publish()) {
            shared_->wake_peer();
        }
        if (link.room_is_back()) {
            server_.make_busy(*this);
        }
    }

    // Takes a bounded amount out of the ring; false when there is nothing more to do.
    bool serve() {
        const auto more = link.receive(kRingBytesPerTurn);
        if (!more) {
            lost(more.error());
            return false;
        }
        return true;
    }

    [[nodiscard]] int fd() const { return fd_.get(); }
    void close_fds() {
        if (shared_) {
            server_.poller_.remove(shared_->wake_fd());
        }
        server_.poller_.remove(fd_.get());
        fd_.reset();
    }
    [[nodiscard]] bool is_open() const { return static_cast<bool>(fd_); }

    const std::uint64_t accepted_ns;
    SwitchLink link;
    bool in_flush_list = false;
    bool is_busy = false;
    bool waits_for_room = false;  // EPOLLOUT is asked for

  private:
    void link_output_ready() override { server_.schedule(*this); }
    void link_note(const std::string& text) override {
        server_.note(text, link.port_number() != 0);
    }

    void read() {
        for (unsigned i = 0; i < kReadsPerTurn; ++i) {
            const auto space = link.input_space();
            const ssize_t n = ::recv(fd_.get(), space.data(), space.size(), 0);
            if (n < 0 && would_block()) {
                return;
            }
            if (n <= 0) {
                server_.close(*this);
                return;
            }
            if (const auto fed = link.feed_input(static_cast<std::size_t>(n)); !fed) {
                lost(fed.error());
                return;
            }
            if (static_cast<std::size_t>(n) < space.size()) {
                return;  // all there was
            }
        }
    }

    std::optional<link::LinkRings> link_share() override {
        if (!server_.shared_memory_ || !is_unix(fd_.get())) {
            return std::nullopt;
        }
        auto shared = SharedLink::create();
        if (!shared || !server_.poller_.add(shared->wake_fd(), EPOLLIN | EPOLLET, waker_)) {
            return std::nullopt;  // it goes over the socket, then
        }
        shared_ = std::make_unique<SharedLink>(std::move(*shared));
        server_.make_busy(*this);
        return shared_->rings();
    }

    void lost(const link::LinkFailure& failure) {
        link_note(failure.text + " (" + to_string(failure.error) + "): connection closed");
        say_goodbye();
    }

    // A REFUSE is a few bytes into an empty socket; if it does not fit, nobody is reading it.
    void say_goodbye() {
        const auto out = link.output();
        if (!out.empty()) {
            [[maybe_unused]] const ssize_t n =
                ::send(fd_.get(), out.data(), out.size(), MSG_NOSIGNAL);
        }
        server_.close(*this);
    }

    void want_write(bool wanted) {
        if (fd_ && wanted != waits_for_room) {
            waits_for_room = wanted;
            server_.poller_.modify(fd_.get(), EPOLLIN | (wanted ? EPOLLOUT : 0U), *this);
        }
    }

    // The peer has put something into the ring, or taken something out of it.
    struct Waker final : PollHandler {
        Connection& connection;
        explicit Waker(Connection& c) : connection(c) {}
        void ready(std::uint32_t) override { connection.server_.make_busy(connection); }
    };

    UniqueFd fd_;
    FabricServer& server_;
    Waker waker_{*this};
    std::unique_ptr<SharedLink> shared_;
    bool handed_over_ = false;
};

class FabricServer::Listener final : public PollHandler {
  public:
    Listener(FabricServer& server, UniqueFd fd, Address address)
        : server_(server), fd_(std::move(fd)), address_(std::move(address)) {}
    ~Listener() override {
        if (address_.kind == Address::Kind::kUnix) {
            ::unlink(address_.path.c_str());
        }
    }
    void ready(std::uint32_t) override { server_.accept_from(fd_.get()); }
    [[nodiscard]] int fd() const { return fd_.get(); }

  private:
    FabricServer& server_;
    UniqueFd fd_;
    Address address_;
};

class FabricServer::Signals final : public PollHandler {
  public:
    explicit Signals(bool& stop) : stop_(stop) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        fd_ = UniqueFd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    }
    void ready(std::uint32_t) override { stop_ = true; }
    [[nodiscard]] int fd() const { return fd_.get(); }

  private:
    bool& stop_;
    UniqueFd fd_;
};

// ---- setting up

FabricServer::FabricServer(std::unique_ptr<Fabric> fabric)
    : fabric_(std::move(fabric)), spare_fd_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

FabricServer::~FabricServer() {
    fabric_->set_tap(nullptr);
}

std::uint64_t FabricServer::clock_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                      std::chrono::nanoseconds(1));
}

std::expected<void, std::string> FabricServer::listen(const Address& address) {
    auto fd = listen_on(address);
    if (!fd) {
        return std::unexpected(fd.error());
    }
    listeners_.push_back(std::make_unique<Listener>(*this, std::move(*fd), address));
    if (!poller_.add(listeners_.back()->fd(), EPOLLIN, *listeners_.back())) {
        return std::unexpected(address.to_string() + ": " + std::strerror(errno));
    }
    spdlog::info("listening on {}", address.to_string());
    return {};
}

std::expected<void, std::string> FabricServer::listen_control(const std::string& path) {
    auto control = ControlServer::create(path, poller_, *fabric_);
    if (!control) {
        return std::unexpected(control.error());
    }
    control_ = std::move(*control);
    return {};
}

std::expected<void, std::string> FabricServer::capture(const std::string& path, PcapFormat format) {
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    const auto offset = wall / std::chrono::nanoseconds(1) - static_cast<std::int64_t>(clock_ns());
    auto tap = PcapTap::open(path, offset, format);
    if (!tap) {
        return std::unexpected(tap.error());
    }
    tap_ = std::move(*tap);
    fabric_->set_tap(tap_.get());
    return {};
}

// ---- connections

void FabricServer::accept_from(int listening_fd) {
    for (unsigned i = 0; i < kAcceptsPerTurn && accept_one(listening_fd); ++i) {
    }
}

bool FabricServer::accept_one(int listening_fd) {
    UniqueFd fd(::accept4(listening_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
        if (errno == EMFILE || errno == ENFILE) {
            shed(listening_fd);
            return true;
        }
        return errno == ECONNABORTED || errno == EINTR;
    }
    tune(fd.get());
    auto connection = std::make_unique<Connection>(*this, std::move(fd));
    if (!poller_.add(connection->fd(), EPOLLIN, *connection)) {
        return true;
    }
    if (silent_.size() >= kMaxSilent) {
        forget_who_has_spoken();
    }
    if (silent_.size() >= kMaxSilent) {
        close(*silent_.front());
    }
    silent_.push_back(connection.get());
    connections_.push_back(std::move(connection));
    return true;
}

// Without a descriptor to accept with, the listening socket would stay readable for ever: one
// descriptor is kept to take a connection and close it.
void FabricServer::shed(int listening_fd) {
    spare_fd_.reset();
    const UniqueFd victim(::accept4(listening_fd, nullptr, nullptr, SOCK_CLOEXEC));
    spdlog::warn("out of file descriptors: a connection was turned away");
    spare_fd_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// The handler stays until the end of the turn: events for it may be waiting.
void FabricServer::close(Connection& connection) {
    if (!connection.is_open()) {
        return;
    }
    connection.link.close();
    connection.close_fds();
    std::erase(silent_, &connection);
    const auto at = std::ranges::find(connections_, &connection, &std::unique_ptr<Connection>::get);
    closed_.splice(closed_.end(), connections_, at);
}

void FabricServer::bury() {
    std::erase_if(to_flush_, [](const Connection* c) { return !c->is_open(); });
    std::erase_if(busy_, [](const Connection* c) { return !c->is_open(); });
    closed_.clear();
}

void FabricServer::forget_who_has_spoken() {
    std::erase_if(silent_, [](const Connection* c) { return c->link.handshake_done(); });
}

void FabricServer::drop_silent_connections() {
    forget_who_has_spoken();
    while (!silent_.empty() && silent_.front()->accepted_ns + kHelloTimeoutNs <= clock_ns()) {
        close(*silent_.front());
    }
}

// ---- what links report

void FabricServer::schedule(Connection& connection) {
    if (!connection.in_flush_list && !connection.waits_for_room) {
        connection.in_flush_list = true;
        to_flush_.push_back(&connection);
    }
}

void FabricServer::note(const std::string& text, bool known) {
    const std::uint64_t second = fabric_->now_ns() / kNsPerSecond;
    if (second != note_second_) {
        note_second_ = second;
        notes_ = 0;
    }
    if (++notes_ > kNotesPerSecond) {
        return;
    }
    spdlog::info("{}{}", known ? "" : "new connection: ", text);
}

// Writing to one connection may give another something to write: a packet moves up, a credit.
void FabricServer::flush() {
    for (std::size_t i = 0; i < to_flush_.size(); ++i) {
        Connection& connection = *to_flush_[i];
        connection.write();
        connection.in_flush_list = false;
    }
    to_flush_.clear();
}

// ---- shared memory

void FabricServer::make_busy(Connection& connection) {
    if (connection.is_open() && !connection.is_busy) {
        connection.is_busy = true;
        busy_.push_back(&connection);
    }
}

// Each turn gives every busy connection its share and then wakes who sleeps, once.
void FabricServer::serve_busy() {
    for (unsigned turn = 0; turn < kRingTurns && !busy_.empty(); ++turn) {
        if (turn != 0) {
            fabric_->advance(clock_ns());
        }
        for (std::size_t i = 0; i < busy_.size(); ++i) {
            if (busy_[i]->is_open() && busy_[i]->serve()) {
                schedule(*busy_[i]);  // what was read is given back
            }
        }
        fabric_->deliver();
        flush();
        std::erase_if(busy_, [](Connection* c) {
            c->is_busy = c->is_open() && !c->link.may_sleep();
            return !c->is_busy;
        });
    }
}

// ---- the loop

int FabricServer::timeout_ms() {
    std::uint64_t next = fabric_->next_deadline();
    if (!silent_.empty()) {
        next = std::min(next, silent_.front()->accepted_ns + kHelloTimeoutNs);
    }
    const std::uint64_t now = clock_ns();
    if (next <= now) {
        return 0;
    }
    const std::uint64_t wait = (next - now) / kNsPerMs + 1;
    const bool idle = next == UINT64_MAX && tap_ == nullptr;
    return idle ? -1 : static_cast<int>(std::min<std::uint64_t>(wait, kMaxWaitMs));
}

std::expected<void, std::string> FabricServer::run() {
    Signals signals(stop_);
    if (!poller_.add(signals.fd(), EPOLLIN, signals)) {
        return std::unexpected(std::string("signalfd: ") + std::strerror(errno));
    }
    pib_ask_for_short_slices();
    std::uint64_t flushed_ns = 0;
    while (!stop_) {
        poller_.wait(busy_.empty() ? timeout_ms() : 0, [this] { fabric_->advance(clock_ns()); });
        drop_silent_connections();
        flush();
        fabric_->deliver();
        flush();
        serve_busy();
        bury();
        if (control_ != nullptr) {
            control_->bury();
        }
        if (tap_ != nullptr && fabric_->now_ns() - flushed_ns >= kNsPerSecond / 4) {
            flushed_ns = fabric_->now_ns();
            tap_->flush();
            if (tap_->failed()) {
                spdlog::error("capture ended: cannot write");
                fabric_->set_tap(nullptr);
                tap_.reset();
            }
        }
    }
    poller_.remove(signals.fd());
    return {};
}

}  // namespace pib::fabric
