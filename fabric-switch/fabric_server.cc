// SPDX-License-Identifier: GPL-2.0-or-later
// Sockets and the event loop. One turn: wait, move the clock, read input, write output.
#include "fabric_server.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <new>

#include "base/wall_clock.h"
#include "idle_spin.h"
#include "short_slices.h"

namespace pib::fabric {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kNsPerSecond = 1'000'000'000;
constexpr unsigned kAcceptsPerTurn = 64;
// Maximum number of times that all busy connections are served before the sockets are polled again.
constexpr unsigned kRingTurns = 16;
// Maximum number of steps of TLS handshakes in a turn: each takes up to a millisecond.
constexpr unsigned kHandshakesPerTurn = 2;
constexpr int kMaxWaitMs = 1000;   // longest sleep with a deadline, capture or paused listener
constexpr int kPausedWaitMs = 20;  // longest sleep while no new connections are accepted
// NoteBudget counts the switch's own notes about new connections under this name, in the place of a
// peer's network.
constexpr const char* kNoNetwork = "";

uint64_t clock_ns() {
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                 std::chrono::nanoseconds(1));
}

std::string no_certificates(const Address& address) {
    return address.to_string() +
           ": --tls is missing, the directory of the certificates: make them with "
           "pib-switch cert";
}

// Reserves room for all connections, so that adding one to a list cannot fail.
void make_room(size_t connections, std::vector<Connection*>& to_flush,
               std::vector<Connection*>& busy) {
    to_flush.reserve(connections);
    busy.reserve(connections);
}

// Allocates the list's node first: the dialer keeps a pointer to the new connection, so nothing may
// fail after on_deadline().
void dial_one(Dialer& dialer, ConnectionHost& host,
              std::list<std::unique_ptr<Connection>>& connections, uint64_t now_ns) {
    std::list<std::unique_ptr<Connection>> place(1);
    place.front() = dialer.on_deadline(host, now_ns);
    if (place.front() != nullptr) {
        connections.splice(connections.end(), place);
    }
}

// Opens the spare descriptor if it is not open. False: the process has no free descriptor.
bool has_spare(UniqueFd& spare) {
    if (!spare) {
        spare = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    }
    return static_cast<bool>(spare);
}

// Without a free descriptor the listening socket would stay readable forever, so one spare
// descriptor is kept to accept a connection and close it.
void shed(int listening_fd, UniqueFd& spare, FdCloser& closer) {
    spare.reset();
    UniqueFd victim(::accept4(listening_fd, nullptr, nullptr, SOCK_CLOEXEC));
    ::shutdown(victim.get(), SHUT_RDWR);
    closer.close(std::move(victim));
}

}  // namespace

// ---- poll handlers

class FabricServer::Listener final : public PollHandler {
  public:
    Listener(FabricServer& server, UniqueFd fd, Address address)
        : server_(server), fd_(std::move(fd)), address_(std::move(address)), file_(address_.path) {}
    void ready(uint32_t) override {
        for (unsigned i = 0; i < kAcceptsPerTurn && server_.accept_one(*this); ++i) {
        }
    }
    void out_of_memory() override {}  // the new connection is closed
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] bool uses_tls() const { return address_.kind == Address::Kind::kTls; }

  private:
    FabricServer& server_;
    UniqueFd fd_;
    Address address_;
    SocketFile file_;  // destroyed before the socket is closed
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
    void ready(uint32_t) override { stop_ = true; }
    void out_of_memory() override {}
    [[nodiscard]] int fd() const { return fd_.get(); }

  private:
    bool& stop_;
    UniqueFd fd_;
};

// ---- setting up

FabricServer::FabricServer(std::unique_ptr<Fabric> fabric)
    : fabric_(std::move(fabric)), spare_fd_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

// Closes all connections while the lists that schedule() and make_busy() fill exist: the end of a
// link frees buffers of other links, which then have output.
FabricServer::~FabricServer() {
    dialers_.clear();
    while (!connections_.empty()) {
        close(*connections_.front());
    }
    closed_.clear();
    if (tap_ != nullptr) {
        fabric_->remove_tap(*tap_);
    }
}

std::expected<void, std::string> FabricServer::listen(const Address& address,
                                                      const SocketRules& rules) {
    if (address.kind == Address::Kind::kTls && tls_ == nullptr) {
        return std::unexpected(no_certificates(address));
    }
    auto fds = listen_on(address, rules);
    if (!fds) {
        return std::unexpected(fds.error());
    }
    for (UniqueFd& fd : *fds) {
        listeners_.push_back(std::make_unique<Listener>(*this, std::move(fd), address));
        if (!poller_.add(listeners_.back()->fd(), EPOLLIN, *listeners_.back())) {
            return std::unexpected(address.to_string() + ": " + std::strerror(errno) +
                                   ": free some memory, and start the switch again");
        }
    }
    spdlog::info("listening on {}", address.to_string());
    return {};
}

std::expected<void, std::string> FabricServer::connect(const Address& address,
                                                       const std::vector<std::string>& nodes,
                                                       const SocketRules& rules) {
    const bool tls = address.kind == Address::Kind::kTls;
    if (tls && tls_ == nullptr) {
        return std::unexpected(no_certificates(address));
    }
    const auto addresses = resolve(address, rules);
    if (!addresses) {
        return std::unexpected(addresses.error());
    }
    const auto trunks = fabric_->trunks_to(nodes);
    if (!trunks) {
        return std::unexpected(trunks.error());
    }
    for (Trunk* trunk : *trunks) {
        trunk->set_connects();
        dialers_.push_back(std::make_unique<Dialer>(
            *trunk, Dialer::Target{address.to_string(), *addresses, tls ? tls_.get() : nullptr,
                                   address.host}));
    }
    dial_at_ns_ = 0;
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
    auto tap = PcapTap::open(path, wall_offset_ns(clock_ns()), format);
    if (!tap) {
        return std::unexpected(tap.error());
    }
    tap_ = std::move(*tap);
    fabric_->add_tap(*tap_);
    return {};
}

// ---- connections

// Newcomers wait in the backlog while former peers' descriptors take a long time to close, or while
// no spare descriptor can be opened.
void FabricServer::pause_accept(bool paused) {
    if (paused == accept_paused_) {
        return;
    }
    accept_paused_ = paused;
    for (const auto& listener : listeners_) {
        poller_.modify(listener->fd(), paused ? 0U : EPOLLIN, *listener);
    }
    if (paused && closer().is_full() && notes_.permit_newcomer(kNoNetwork, fabric_->now_ns())) {
        spdlog::warn(
            "descriptors of former peers take a long time to close: new connections wait until "
            "then");
    }
}

bool FabricServer::accept_one(const Listener& listener) {
    if (closer().is_full() || !has_spare(spare_fd_)) {
        pause_accept(true);
        return false;
    }
    UniqueFd fd(::accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
        if (errno == EMFILE || errno == ENFILE) {
            shed(listener.fd(), spare_fd_, closer());
            if (notes_.permit_newcomer(kNoNetwork, fabric_->now_ns())) {
                spdlog::warn(
                    "out of file descriptors: closed a new connection. Raise the limit: ulimit -n");
            }
            return true;
        }
        return errno == ECONNABORTED || errno == EINTR;
    }
    auto tls = listener.uses_tls() ? tls_->accept(fd.get()) : nullptr;
    if (listener.uses_tls() && tls == nullptr) {
        return true;
    }
    make_room(connections_.size() + closed_.size() + 1, to_flush_, busy_);
    ConnectionHost& host = *this;
    auto connection = std::make_unique<Connection>(
        host, *fabric_, Connection::Socket{std::move(fd), std::move(tls)}, clock_ns());
    if (!connection->start()) {
        connection->close_fds();
        return true;
    }
    if (Connection* unlucky = newcomers_.one_too_many(connection->peer())) {
        close(*unlucky);
    }
    connections_.push_back(std::move(connection));
    newcomers_.add(*connections_.back());
    return true;
}

void FabricServer::close(Connection& connection) {
    if (!connection.is_open()) {
        return;
    }
    connection.link.close();
    connection.close_fds();
    newcomers_.remove(connection);
    unfinished_memory().remove(connection);
    for (const auto& dialer : dialers_) {
        if (dialer->owns(connection)) {
            dialer->closed(clock_ns());
            dial_at_ns_ = std::min(dial_at_ns_, dialer->due_ns());
            break;
        }
    }
    const auto at = std::ranges::find(connections_, &connection, &std::unique_ptr<Connection>::get);
    closed_.splice(closed_.end(), connections_, at);
}

void FabricServer::reap_closed() {
    std::erase_if(to_flush_, [](Connection* c) { return !c->is_open(); });
    std::erase_if(busy_, [](Connection* c) { return !c->is_open(); });
    closed_.clear();
}

bool FabricServer::may_handshake() {
    return handshakes_++ < kHandshakesPerTurn;
}

void FabricServer::drop_overdue_connections() {
    while (Connection* silent = newcomers_.overdue(clock_ns())) {
        close(*silent);
    }
    while (Connection* slow = unfinished_memory().overdue(clock_ns())) {
        note(*slow, slow->link.port_name() +
                        ": descriptors for peer copy came without the rest of their message for "
                        "10 s: connection closed");
        close(*slow);
    }
}

void FabricServer::dial(uint64_t now_ns) {
    if (now_ns < dial_at_ns_) {
        return;
    }
    if (closer().is_full()) {
        dial_at_ns_ = now_ns + kPausedWaitMs * kNsPerMs;
        return;
    }
    dial_at_ns_ = UINT64_MAX;
    for (const auto& dialer : dialers_) {
        if (dialer->due_ns() <= now_ns) {
            try {
                make_room(connections_.size() + closed_.size() + 1, to_flush_, busy_);
                dial_one(*dialer, *this, connections_, now_ns);
            } catch (const std::bad_alloc&) {
                dialer->out_of_memory(now_ns);
            }
        }
        dial_at_ns_ = std::min(dial_at_ns_, dialer->due_ns());
    }
}

// ---- reports of links

void FabricServer::schedule(Connection& connection) {
    if (!connection.in_flush_list && !connection.waits_for_room) {
        connection.in_flush_list = true;
        to_flush_.push_back(&connection);
    }
}

void FabricServer::note(const Connection& connection, const std::string& text) {
    const std::string& port = connection.link.port_name();
    const uint64_t now_ns = fabric_->now_ns();
    if (port.empty() ? notes_.permit_newcomer(connection.peer().network, now_ns)
                     : notes_.permit_port(port, now_ns)) {
        spdlog::info("{}{}", port.empty() ? "new connection: " : "", text);
    }
}

// A write to one connection may produce output for another: a queued packet, or a credit.
void FabricServer::flush() {
    for (size_t i = 0; i < to_flush_.size(); ++i) {
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

// Up to kRingTurns times, serves every busy connection, then wakes each sleeping peer once.
void FabricServer::serve_busy() {
    for (unsigned turn = 0; turn < kRingTurns && !busy_.empty(); ++turn) {
        if (turn != 0) {
            fabric_->advance(clock_ns());
        }
        for (size_t i = 0; i < busy_.size(); ++i) {
            if (busy_[i]->is_open() && busy_[i]->serve()) {
                schedule(*busy_[i]);  // frees the ring space of handled frames for the peer
            }
        }
        (void)fabric_->deliver();  // the next turn carries what is left
        flush();
        std::erase_if(busy_, [](Connection* c) {
            c->is_busy = c->is_open() && !c->link.may_sleep();
            return !c->is_busy;
        });
    }
}

// ---- the loop

int FabricServer::timeout_ms() {
    const uint64_t next =
        std::min({fabric_->next_deadline(), dial_at_ns_, newcomers_.next_deadline(),
                  unfinished_memory().next_deadline()});
    const uint64_t now = clock_ns();
    if (next <= now) {
        return 0;
    }
    const uint64_t wait = (next - now) / kNsPerMs + 1;
    const bool accept_paused = control_ != nullptr && control_->accept_paused();
    const bool idle = next == UINT64_MAX && tap_ == nullptr && !accept_paused && !accept_paused_;
    const int most = accept_paused_ ? kPausedWaitMs : kMaxWaitMs;
    return idle ? -1 : static_cast<int>(std::min<uint64_t>(wait, most));
}

std::expected<void, std::string> FabricServer::run() {
    Signals signals(stop_);
    if (!poller_.add(signals.fd(), EPOLLIN, signals)) {
        return std::unexpected(std::string("signalfd: ") + std::strerror(errno));
    }
    pib_ask_for_short_slices();
    uint64_t flushed_ns = 0;
    PibIdleSpin idle;
    pib_idle_spin_init(&idle, poll_us_);
    bool awake = false;
    while (!stop_) {
        handshakes_ = 0;
        // Traffic in a ring is likely to continue; links over sockets gain nothing by polling.
        awake = !busy_.empty() || (awake && pib_idle_spin_go_on(&idle));
        poller_.wait(awake ? 0 : timeout_ms(), [this] { fabric_->advance(clock_ns()); });
        if (!busy_.empty()) {
            pib_idle_spin_found(&idle);
            awake = true;
        }
        if (accept_paused_ && !closer().is_full() && has_spare(spare_fd_)) {
            pause_accept(false);
        }
        drop_overdue_connections();
        dial(fabric_->now_ns());
        flush();
        (void)fabric_->deliver();  // the next turn carries what is left
        flush();
        serve_busy();
        reap_closed();
        if (control_ != nullptr) {
            control_->reap_closed();
        }
        if (tap_ != nullptr && fabric_->now_ns() - flushed_ns >= kNsPerSecond / 4) {
            flushed_ns = fabric_->now_ns();
            tap_->flush();
            if (tap_->failed()) {
                spdlog::error(
                    "capture ended: its file cannot be written. Free some room, and start the "
                    "switch again");
                fabric_->remove_tap(*tap_);
                tap_.reset();
            }
        }
    }
    pib_idle_spin_end(&idle);
    poller_.remove(signals.fd());
    return {};
}

}  // namespace pib::fabric
