// SPDX-License-Identifier: GPL-2.0-or-later
// The certificate and key of this process and the CA's certificate, from a directory with QEMU's
// names: ca-cert.pem, server-cert.pem, server-key.pem, and ca-crl.pem if there is one.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "tls/tls_session.h"

namespace pib::fabric {

class TlsCredentials {
  public:
    // The error is one line for a user.
    [[nodiscard]] static std::expected<std::unique_ptr<TlsCredentials>, std::string> load(
        const std::string& directory);

    // A session on a connected socket; nullptr: no memory. The credentials outlive the session.
    [[nodiscard]] std::unique_ptr<TlsSession> accept(int fd) const;
    // `host`: a name or address that the peer's certificate must have; empty: any.
    [[nodiscard]] std::unique_ptr<TlsSession> connect(int fd, const std::string& host) const;

  private:
    TlsCredentials() = default;
    [[nodiscard]] std::unique_ptr<TlsSession> make(int fd, unsigned end, const char* purpose,
                                                   const std::string& host) const;

    GnutlsPtr<gnutls_certificate_credentials_t, gnutls_certificate_free_credentials> certificates_;
    GnutlsPtr<gnutls_priority_t, gnutls_priority_deinit> priority_;
};

}  // namespace pib::fabric
