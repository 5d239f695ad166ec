// SPDX-License-Identifier: GPL-2.0-or-later
#include "tls/tls_credentials.h"

#include <gnutls/ocsp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

namespace pib::fabric {
namespace {

// The list excludes finite-field groups: a key exchange in the largest one takes half a second, and
// a peer without a certificate can ask for it. Every implementation of TLS 1.3 has an elliptic
// curve.
constexpr const char* kPriority = "NORMAL:-VERS-ALL:+VERS-TLS1.3:-GROUP-DH-ALL";
// Maximum length of a handshake message: enough for a certificate with hundreds of GUIDs.
constexpr size_t kMaxHandshakeMessage = 16 * 1024;

// Longest RSA key whose signature is checked. Without limits one check takes many seconds, and a
// peer that no CA knows can ask for it, because the signature is checked before the certificate.
constexpr size_t kMaxModulusBytes = 1024;
constexpr size_t kMaxExponentBytes = 8;

size_t bytes_of_number(const gnutls_datum_t& number) {
    const std::span bytes(number.data, number.size);
    return static_cast<size_t>(
        bytes.end() - std::ranges::find_if(bytes, [](unsigned char byte) { return byte != 0; }));
}

// Whether the signature of the peer's key can be checked fast.
bool is_fast(const gnutls_datum_t& certificate) {
    const auto crt = make_gnutls<X509Cert>(gnutls_x509_crt_init);
    if (!crt ||
        gnutls_x509_crt_import(crt.get(), &certificate, GNUTLS_X509_FMT_DER) != GNUTLS_E_SUCCESS) {
        return false;
    }
    const int kind = gnutls_x509_crt_get_pk_algorithm(crt.get(), nullptr);
    if (kind != GNUTLS_PK_RSA && kind != GNUTLS_PK_RSA_PSS) {
        return true;  // the other kinds that TLS 1.3 permits have keys of a few sizes
    }
    GnutlsData modulus, exponent;
    return gnutls_x509_crt_get_pk_rsa_raw(crt.get(), modulus.out(), exponent.out()) ==
               GNUTLS_E_SUCCESS &&
           bytes_of_number(*modulus.out()) <= kMaxModulusBytes &&
           bytes_of_number(*exponent.out()) <= kMaxExponentBytes;
}

// Whether the peer has sent an OCSP response. GnuTLS checks it before the chain, also with keys of
// the peer's own certificates, whose size nothing limits; so check_peer_key() refuses the peer. The
// switch needs no response: ca-crl.pem revokes certificates.
bool is_stapled(gnutls_session_t session, unsigned certificates) {
    gnutls_datum_t response{};
    for (unsigned i = 0; i < certificates; ++i) {
        if (gnutls_ocsp_status_request_get2(session, i, &response) == GNUTLS_E_SUCCESS) {
            return true;
        }
    }
    return false;
}

// GnuTLS calls this before it checks the signature in the peer's CertificateVerify.
int check_peer_key(gnutls_session_t session, unsigned /*type*/, unsigned /*when*/,
                   unsigned incoming, const gnutls_datum_t* /*message*/) {
    unsigned count = 0;
    const gnutls_datum_t* chain =
        incoming != 0 ? gnutls_certificate_get_peers(session, &count) : nullptr;
    return chain == nullptr || (is_fast(chain[0]) && !is_stapled(session, count))
               ? GNUTLS_E_SUCCESS
               : GNUTLS_E_CERTIFICATE_ERROR;
}

std::unexpected<std::string> not_loaded(const std::string& file, const std::string& why) {
    return std::unexpected(file + ": " + why + ": make it with pib-switch cert");
}

std::expected<void, std::string> check_key(const std::string& file) {
    struct stat info{};
    if (::stat(file.c_str(), &info) != 0) {
        return not_loaded(file, std::strerror(errno));
    }
    if ((info.st_mode & (S_IROTH | S_IWOTH)) != 0) {
        return std::unexpected(file + ": other users may read this key: chmod 600 " + file);
    }
    return {};
}

}  // namespace

std::expected<std::unique_ptr<TlsCredentials>, std::string> TlsCredentials::load(
    const std::string& directory) {
    const std::string ca = directory + "/ca-cert.pem", crl = directory + "/ca-crl.pem";
    const std::string own = directory + "/server-cert.pem", key = directory + "/server-key.pem";
    std::unique_ptr<TlsCredentials> made(new TlsCredentials);
    gnutls_certificate_credentials_t certificates = nullptr;
    gnutls_priority_t priority = nullptr;
    if (gnutls_certificate_allocate_credentials(&certificates) != GNUTLS_E_SUCCESS) {
        return std::unexpected("no memory for certificates: free some, and start the switch again");
    }
    made->certificates_.reset(certificates);
    if (const int code = gnutls_priority_init(&priority, kPriority, nullptr);
        code != GNUTLS_E_SUCCESS) {
        return std::unexpected(gnutls_error("TLS 1.3", code) +
                               ": permit it in GnuTLS's configuration");
    }
    made->priority_.reset(priority);
    const int trusted =
        gnutls_certificate_set_x509_trust_file(certificates, ca.c_str(), GNUTLS_X509_FMT_PEM);
    if (trusted <= 0) {
        return not_loaded(ca, trusted == 0 ? "no certificate" : gnutls_strerror(trusted));
    }
    if (::access(crl.c_str(), F_OK) == 0) {
        const int code =
            gnutls_certificate_set_x509_crl_file(certificates, crl.c_str(), GNUTLS_X509_FMT_PEM);
        if (code < 0) {
            return std::unexpected(gnutls_error(crl, code) + ": replace the file, or remove it");
        }
    }
    if (const auto safe = check_key(key); !safe) {
        return std::unexpected(safe.error());
    }
    const int loaded = gnutls_certificate_set_x509_key_file(certificates, own.c_str(), key.c_str(),
                                                            GNUTLS_X509_FMT_PEM);
    if (loaded < 0) {
        return not_loaded(own, gnutls_strerror(loaded));
    }
    return made;
}

std::unique_ptr<TlsSession> TlsCredentials::make(int fd, unsigned end, const char* purpose,
                                                 const std::string& host) const {
    gnutls_session_t session = nullptr;
    if (gnutls_init(&session, end | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS) !=
        GNUTLS_E_SUCCESS) {
        return nullptr;
    }
    GnutlsPtr<gnutls_session_t, gnutls_deinit> made(session);
    if (gnutls_priority_set(session, priority_.get()) != GNUTLS_E_SUCCESS ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, certificates_.get()) !=
            GNUTLS_E_SUCCESS) {
        return nullptr;
    }
    if ((end & GNUTLS_SERVER) != 0) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
    }
    gnutls_handshake_set_max_packet_length(session, kMaxHandshakeMessage);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_CERTIFICATE_VERIFY,
                                       GNUTLS_HOOK_PRE, check_peer_key);
    gnutls_transport_set_int(session, fd);
    return std::make_unique<TlsSession>(std::move(made), TlsSession::Expected{purpose, host});
}

std::unique_ptr<TlsSession> TlsCredentials::accept(int fd) const {
    return make(fd, GNUTLS_SERVER, GNUTLS_KP_TLS_WWW_CLIENT, {});
}

std::unique_ptr<TlsSession> TlsCredentials::connect(int fd, const std::string& host) const {
    return make(fd, GNUTLS_CLIENT, GNUTLS_KP_TLS_WWW_SERVER, host);
}

}  // namespace pib::fabric
