// SPDX-License-Identifier: GPL-2.0-or-later
// Reading and writing one socket. See connection.h.
#include "links/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "links/adapter_mapping.h"

namespace pib::fabric {
namespace {

constexpr unsigned kReadsPerTurn = 2;     // reads from one connection before its output is sent
constexpr unsigned kTlsReadsPerTurn = 8;  // each read is at most 16 KiB
// Maximum input of one connection in a turn; a LINK counts as 16 KiB.
constexpr size_t kInputPerTurn = 128 * 1024;
// Maximum number of bytes of a pull that are copied for one connection in a turn.
constexpr uint64_t kCopyBytesPerTurn = 64 * 1024;
constexpr int kSocketBufferBytes = 1 << 20;
// Time after which TCP reports a dead or stalled peer.
constexpr int kTcpUserTimeoutMs = 20'000;
constexpr int kTcpIdleSeconds = 10;
constexpr int kTcpProbeSeconds = 5;

bool is_unix(int fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    return ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
           address.ss_family == AF_UNIX;
}

// Does what send() does, and passes the descriptors `fds` to the peer (SCM_RIGHTS).
template <size_t N>
ssize_t send_with(int socket, std::span<const uint8_t> bytes, const std::array<int, N>& fds) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(fds))> room{};
    iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
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
    const int on = 1, buffer = kSocketBufferBytes, idle = kTcpIdleSeconds, probe = kTcpProbeSeconds;
    const unsigned timeout = kTcpUserTimeoutMs;
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
    if (is_unix(fd)) {
        return;
    }
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe, sizeof(probe));
    ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

bool would_block() {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

Connection::Connection(ConnectionHost& host, Admission& admission, Socket socket, uint64_t now_ns)
    : began_ns(now_ns),
      link(admission, *this),
      fd_(std::move(socket.fd)),
      tls_(std::move(socket.tls)),
      secured_(tls_ == nullptr),
      peer_(peer_of_socket(fd_.get())),
      host_(host),
      outgoing_(false),
      connecting_(false),
      passed_(host.closer()) {}

Connection::Connection(ConnectionHost& host, SwitchEndpoint::Outgoing& outgoing, Socket socket,
                       uint64_t now_ns)
    : began_ns(now_ns),
      link(outgoing, *this),
      waits_for_room(true),
      fd_(std::move(socket.fd)),
      tls_(std::move(socket.tls)),
      secured_(tls_ == nullptr),
      host_(host),
      outgoing_(true),
      connecting_(true),
      passed_(host.closer()) {}

bool Connection::start() {
    tune(fd_.get());
    return host_.poller().add(fd_.get(), EPOLLIN | (waits_for_room ? EPOLLOUT : 0U), *this);
}

void Connection::ready(uint32_t events) {
    if (!fd_ || (connecting_ && !finish_connect())) {
        return;  // closed earlier in this turn, or now
    }
    if (!secured_) {
        continue_handshake();
        return;
    }
    if ((events & EPOLLOUT) != 0) {
        write();
    }
    if (fd_ && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        read();
    }
}

// The socket is ready for the first time: connect() has succeeded or failed.
bool Connection::finish_connect() {
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    connecting_ = false;
    if (error != 0) {
        reason_ = std::strerror(error);
        host_.close(*this);
        return false;
    }
    peer_ = peer_of_socket(fd_.get());
    return true;
}

// Continues the TLS handshake. At its end the certificate identifies the peer.
void Connection::continue_handshake() {
    if (!host_.may_handshake()) {
        return;  // the socket stays ready, so ready() is called again
    }
    const auto progress = tls_->handshake();
    if (progress == TlsSession::Progress::kWaits) {
        want_write(tls_->waits_for_room());
        return;
    }
    auto peer = progress == TlsSession::Progress::kDone ? tls_->peer(peer_.origin)
                                                        : std::unexpected(tls_->error());
    if (!peer) {
        lost({link::LinkError::kRefused, peer.error()});
        return;
    }
    peer->network = peer_.network;
    peer_ = std::move(*peer);
    secured_ = true;
    write();
    read();  // the peer's first bytes may have come with the handshake's last ones
}

std::optional<size_t> Connection::put(std::span<const uint8_t> bytes) {
    if (tls_) {
        return tls_->write(bytes);
    }
    const bool hand_over = link.is_shared() && !handed_over_;
    const ssize_t n = hand_over ? send_with(fd_.get(), bytes, shared_->handed_over())
                                : ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
        handed_over_ = handed_over_ || hand_over;
        return static_cast<size_t>(n);
    }
    return would_block() ? std::optional<size_t>(0) : std::nullopt;
}

void Connection::write() {
    try {
        write_output();
    } catch (const std::bad_alloc&) {
        out_of_memory();
    }
}

void Connection::write_output() {
    if (!secured_) {
        return;
    }
    while (fd_ && !link.output().empty()) {
        const auto sent = put(link.output());
        if (!sent) {
            host_.close(*this);
            return;
        }
        if (*sent == 0) {
            break;
        }
        link.consume_output(*sent);
    }
    want_write(!link.output().empty());
    if (!fd_) {
        return;
    }
    if (link.publish()) {
        shared_->wake_peer();
    }
    if (link.room_is_back()) {
        host_.make_busy(*this);
    }
}

// There is no memory for this peer's frames and packets: closes this connection, and no other.
void Connection::out_of_memory() {
    if (fd_) {
        reason_ = "out of memory";
        host_.close(*this);
    }
}

bool Connection::serve() {
    try {
        if (const auto more = link.receive(kInputPerTurn); !more) {
            lost(more.error());
            return false;
        }
        link.copy(kCopyBytesPerTurn);
        if (tls_ && tls_->has_input()) {
            read();
        }
        return is_open();
    } catch (const std::bad_alloc&) {
        out_of_memory();
        return false;
    }
}

void Connection::close_fds() {
    if (shared_) {
        host_.poller().remove(shared_->wake_fd());
    }
    host_.poller().remove(fd_.get());
    passed_.drop();
    ::shutdown(fd_.get(), SHUT_RDWR);
    host_.closer().close(std::move(fd_));
}

// No value: the connection has ended, here or at the peer.
std::optional<size_t> Connection::get(std::span<uint8_t> space) {
    if (tls_) {
        return tls_->read(space);
    }
    const ssize_t n = passed_.receive(fd_.get(), space, link.takes_memory());
    if (n < 0 && would_block()) {
        return 0;
    }
    if (n > 0 && passed_.refused()) {
        lost({link::LinkError::kUnexpectedFrame, "unexpected descriptors"});
        return std::nullopt;
    }
    return n > 0 ? std::optional(static_cast<size_t>(n)) : std::nullopt;
}

void Connection::read() {
    if (link.input_waits()) {
        return;  // serve() handles the frames of earlier reads first
    }
    const unsigned most = tls_ ? kTlsReadsPerTurn : kReadsPerTurn;
    // epoll does not report bytes that TLS has already read from the socket.
    for (unsigned i = 0; fd_ && (i < most || (tls_ && tls_->has_input())); ++i) {
        const auto space = link.input_space();
        const auto got = get(space);
        if (!got && fd_) {
            host_.close(*this);
        }
        if (!got || *got == 0) {
            return;
        }
        if (const auto fed = link.feed_input(*got, kInputPerTurn); !fed) {
            lost(fed.error());
            return;
        }
        if (link.input_waits()) {
            host_.make_busy(*this);
            return;
        }
        passed_.expect(fd_.get(), link.takes_memory());
        if (!passed_.all().empty()) {
            host_.unfinished_memory().add(*this, passed_);
        }
        if (!tls_ && *got < space.size()) {
            return;  // the socket is empty
        }
    }
}

std::expected<std::shared_ptr<const AdapterMemory>, std::string> Connection::link_map(
    const link::Memory& memory) {
    if (passed_.all().size() != 1 + memory.blocks.size()) {
        return std::unexpected(
            "a different number of descriptors than it announces: use device and switch of one "
            "release");
    }
    auto mapped = map_adapter_memory(passed_.all(), memory.blocks);
    passed_.drop();
    if (!mapped) {
        link_note("no peer copy: " + mapped.error());
        return nullptr;
    }
    return *mapped;
}

void Connection::link_wake() {
    if (shared_) {
        shared_->wake_peer();
    }
}

std::optional<link::LinkRings> Connection::link_share() {
    if (!host_.shares_memory() || !is_unix(fd_.get())) {
        return std::nullopt;
    }
    auto shared = SharedRings::create();
    if (!shared || !host_.poller().add(shared->wake_fd(), EPOLLIN | EPOLLET, waker_)) {
        return std::nullopt;  // the link then uses the socket
    }
    shared_ = std::make_unique<SharedRings>(std::move(*shared));
    host_.make_busy(*this);
    return shared_->rings();
}

void Connection::lost(const link::LinkFailure& failure) {
    reason_ = failure.text + " (" + to_string(failure.error) + ")";
    if (!outgoing_) {
        link_note(reason_ + ": connection closed");
    }
    // Tries once to send a REFUSE. Its few bytes fit unless the peer does not read.
    const auto out = link.output();
    if (secured_ && !out.empty()) {
        [[maybe_unused]] const auto sent = put(out);
    }
    host_.close(*this);
}

void Connection::want_write(bool wanted) {
    if (fd_ && wanted != waits_for_room) {
        waits_for_room = wanted;
        host_.poller().modify(fd_.get(), EPOLLIN | (wanted ? EPOLLOUT : 0U), *this);
    }
}

}  // namespace pib::fabric
