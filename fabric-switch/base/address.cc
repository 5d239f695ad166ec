// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/address.h"

#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "base/pass_rights.h"

namespace pib::fabric {
namespace {

constexpr int kBacklog = 512;
// Maximum length of the suffix ".PID" that the path of a Unix socket has until the socket listens.
constexpr size_t kSuffix = 8;
constexpr size_t kMostPath = sizeof(sockaddr_un::sun_path) - 1;

std::string system_error(const std::string& what) {
    return what + ": " + std::strerror(errno);
}

// The error of a Unix socket that cannot be created.
std::string no_socket(const std::string& path) {
    return system_error(path) + ": give a path where this user can create a socket";
}

std::optional<sockaddr_un> unix_address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof(address.sun_path)) {
        return std::nullopt;
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

std::string bad_path(const std::string& path, size_t most = kMostPath) {
    return "socket path has to have 1 to " + std::to_string(most) + " bytes: " + path;
}

// The errno of connect(); 0: somebody listens. If the backlog is full because the listening process
// accepts no connections, connect() fails with EAGAIN; on a blocking socket it would wait forever.
int probe_listener(const sockaddr_un& address) {
    const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const auto* to = reinterpret_cast<const sockaddr*>(&address);
    const bool listens =
        probe && (::connect(probe.get(), to, sizeof(address)) == 0 || errno == EAGAIN);
    return listens ? 0 : errno;
}

bool is_socket(const std::string& path) {
    struct stat info{};
    return ::lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

using ListeningSockets = std::vector<UniqueFd>;

// The kernel lets an unprivileged user give a file only to one of the user's own groups.
std::expected<void, std::string> give_to_group(const std::string& path, const std::string& name) {
    if (name.empty()) {
        return {};
    }
    const group* found = ::getgrnam(name.c_str());
    if (found == nullptr) {
        return std::unexpected("no group \"" + name + "\": make it with groupadd --system " + name);
    }
    if (::chown(path.c_str(), static_cast<uid_t>(-1), found->gr_gid) != 0) {
        return std::unexpected(system_error(path + ": chgrp " + name) +
                               ": add the switch's user to the group");
    }
    return {};
}

std::unexpected<std::string> somebody_is_there(const std::string& path) {
    return std::unexpected("another process listens on " + path + ": end it, or give another path");
}

std::unexpected<std::string> cannot_remove(const std::string& path, int error) {
    return std::unexpected(path + ": " + std::strerror(error) +
                           ": remove this socket as its owner, if no process listens on it, or "
                           "give another path");
}

// Makes a bound socket listen, then renames its path from `early` to `path`.
std::expected<void, std::string> publish(const UniqueFd& fd, const std::string& early,
                                         const std::string& path, const SocketRules& rules) {
    // The kernel refuses connections before listen(), so no client connects before group and mode
    // are set.
    if (const auto given = give_to_group(early, rules.group); !given) {
        return given;
    }
    if (::chmod(early.c_str(), rules.mode) != 0 || ::listen(fd.get(), kBacklog) != 0) {
        return std::unexpected(no_socket(path));
    }
    if (::renameat2(AT_FDCWD, early.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0) {
        return errno == EEXIST && is_socket(path) ? somebody_is_there(path)
                                                  : std::unexpected(no_socket(path));
    }
    return {};
}

// Removes a socket that a dead process has left. Another process may do the same at this time, and
// listen at the path before this process has removed the dead socket: remove_file() removes no
// other file than the one that was there before the probe.
std::expected<void, std::string> remove_dead(const std::string& path, const sockaddr_un& address) {
    const auto found = file_at(path);
    if (!found || !is_socket(path)) {
        return {};
    }
    const int error = probe_listener(address);
    if (error == 0) {
        return somebody_is_there(path);
    }
    // Other errors, such as EACCES, do not say whether somebody listens.
    if (error != ECONNREFUSED && error != ENOENT) {
        return cannot_remove(path, error);
    }
    return remove_file(path, *found);
}

// Binds `path`.PID and renames it, so that `path` never names a socket that does not listen yet.
// Binds before it removes a dead socket, so that the new and the dead socket have different inodes.
std::expected<ListeningSockets, std::string> listen_unix(const std::string& path,
                                                         const SocketRules& rules) {
    const std::string early = path + "." + std::to_string(::getpid());
    const auto address = unix_address(path), early_address = unix_address(early);
    if (!address || !early_address || path.size() + kSuffix > kMostPath) {
        return std::unexpected(bad_path(path, kMostPath - kSuffix));
    }
    if (is_socket(early)) {
        ::unlink(early.c_str());
    }
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*early_address),
                      sizeof(*early_address)) != 0) {
        return std::unexpected(no_socket(path));
    }
    pass_rights(fd.get(), false);
    auto published = remove_dead(path, *address);
    if (published) {
        published = publish(fd, early, path, rules);
    }
    if (!published) {
        ::unlink(early.c_str());
        return std::unexpected(published.error());
    }
    ListeningSockets sockets;
    sockets.push_back(std::move(fd));
    return sockets;
}

using AddressInfo = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Without a host getaddrinfo() returns the loopback addresses, so that no other machine can
// connect.
std::expected<AddressInfo, std::string> look_up(const Address& address) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const char* host = address.host.empty() ? nullptr : address.host.c_str();
    const int failed = ::getaddrinfo(host, address.port.c_str(), &hints, &found);
    if (failed != 0) {
        return std::unexpected(address.to_string() + ": " + ::gai_strerror(failed) +
                               ": give an address, or a name that this host can resolve");
    }
    return AddressInfo(found, &::freeaddrinfo);
}

bool is_loopback(const addrinfo& at) {
    if (at.ai_family == AF_INET) {
        constexpr in_addr_t kLoopbackNet = 127;
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(at.ai_addr);
        return ntohl(v4->sin_addr.s_addr) >> 24 == kLoopbackNet;
    }
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(at.ai_addr);
    return at.ai_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

// The addresses of the host; an error if `rules` forbid one of them.
std::expected<AddressInfo, std::string> look_up(const Address& address, const SocketRules& rules) {
    auto found = look_up(address);
    if (!found || address.kind == Address::Kind::kTls || rules.plain_tcp) {
        return found;
    }
    for (const addrinfo* at = found->get(); at != nullptr; at = at->ai_next) {
        if (!is_loopback(*at)) {
            return std::unexpected(address.to_string() +
                                   " leaves this host without encryption: write tls: instead of "
                                   "tcp: and give --tls, or permit it with --plain-tcp");
        }
    }
    return found;
}

UniqueFd listen_at(const addrinfo& at) {
    const int on = 1;
    UniqueFd fd(::socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        ::bind(fd.get(), at.ai_addr, at.ai_addrlen) == 0 && ::listen(fd.get(), kBacklog) == 0) {
        return fd;
    }
    return {};
}

std::string no_listener(const Address& address) {
    return system_error(address.to_string()) + ": give an address of this host and a free port";
}

// An address family that is unsupported or has no such address is not an error if another family
// works.
std::expected<ListeningSockets, std::string> listen_tcp(const Address& address,
                                                        const SocketRules& rules) {
    const auto found = look_up(address, rules);
    if (!found) {
        return std::unexpected(found.error());
    }
    ListeningSockets sockets;
    for (const addrinfo* at = found->get(); at != nullptr; at = at->ai_next) {
        UniqueFd fd = listen_at(*at);
        if (fd) {
            sockets.push_back(std::move(fd));
        } else if (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT) {
            return std::unexpected(no_listener(address));
        }
    }
    if (sockets.empty()) {
        return std::unexpected(no_listener(address));
    }
    return sockets;
}

}  // namespace

std::optional<HostPort> HostPort::parse(std::string_view text) {
    const bool bracketed = text.starts_with('[');
    const size_t end = bracketed ? text.find(']') : text.find(':');
    if (bracketed && end == std::string_view::npos) {
        return std::nullopt;
    }
    const auto host = bracketed ? text.substr(1, end - 1) : text.substr(0, end);
    const auto rest = text.substr(std::min(end + (bracketed ? 1 : 0), text.size()));
    if (rest.empty()) {
        return HostPort{std::string(host), std::nullopt};
    }
    const auto port = rest.substr(1);
    if (rest.front() != ':' || port.find(':') != std::string_view::npos) {
        return std::nullopt;
    }
    return HostPort{std::string(host), std::string(port)};
}

std::expected<Address, std::string> Address::parse(std::string_view text) {
    constexpr std::string_view kUnixPrefix = "unix:", kTcpPrefix = "tcp:", kTlsPrefix = "tls:";
    if (text.starts_with(kUnixPrefix) && text.size() > kUnixPrefix.size()) {
        return Address{Kind::kUnix, std::string(text.substr(kUnixPrefix.size())), {}, {}};
    }
    if (text.starts_with(kTcpPrefix) || text.starts_with(kTlsPrefix)) {
        const Kind kind = text.starts_with(kTlsPrefix) ? Kind::kTls : Kind::kTcp;
        const auto place = HostPort::parse(text.substr(kTcpPrefix.size()));
        if (place && place->port && !place->port->empty()) {
            return Address{kind, {}, place->host, *place->port};
        }
        if (place && !place->port && !place->host.empty() && !place->host.contains(':')) {
            return Address{kind, {}, {}, place->host};
        }
    }
    return std::unexpected(
        "not an address (unix:PATH, tls:HOST:PORT, tcp:HOST:PORT or tcp:PORT): " +
        std::string(text));
}

std::string Address::to_string() const {
    if (kind == Kind::kUnix) {
        return "unix:" + path;
    }
    const std::string prefix = kind == Kind::kTls ? "tls:" : "tcp:";
    if (host.empty()) {
        return prefix + port;
    }
    const bool v6 = host.find(':') != std::string::npos;
    return prefix + (v6 ? "[" + host + "]" : host) + ":" + port;
}

std::expected<ListeningSockets, std::string> listen_on(const Address& address,
                                                       const SocketRules& rules) {
    return address.kind == Address::Kind::kUnix ? listen_unix(address.path, rules)
                                                : listen_tcp(address, rules);
}

std::optional<FileId> file_at(const std::string& path) {
    struct stat info{};
    return ::lstat(path.c_str(), &info) == 0 ? std::optional(FileId(info.st_dev, info.st_ino))
                                             : std::nullopt;
}

// Renames the file before it compares the inode: after a comparison, unlink() could remove a file
// that another process has put there since. A file that was renamed by mistake goes back, unless a
// third process has made one at the path meanwhile: then two processes listen, and the user chooses
// one.
std::expected<void, std::string> remove_file(const std::string& path, const FileId& file) {
    const std::string aside = path + "." + std::to_string(::getpid()) + ".old";
    if (::rename(path.c_str(), aside.c_str()) != 0) {
        return errno == ENOENT ? std::expected<void, std::string>() : cannot_remove(path, errno);
    }
    if (file_at(aside) == file) {
        return ::unlink(aside.c_str()) == 0 ? std::expected<void, std::string>()
                                            : cannot_remove(aside, errno);
    }
    if (::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0) {
        return std::unexpected("two processes have made " + path + ", and the socket of one is " +
                               aside + " now: end that process and remove this file");
    }
    return somebody_is_there(path);
}

SocketFile::SocketFile(std::string path) : path_(std::move(path)), file_(file_at(path_)) {}

SocketFile::~SocketFile() {
    if (file_ && file_at(path_) == file_) {
        ::unlink(path_.c_str());
    }
}

std::expected<UniqueFd, std::string> connect_unix(const std::string& path) {
    const auto address = unix_address(path);
    if (!address) {
        return std::unexpected(bad_path(path));
    }
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd ||
        ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
        return std::unexpected(system_error(path) +
                               ": give the path that a running pib-switch has as --control");
    }
    return fd;
}

std::expected<std::vector<SocketAddress>, std::string> resolve(const Address& address,
                                                               const SocketRules& rules) {
    std::vector<SocketAddress> addresses;
    if (address.kind == Address::Kind::kUnix) {
        const auto at = unix_address(address.path);
        if (!at) {
            return std::unexpected(bad_path(address.path));
        }
        addresses.emplace_back();
        std::memcpy(&addresses[0].storage, &*at, sizeof(*at));
        addresses[0].size = sizeof(*at);
        return addresses;
    }
    const auto found = look_up(address, rules);
    if (!found) {
        return std::unexpected(found.error());
    }
    for (const addrinfo* at = found->get(); at != nullptr; at = at->ai_next) {
        addresses.emplace_back();
        std::memcpy(&addresses.back().storage, at->ai_addr, at->ai_addrlen);
        addresses.back().size = at->ai_addrlen;
    }
    return addresses;
}

std::expected<UniqueFd, std::string> begin_connect(const SocketAddress& address) {
    UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd) {
        pass_rights(fd.get(), false);
    }
    if (!fd || (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                          address.size) != 0 &&
                errno != EINPROGRESS)) {
        return std::unexpected(std::string(std::strerror(errno)));
    }
    return fd;
}

}  // namespace pib::fabric
