// SPDX-License-Identifier: GPL-2.0-or-later
#include "tls/tls_session.h"

#include "tls/certificate_grant.h"

namespace pib::fabric {
namespace {

// Maximum number of steps in one call, because a peer can cause more of them by warning alerts.
constexpr unsigned kMaxSteps = 16;

bool waits(ssize_t code) {
    return code == GNUTLS_E_AGAIN || code == GNUTLS_E_INTERRUPTED;
}

constexpr const char* kAdvice = " (do both sides have certificates of the same CA in --tls?)";

std::string describe(gnutls_session_t session, int code) {
    std::string text = std::string("TLS: ") + gnutls_strerror(code);
    if (code == GNUTLS_E_FATAL_ALERT_RECEIVED) {
        const char* alert = gnutls_alert_get_name(gnutls_alert_get(session));
        text += std::string(" ") + (alert != nullptr ? alert : "");
    }
    return text + kAdvice;
}

}  // namespace

TlsSession::Progress TlsSession::handshake() {
    int code = GNUTLS_E_AGAIN;
    for (unsigned step = 0; step < kMaxSteps; ++step) {
        code = gnutls_handshake(session_.get());
        if (code == GNUTLS_E_SUCCESS) {
            return verify();
        }
        if (waits(code)) {
            return Progress::kWaits;
        }
        if (gnutls_error_is_fatal(code) != 0) {
            break;
        }
    }
    error_ = describe(session_.get(), code);
    gnutls_alert_send_appropriate(session_.get(), code);
    return Progress::kFailed;
}

TlsSession::Progress TlsSession::verify() {
    const auto datum = [](gnutls_vdata_types_t type, const char* text) {
        return gnutls_typed_vdata_st{type,
                                     reinterpret_cast<unsigned char*>(const_cast<char*>(text)), 0};
    };
    gnutls_typed_vdata_st required[] = {
        datum(GNUTLS_DT_KEY_PURPOSE_OID, expected_.purpose),
        datum(GNUTLS_DT_DNS_HOSTNAME, expected_.host.c_str()),
    };
    unsigned status = 0;
    const int code = gnutls_certificate_verify_peers(session_.get(), required,
                                                     expected_.host.empty() ? 1 : 2, &status);
    if (code == GNUTLS_E_SUCCESS && status == 0) {
        return Progress::kDone;
    }
    GnutlsData detail;
    if (code == GNUTLS_E_SUCCESS &&
        gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, detail.out(), 0) ==
            GNUTLS_E_SUCCESS) {
        error_ = "TLS: " + detail.text() + kAdvice;
    } else {
        error_ = describe(session_.get(), code);
    }
    gnutls_alert_send(session_.get(), GNUTLS_AL_FATAL, GNUTLS_A_BAD_CERTIFICATE);
    return Progress::kFailed;
}

std::expected<Peer, std::string> TlsSession::peer(const std::string& origin) const {
    unsigned count = 0;
    const gnutls_datum_t* chain = gnutls_certificate_get_peers(session_.get(), &count);
    const auto certificate = make_gnutls<X509Cert>(gnutls_x509_crt_init);
    if (chain == nullptr || count == 0 || !certificate ||
        gnutls_x509_crt_import(certificate.get(), &chain[0], GNUTLS_X509_FMT_DER) !=
            GNUTLS_E_SUCCESS) {
        return std::unexpected(std::string("TLS: the peer's certificate cannot be read") + kAdvice);
    }
    return peer_of_certificate(certificate.get(), origin);
}

std::optional<size_t> TlsSession::moved(ssize_t result) {
    if (result > 0) {
        return static_cast<size_t>(result);
    }
    if (waits(result)) {
        return 0;
    }
    if (result < 0) {
        error_ = describe(session_.get(), static_cast<int>(result));
    }
    return std::nullopt;
}

std::optional<size_t> TlsSession::read(std::span<uint8_t> to) {
    return moved(gnutls_record_recv(session_.get(), to.data(), to.size()));
}

std::optional<size_t> TlsSession::write(std::span<const uint8_t> bytes) {
    return moved(gnutls_record_send(session_.get(), bytes.data(), bytes.size()));
}

}  // namespace pib::fabric
