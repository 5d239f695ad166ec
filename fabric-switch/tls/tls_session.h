// SPDX-License-Identifier: GPL-2.0-or-later
// TLS 1.3 on a non-blocking socket, with certificates on both sides. No call blocks; handshake
// messages are bounded in size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>

#include "switch/peer.h"
#include "tls/gnutls_types.h"

namespace pib::fabric {

class TlsSession {
  public:
    enum class Progress { kDone, kWaits, kFailed };

    // Requirements for the peer's certificate: a key purpose (GNUTLS_KP_...), and a name or address
    // of the host; empty: any host.
    struct Expected {
        const char* purpose;
        std::string host;
    };

    // `session` has its credentials and its socket.
    TlsSession(GnutlsPtr<gnutls_session_t, gnutls_deinit> session, Expected expected)
        : session_(std::move(session)), expected_(std::move(expected)) {}

    // Continues the handshake as far as the socket permits; after kFailed error() has the reason.
    [[nodiscard]] Progress handshake();
    // Whether a waiting handshake waits for room in the socket, rather than for input.
    [[nodiscard]] bool waits_for_room() const {
        return gnutls_record_get_direction(session_.get()) == 1;
    }
    [[nodiscard]] const std::string& error() const { return error_; }
    // After the handshake: the peer as its certificate identifies it. `origin`: see Peer. The error
    // is one line.
    [[nodiscard]] std::expected<Peer, std::string> peer(const std::string& origin) const;

    // Bytes read or written; 0: none now; no value: the connection has ended. A writer that got 0
    // has to write the same bytes again.
    [[nodiscard]] std::optional<size_t> read(std::span<uint8_t> to);
    [[nodiscard]] std::optional<size_t> write(std::span<const uint8_t> bytes);
    // Whether bytes that were read from the socket wait for read().
    [[nodiscard]] bool has_input() const {
        return gnutls_record_check_pending(session_.get()) != 0;
    }

  private:
    [[nodiscard]] Progress verify();
    [[nodiscard]] std::optional<size_t> moved(ssize_t result);

    GnutlsPtr<gnutls_session_t, gnutls_deinit> session_;
    Expected expected_;
    std::string error_;
};

}  // namespace pib::fabric
