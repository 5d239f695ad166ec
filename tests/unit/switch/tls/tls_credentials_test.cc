// SPDX-License-Identifier: GPL-2.0-or-later
// Peers that ask for long computations: by a certificate with a key of any size, whose private key
// they need not have, because the check of their signature, which fails, is the long part; or by
// the group of the key exchange.
#include "tls/tls_credentials.h"

#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/unique_fd.h"
#include "tls_files.h"

namespace pib::test {
namespace {

using fabric::GnutlsPtr;
using fabric::TlsSession;
using fabric::UniqueFd;
using Octets = std::vector<unsigned char>;

void must(int code) {
    INFO(gnutls_strerror(code));
    REQUIRE(code >= 0);
}

// A random odd number with its highest bit set.
Octets odd_number(size_t bytes) {
    Octets number(bytes);
    must(gnutls_rnd(GNUTLS_RND_NONCE, number.data(), bytes));
    number.front() = (number.front() & 0x3F) | 0x40;
    number.back() |= 1;
    return number;
}

gnutls_datum_t datum(Octets& bytes) {
    return {bytes.data(), static_cast<unsigned>(bytes.size())};
}

constexpr const char* kAnyGroup = "NORMAL:-VERS-ALL:+VERS-TLS1.3";

struct Demands {
    size_t modulus_bytes = 256;
    size_t exponent_bytes = 3;
    const char* priority = kAnyGroup;
};

// A peer with a certificate of its own, which the CA has not signed.
class KeylessPeer {
  public:
    KeylessPeer(unsigned end, int fd, const Demands& demands) {
        make_certificate(demands.modulus_bytes, demands.exponent_bytes);
        gnutls_privkey_t key = nullptr;
        must(gnutls_privkey_init(&key));
        must(gnutls_privkey_import_ext4(key, this, sign, sign, nullptr, nullptr, tell, 0));
        key_.reset(key);
        gnutls_certificate_credentials_t own = nullptr;
        must(gnutls_certificate_allocate_credentials(&own));
        own_.reset(own);
        gnutls_certificate_set_retrieve_function2(own, retrieve);
        gnutls_session_t session = nullptr;
        must(gnutls_init(&session, end | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL));
        session_.reset(session);
        gnutls_session_set_ptr(session, this);
        must(gnutls_priority_set_direct(session, demands.priority, nullptr));
        must(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, own));
        gnutls_transport_set_int(session, fd);
    }
    ~KeylessPeer() { gnutls_pcert_deinit(&certificate_); }
    KeylessPeer(const KeylessPeer&) = delete;
    KeylessPeer& operator=(const KeylessPeer&) = delete;

    void step() { (void)gnutls_handshake(session_.get()); }

  private:
    void make_certificate(size_t modulus_bytes, size_t exponent_bytes) {
        Octets modulus = odd_number(modulus_bytes), exponent = odd_number(exponent_bytes);
        const gnutls_datum_t m = datum(modulus), e = datum(exponent);
        signature_bytes_ = modulus_bytes;
        gnutls_pubkey_t made = nullptr;
        must(gnutls_pubkey_init(&made));
        const GnutlsPtr<gnutls_pubkey_t, gnutls_pubkey_deinit> key(made);
        must(gnutls_pubkey_import_rsa_raw(key.get(), &m, &e));
        const auto crt = fabric::make_gnutls<fabric::X509Cert>(gnutls_x509_crt_init);
        const auto signer = fabric::make_gnutls<fabric::X509Key>(gnutls_x509_privkey_init);
        must(gnutls_x509_privkey_generate(signer.get(), GNUTLS_PK_ECDSA,
                                          GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
        must(gnutls_x509_crt_set_version(crt.get(), 3));
        must(gnutls_x509_crt_set_serial(crt.get(), "\1", 1));
        must(gnutls_x509_crt_set_activation_time(crt.get(), 0));
        must(gnutls_x509_crt_set_expiration_time(crt.get(), -1));
        must(gnutls_x509_crt_set_dn(crt.get(), "CN=stranger", nullptr));
        must(gnutls_x509_crt_set_pubkey(crt.get(), key.get()));
        const auto issuer = fabric::make_gnutls<fabric::X509Cert>(gnutls_x509_crt_init);
        must(gnutls_x509_crt_set_dn(issuer.get(), "CN=stranger", nullptr));
        must(gnutls_x509_crt_set_key(issuer.get(), signer.get()));
        must(gnutls_x509_crt_sign2(crt.get(), issuer.get(), signer.get(), GNUTLS_DIG_SHA256, 0));
        must(gnutls_pcert_import_x509(&certificate_, crt.get(), 0));
    }
    static int retrieve(gnutls_session_t session, const gnutls_datum_t*, int,
                        const gnutls_pk_algorithm_t*, int, gnutls_pcert_st** certificate,
                        unsigned* count, gnutls_privkey_t* key) {
        auto* self = static_cast<KeylessPeer*>(gnutls_session_get_ptr(session));
        *certificate = &self->certificate_;
        *count = 1;
        *key = self->key_.get();
        return 0;
    }
    static int sign(gnutls_privkey_t, gnutls_sign_algorithm_t, void* self, unsigned,
                    const gnutls_datum_t*, gnutls_datum_t* signature) {
        const size_t bytes = static_cast<KeylessPeer*>(self)->signature_bytes_;
        signature->data = static_cast<unsigned char*>(gnutls_malloc(bytes));
        signature->size = static_cast<unsigned>(bytes);
        std::memset(signature->data, 1, bytes);
        return 0;
    }
    static int tell(gnutls_privkey_t, unsigned flags, void* self) {
        if ((flags & GNUTLS_PRIVKEY_INFO_HAVE_SIGN_ALGO) != 0) {
            return GNUTLS_FLAGS_TO_SIGN_ALGO(flags) == GNUTLS_SIGN_RSA_PSS_RSAE_SHA256 ? 1 : 0;
        }
        return (flags & GNUTLS_PRIVKEY_INFO_PK_ALGO) != 0
                   ? int{GNUTLS_PK_RSA}
                   : static_cast<int>(static_cast<KeylessPeer*>(self)->signature_bytes_ * 8);
    }

    size_t signature_bytes_ = 0;
    gnutls_pcert_st certificate_{};
    GnutlsPtr<gnutls_privkey_t, gnutls_privkey_deinit> key_;
    GnutlsPtr<gnutls_certificate_credentials_t, gnutls_certificate_free_credentials> own_;
    GnutlsPtr<gnutls_session_t, gnutls_deinit> session_;
};

// The error with which a session ends whose peer makes these demands.
std::string refusal(unsigned peer_end, const Demands& demands) {
    TlsFiles files;
    const auto credentials =
        fabric::TlsCredentials::load(files.add_switch("switch", "any")).value();
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0);
    const UniqueFd own(fds[0]), other(fds[1]);
    const auto session = (peer_end & GNUTLS_SERVER) != 0 ? credentials->connect(own.get(), {})
                                                         : credentials->accept(own.get());
    KeylessPeer peer(peer_end, other.get(), demands);
    for (unsigned step = 0; step < 100; ++step) {
        peer.step();
        if (session->handshake() == TlsSession::Progress::kFailed) {
            return session->error();
        }
    }
    return "";
}

constexpr const char* kForged = "signature";

}  // namespace

TEST_CASE("tls: the signature of a key that is slow to use is not checked") {
    for (const unsigned end : {GNUTLS_CLIENT, GNUTLS_SERVER}) {
        CAPTURE(end);
        CHECK(refusal(end, {}).find(kForged) != std::string::npos);
        CHECK(refusal(end, {.modulus_bytes = 1024, .exponent_bytes = 8}).find(kForged) !=
              std::string::npos);
        for (const Demands& demands : {Demands{.modulus_bytes = 1025}, {.exponent_bytes = 9}}) {
            const std::string error = refusal(end, demands);
            CHECK(error.find(kForged) == std::string::npos);
            CHECK(error.find("Error in the certificate") != std::string::npos);
        }
    }
}

TEST_CASE("tls: a key exchange in a group that is slow to use is refused") {
    for (const char* group : {"FFDHE2048", "FFDHE8192"}) {
        CAPTURE(group);
        const std::string priority = std::string(kAnyGroup) + ":-GROUP-ALL:+GROUP-" + group;
        const std::string error = refusal(GNUTLS_CLIENT, {.priority = priority.c_str()});
        CHECK_FALSE(error.empty());
        CHECK(error.find(kForged) == std::string::npos);
    }
}

}  // namespace pib::test
