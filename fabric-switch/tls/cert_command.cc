// SPDX-License-Identifier: GPL-2.0-or-later
// See cert_command.h. DIRECTORY/ca-cert.pem and ca-key.pem are the CA's; DIRECTORY/NAME has the
// files of a switch or host, with the names that QEMU's tls-creds-x509 expects.
#include "tls/cert_command.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/unique_fd.h"
#include "tls/certificate_grant.h"

namespace pib::fabric {
namespace {

using Done = std::expected<void, std::string>;

constexpr mode_t kDirectoryMode = 0700, kKeyMode = 0600, kCertMode = 0644;
constexpr std::time_t kDay = 24L * 60 * 60;
constexpr std::time_t kClockDifference = 60L * 60;  // seconds by which clocks of hosts may differ
constexpr size_t kSerialBytes = 16;
constexpr size_t kMaxName = 64;   // bytes of an X.509 common name
constexpr size_t kMaxKeyId = 64;  // bytes

struct Pair {
    X509Cert certificate = make_gnutls<X509Cert>(gnutls_x509_crt_init);
    X509Key key = make_gnutls<X509Key>(gnutls_x509_privkey_init);
};

Done checked(const char* what, int code) {
    return code < 0 ? Done(std::unexpected(gnutls_error(what, code))) : Done();
}

// Runs the steps in order until one fails.
template <typename... Step>
Done in_order(Step... step) {
    Done done;
    ((done = done ? step() : done), ...);
    return done;
}

// ---- files

Done make_directory(const std::string& path) {
    if (::mkdir(path.c_str(), kDirectoryMode) != 0 && errno != EEXIST) {
        return std::unexpected(path + ": " + std::strerror(errno) +
                               ": give a directory that can be made");
    }
    return {};
}

Done write_file(const std::string& path, const std::string& text, mode_t mode) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!fd) {
        return std::unexpected(path + ": " + std::strerror(errno) +
                               (errno == EEXIST ? ": remove it first, or choose another name"
                                                : ": give a directory in which files can be made"));
    }
    if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        return std::unexpected(path + ": " + std::strerror(errno) +
                               ": remove it, free some room, and try again");
    }
    return {};
}

Done write_certificate(const std::string& path, gnutls_x509_crt_t certificate) {
    GnutlsData pem;
    const int code = gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, pem.out());
    return in_order([&] { return checked("certificate", code); },
                    [&] { return write_file(path, pem.text(), kCertMode); });
}

Done write_key(const std::string& path, gnutls_x509_privkey_t key) {
    GnutlsData pem;
    const int code = gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, nullptr,
                                                       GNUTLS_PKCS_PLAIN, pem.out());
    return in_order([&] { return checked("key", code); },
                    [&] { return write_file(path, pem.text(), kKeyMode); });
}

Done load_ca(const std::string& directory, Pair& ca) {
    GnutlsData certificate, key;
    const std::string advice = ": make the CA first: pib-switch cert ca " + directory;
    if (gnutls_load_file((directory + "/ca-cert.pem").c_str(), certificate.out()) < 0 ||
        gnutls_load_file((directory + "/ca-key.pem").c_str(), key.out()) < 0) {
        return std::unexpected("no CA in " + directory + advice);
    }
    if (gnutls_x509_crt_import(ca.certificate.get(), certificate.out(), GNUTLS_X509_FMT_PEM) < 0 ||
        gnutls_x509_privkey_import(ca.key.get(), key.out(), GNUTLS_X509_FMT_PEM) < 0) {
        return std::unexpected("the CA in " + directory + " cannot be read" + advice);
    }
    return {};
}

// ---- certificates

// Runs calls of GnuTLS until one fails.
class Steps {
  public:
    template <typename Call>
    Steps& then(Call call) {
        code_ = code_ < 0 ? code_ : call();
        return *this;
    }
    [[nodiscard]] Done done() const { return checked("certificate", code_); }

  private:
    int code_ = GNUTLS_E_SUCCESS;
};

std::array<unsigned char, kSerialBytes> random_serial() {
    std::array<unsigned char, kSerialBytes> serial{};
    gnutls_rnd(GNUTLS_RND_NONCE, serial.data(), serial.size());
    serial[0] = (serial[0] & 0x3F) | 0x40;  // positive, without leading zeros
    return serial;
}

void set_identity(Steps& steps, const Pair& pair, const std::string& name, unsigned days) {
    gnutls_x509_crt_t crt = pair.certificate.get();
    const auto serial = random_serial();
    const std::time_t now = std::time(nullptr);
    steps
        .then([&] {
            return gnutls_x509_privkey_generate(pair.key.get(), GNUTLS_PK_ECDSA,
                                                GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1),
                                                0);
        })
        .then([&] { return gnutls_x509_crt_set_version(crt, 3); })
        .then([&] { return gnutls_x509_crt_set_serial(crt, serial.data(), serial.size()); })
        .then([&] { return gnutls_x509_crt_set_activation_time(crt, now - kClockDifference); })
        .then([&] { return gnutls_x509_crt_set_expiration_time(crt, now + days * kDay); })
        .then([&] {
            return gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, name.data(),
                                                 static_cast<unsigned>(name.size()));
        })
        .then([&] { return gnutls_x509_crt_set_key(crt, pair.key.get()); });
}

// QEMU up to 10.1 demands the key usage keyEncipherment of certificates.
void set_usage(Steps& steps, gnutls_x509_crt_t crt, const std::string& command) {
    const bool is_ca = command == "ca";
    const unsigned usage = is_ca ? GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN
                                 : GNUTLS_KEY_DIGITAL_SIGNATURE | GNUTLS_KEY_KEY_ENCIPHERMENT;
    steps.then([&] { return gnutls_x509_crt_set_ca_status(crt, is_ca ? 1 : 0); }).then([&] {
        return gnutls_x509_crt_set_key_usage(crt, usage);
    });
    if (!is_ca) {
        steps.then(
            [&] { return gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_CLIENT, 0); });
    }
    if (command == "switch") {
        steps.then(
            [&] { return gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_SERVER, 0); });
    }
}

void add_name(Steps& steps, gnutls_x509_crt_t crt, gnutls_x509_subject_alt_name_t type,
              const void* data, size_t size) {
    steps.then([&] {
        return gnutls_x509_crt_set_subject_alt_name(crt, type, data, static_cast<unsigned>(size),
                                                    GNUTLS_FSAN_APPEND);
    });
}

void add_host(Steps& steps, gnutls_x509_crt_t crt, const std::string& host) {
    std::array<unsigned char, sizeof(in6_addr)> address{};
    if (::inet_pton(AF_INET, host.c_str(), address.data()) == 1) {
        add_name(steps, crt, GNUTLS_SAN_IPADDRESS, address.data(), sizeof(in_addr));
    } else if (::inet_pton(AF_INET6, host.c_str(), address.data()) == 1) {
        add_name(steps, crt, GNUTLS_SAN_IPADDRESS, address.data(), sizeof(in6_addr));
    } else {
        add_name(steps, crt, GNUTLS_SAN_DNSNAME, host.data(), host.size());
    }
}

// Verifiers that are strict about RFC 5280 (4.2.1.1, 4.2.1.2) demand both identifiers. The issuer's
// identifier is copied from its certificate, because another program may have computed it in
// another way. It is computed here only if the certificate, made by an earlier version, has none.
void set_key_ids(Steps& steps, gnutls_x509_crt_t crt, gnutls_x509_crt_t issuer) {
    std::array<unsigned char, kMaxKeyId> id{};
    size_t size = id.size();
    steps.then([&] { return gnutls_x509_crt_get_key_id(crt, 0, id.data(), &size); })
        .then([&] { return gnutls_x509_crt_set_subject_key_id(crt, id.data(), size); })
        .then([&] {
            size = id.size();
            const int code = gnutls_x509_crt_get_subject_key_id(issuer, id.data(), &size, nullptr);
            if (code != GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE) {
                return code;
            }
            size = id.size();
            return gnutls_x509_crt_get_key_id(issuer, 0, id.data(), &size);
        })
        .then([&] { return gnutls_x509_crt_set_authority_key_id(crt, id.data(), size); });
}

Done sign(Steps& steps, const Pair& pair, const Pair& issuer) {
    set_key_ids(steps, pair.certificate.get(), issuer.certificate.get());
    return steps
        .then([&] {
            return gnutls_x509_crt_sign2(pair.certificate.get(), issuer.certificate.get(),
                                         issuer.key.get(), GNUTLS_DIG_SHA256, 0);
        })
        .done();
}

Done make_ca(const CertOptions& options) {
    const Pair ca;
    Steps steps;
    set_identity(steps, ca, "pib fabric CA", options.days);
    set_usage(steps, ca.certificate.get(), options.command);
    const std::string files = options.directory + "/ca-";
    return in_order([&] { return sign(steps, ca, ca); },
                    [&] { return make_directory(options.directory); },
                    [&] { return write_key(files + "key.pem", ca.key.get()); },
                    [&] { return write_certificate(files + "cert.pem", ca.certificate.get()); });
}

std::expected<Grant, std::string> grant_from(const CertOptions& options) {
    Grant grant{.is_switch = options.command == "switch", .guids = {}, .nodes = options.nodes};
    for (const std::string& text : options.guids) {
        const auto range = parse_guids(text);
        if (!range) {
            return std::unexpected(range.error());
        }
        grant.guids.push_back(*range);
    }
    if (to_uris(grant).size() + options.hosts.size() > kMaxNames) {
        return std::unexpected("a certificate has at most " + std::to_string(kMaxNames - 1) +
                               " GUIDs, nodes and addresses: give ranges of GUIDs");
    }
    return grant;
}

// Whether `name` is fit as the name of a directory, and of a peer in logs.
bool is_name(const std::string& name) {
    const auto fits = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.';
    };
    return !name.empty() && name.size() <= kMaxName && name.front() != '.' &&
           std::ranges::all_of(name, fits);
}

Done make_signed(const CertOptions& options) {
    const std::string files = options.directory + "/" + options.name;  // a new directory
    const std::string kind = options.command == "switch" ? "/server-" : "/client-";
    const auto grant = grant_from(options);
    if (!grant) {
        return std::unexpected(grant.error());
    }
    if (!is_name(options.name)) {
        return std::unexpected("not a name (letters, digits, '-', '_' and '.', at most 64): " +
                               options.name);
    }
    Pair ca;
    if (const auto loaded = load_ca(options.directory, ca); !loaded) {
        return loaded;
    }
    const Pair made;
    gnutls_x509_crt_t crt = made.certificate.get();
    Steps steps;
    set_identity(steps, made, options.name, options.days);
    set_usage(steps, crt, options.command);
    for (const std::string& uri : to_uris(*grant)) {
        add_name(steps, crt, GNUTLS_SAN_URI, uri.data(), uri.size());
    }
    for (const std::string& host : options.hosts) {
        add_host(steps, crt, host);
    }
    return in_order(
        [&] { return sign(steps, made, ca); }, [&] { return make_directory(files); },
        [&] { return write_key(files + kind + "key.pem", made.key.get()); },
        [&] { return write_certificate(files + kind + "cert.pem", crt); },
        [&] { return write_certificate(files + "/ca-cert.pem", ca.certificate.get()); });
}

}  // namespace

Done make_certificate(const CertOptions& options) {
    return options.command == "ca" ? make_ca(options) : make_signed(options);
}

int run_cert(const CertOptions& options) {
    if (const auto made = make_certificate(options); !made) {
        std::fprintf(stderr, "pib-switch cert: %s\n", made.error().c_str());
        return 1;
    }
    return 0;
}

}  // namespace pib::fabric
