// SPDX-License-Identifier: GPL-2.0-or-later
// Addresses of stream sockets as users write them: unix:PATH, tcp:HOST:PORT and tcp:PORT; with TLS
// tls:HOST:PORT and tls:PORT.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace pib::fabric {

// HOST:PORT or HOST, where an IPv6 address is in brackets.
struct HostPort {
    std::string host;
    std::optional<std::string> port;

    // nullopt: a bracket is not closed, or text other than one :PORT follows the host.
    [[nodiscard]] static std::optional<HostPort> parse(std::string_view text);
};

struct Address {
    enum class Kind { kUnix, kTcp, kTls };
    Kind kind = Kind::kUnix;
    std::string path;  // kUnix
    // kTcp, kTls: a name or an IP address, IPv6 without its brackets; empty: the loopback addresses
    // of this host.
    std::string host;
    std::string port;

    // Errors are one-line messages for the user.
    [[nodiscard]] static std::expected<Address, std::string> parse(std::string_view text);
    [[nodiscard]] std::string to_string() const;
};

// Rules of access to a socket.
struct SocketRules {
    unsigned mode = 0660;    // permissions of a Unix socket
    std::string group;       // group of a Unix socket; empty: the group of the process
    bool plain_tcp = false;  // kTcp may use addresses that are not loopback addresses
};

// Returns non-blocking listening sockets, one for each address that `address` resolves to. Unix
// sockets that connect there cannot pass descriptors until pass_rights() permits it. Replaces
// a Unix socket that a dead process has left; a path at which another process listens is an error.
[[nodiscard]] std::expected<std::vector<UniqueFd>, std::string> listen_on(
    const Address& address, const SocketRules& rules = {});

using FileId = std::pair<dev_t, ino_t>;  // device and inode

// The file at `path`, not at the end of a symbolic link.
[[nodiscard]] std::optional<FileId> file_at(const std::string& path);
// Removes the file at `path` if it is `file`. Another file there stays, and is an error. The error
// is one line for a user.
[[nodiscard]] std::expected<void, std::string> remove_file(const std::string& path,
                                                           const FileId& file);

// The file of a Unix socket that listens. The destructor removes it unless another file has taken
// its place; the socket is still open then, so that no other file has its inode number.
class SocketFile {
  public:
    explicit SocketFile(std::string path);
    ~SocketFile();
    SocketFile(const SocketFile&) = delete;
    SocketFile& operator=(const SocketFile&) = delete;

  private:
    const std::string path_;
    const std::optional<FileId> file_;
};

// Returns a connected, blocking Unix stream socket. Here and below, errors are one line.
[[nodiscard]] std::expected<UniqueFd, std::string> connect_unix(const std::string& path);

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;
};
// Returns addresses for connect(), at least one. It may query a name server and block.
[[nodiscard]] std::expected<std::vector<SocketAddress>, std::string> resolve(
    const Address& address, const SocketRules& rules = {});
// Returns a non-blocking socket on which connect() has been called; EPOLLOUT and SO_ERROR report
// the result. Its peer cannot pass descriptors.
[[nodiscard]] std::expected<UniqueFd, std::string> begin_connect(const SocketAddress& address);

}  // namespace pib::fabric
