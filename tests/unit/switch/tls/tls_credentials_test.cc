// SPDX-License-Identifier: GPL-2.0-or-later
// Peers that ask for long computations: by a certificate with a key of any size, whose private key
// they need not have, because the check of their signature, which fails, is the long part; by a
// stapled OCSP response, whose signer's key has any size; or by the group of the key exchange.
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
    int kind = GNUTLS_PK_RSA;  // GNUTLS_PK_ECDSA: the peer has the private key
    bool stapled = false;      // with an OCSP response
    size_t modulus_bytes = 256;
    size_t exponent_bytes = 3;
    const char* priority = kAnyGroup;
};

// A peer with a certificate of its own, which the CA has not signed.
class KeylessPeer {
  public:
    KeylessPeer(unsigned end, int fd, const Demands& demands) : demands_(demands) {
        gnutls_privkey_t key = nullptr;
        must(gnutls_privkey_init(&key));
        key_.reset(key);
        make_certificate();
        gnutls_certificate_credentials_t own = nullptr;
        must(gnutls_certificate_allocate_credentials(&own));
        own_.reset(own);
        gnutls_certificate_set_retrieve_function3(own, retrieve);
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
    // A public key without a private one.
    void set_rsa_key(gnutls_x509_crt_t crt) {
        Octets modulus = odd_number(demands_.modulus_bytes);
        Octets exponent = odd_number(demands_.exponent_bytes);
        const gnutls_datum_t m = datum(modulus), e = datum(exponent);
        gnutls_pubkey_t made = nullptr;
        must(gnutls_pubkey_init(&made));
        const GnutlsPtr<gnutls_pubkey_t, gnutls_pubkey_deinit> key(made);
        must(gnutls_pubkey_import_rsa_raw(key.get(), &m, &e));
        if (demands_.kind == GNUTLS_PK_RSA_PSS) {
            gnutls_x509_spki_t kind = nullptr;
            must(gnutls_x509_spki_init(&kind));
            const GnutlsPtr<gnutls_x509_spki_t, gnutls_x509_spki_deinit> owner(kind);
            gnutls_x509_spki_set_rsa_pss_params(kind, GNUTLS_DIG_SHA256, 32);
            must(gnutls_pubkey_set_spki(key.get(), kind, 0));
        }
        must(gnutls_x509_crt_set_pubkey(crt, key.get()));
        must(gnutls_privkey_import_ext4(key_.get(), this, sign, sign, nullptr, nullptr, tell, 0));
    }
    void make_certificate() {
        const auto crt = fabric::make_gnutls<fabric::X509Cert>(gnutls_x509_crt_init);
        const auto signer = fabric::make_gnutls<fabric::X509Key>(gnutls_x509_privkey_init);
        must(gnutls_x509_privkey_generate(signer.get(), GNUTLS_PK_ECDSA,
                                          GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
        must(gnutls_x509_crt_set_version(crt.get(), 3));
        must(gnutls_x509_crt_set_serial(crt.get(), "\1", 1));
        must(gnutls_x509_crt_set_activation_time(crt.get(), 0));
        must(gnutls_x509_crt_set_expiration_time(crt.get(), -1));
        must(gnutls_x509_crt_set_dn(crt.get(), "CN=stranger", nullptr));
        if (demands_.kind == GNUTLS_PK_ECDSA) {
            must(gnutls_x509_crt_set_key(crt.get(), signer.get()));
            must(gnutls_privkey_import_x509(key_.get(), signer.get(), GNUTLS_PRIVKEY_IMPORT_COPY));
        } else {
            set_rsa_key(crt.get());
        }
        const auto issuer = fabric::make_gnutls<fabric::X509Cert>(gnutls_x509_crt_init);
        must(gnutls_x509_crt_set_dn(issuer.get(), "CN=stranger", nullptr));
        must(gnutls_x509_crt_set_key(issuer.get(), signer.get()));
        must(gnutls_x509_crt_sign2(crt.get(), issuer.get(), signer.get(), GNUTLS_DIG_SHA256, 0));
        must(gnutls_pcert_import_x509(&certificate_, crt.get(), 0));
    }
    static int retrieve(gnutls_session_t session, const gnutls_cert_retr_st*,
                        gnutls_pcert_st** certificate, unsigned* count,
                        gnutls_ocsp_data_st** response, unsigned* responses, gnutls_privkey_t* key,
                        unsigned*) {
        auto* self = static_cast<KeylessPeer*>(gnutls_session_get_ptr(session));
        *certificate = &self->certificate_;
        *count = 1;
        *response = &self->response_;
        *responses = self->demands_.stapled ? 1 : 0;
        *key = self->key_.get();
        return 0;
    }
    static int sign(gnutls_privkey_t, gnutls_sign_algorithm_t, void* self, unsigned,
                    const gnutls_datum_t*, gnutls_datum_t* signature) {
        const size_t bytes = static_cast<KeylessPeer*>(self)->demands_.modulus_bytes;
        signature->data = static_cast<unsigned char*>(gnutls_malloc(bytes));
        signature->size = static_cast<unsigned>(bytes);
        std::memset(signature->data, 1, bytes);
        return 0;
    }
    static int tell(gnutls_privkey_t, unsigned flags, void* self) {
        const Demands& demands = static_cast<KeylessPeer*>(self)->demands_;
        const auto algorithm = demands.kind == GNUTLS_PK_RSA_PSS ? GNUTLS_SIGN_RSA_PSS_SHA256
                                                                 : GNUTLS_SIGN_RSA_PSS_RSAE_SHA256;
        if ((flags & GNUTLS_PRIVKEY_INFO_HAVE_SIGN_ALGO) != 0) {
            return GNUTLS_FLAGS_TO_SIGN_ALGO(flags) == algorithm ? 1 : 0;
        }
        return (flags & GNUTLS_PRIVKEY_INFO_PK_ALGO) != 0
                   ? demands.kind
                   : static_cast<int>(demands.modulus_bytes * 8);
    }

    const Demands demands_;
    unsigned char octet_ = 1;
    gnutls_ocsp_data_st response_{
        .version = 0, .response = {&octet_, 1}, .exptime = 0, .padding = {}};
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
constexpr const char* kNotChecked = "Error in the certificate";

}  // namespace

TEST_CASE("tls: the signature of a key that is slow to use is not checked") {
    for (const unsigned end : {GNUTLS_CLIENT, GNUTLS_SERVER}) {
        CAPTURE(end);
        CHECK(refusal(end, {}).find(kForged) != std::string::npos);
        CHECK(refusal(end, {.kind = GNUTLS_PK_RSA_PSS}).find(kForged) != std::string::npos);
        CHECK(refusal(end, {.modulus_bytes = 1024, .exponent_bytes = 8}).find(kForged) !=
              std::string::npos);
        for (const Demands& demands : {Demands{.modulus_bytes = 1025},
                                       {.exponent_bytes = 9},
                                       {.kind = GNUTLS_PK_RSA_PSS, .modulus_bytes = 1025}}) {
            const std::string error = refusal(end, demands);
            CHECK(error.find(kForged) == std::string::npos);
            CHECK(error.find(kNotChecked) != std::string::npos);
        }
    }
}

TEST_CASE("tls: a stapled OCSP response is not checked") {
    for (const unsigned end : {GNUTLS_CLIENT, GNUTLS_SERVER}) {
        CAPTURE(end);
        CHECK(refusal(end, {.kind = GNUTLS_PK_ECDSA}).find("NOT trusted") != std::string::npos);
        const std::string error = refusal(end, {.kind = GNUTLS_PK_ECDSA, .stapled = true});
        INFO(error);
        CHECK(error.find("OCSP") == std::string::npos);
        CHECK(error.find(kNotChecked) != std::string::npos);
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
