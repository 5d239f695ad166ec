// SPDX-License-Identifier: GPL-2.0-or-later
// pib-switch cert: the files, their permissions, and mistakes of the operator.
#include "tls/cert_command.h"

#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>

#include "tls/certificate_grant.h"
#include "tls/gnutls_types.h"
#include "tls_files.h"

namespace pib::test {
namespace {

unsigned mode_of(const std::string& path) {
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
}

std::string error_of(const fabric::CertOptions& options) {
    const auto made = fabric::make_certificate(options);
    return made ? "" : made.error();
}

fabric::CertOptions host(const std::string& directory, const std::string& name,
                         const std::string& guids = "any") {
    return {.command = "host",
            .directory = directory,
            .name = name,
            .guids = {guids},
            .nodes = {},
            .hosts = {},
            .days = 1};
}

fabric::X509Cert certificate(const std::string& path) {
    auto read = fabric::make_gnutls<fabric::X509Cert>(gnutls_x509_crt_init);
    fabric::GnutlsData pem;
    REQUIRE(gnutls_load_file(path.c_str(), pem.out()) == GNUTLS_E_SUCCESS);
    REQUIRE(gnutls_x509_crt_import(read.get(), pem.out(), GNUTLS_X509_FMT_PEM) == GNUTLS_E_SUCCESS);
    return read;
}

// The identifier of the certificate's own key, or of its issuer's; empty if it has none.
std::string key_id(decltype(&gnutls_x509_crt_get_subject_key_id) get, const std::string& path) {
    std::string id(64, '\0');
    size_t size = id.size();
    const int code = get(certificate(path).get(), id.data(), &size, nullptr);
    return code == GNUTLS_E_SUCCESS ? id.substr(0, size) : "";
}
constexpr auto kSubject = gnutls_x509_crt_get_subject_key_id;
constexpr auto kAuthority = gnutls_x509_crt_get_authority_key_id;

}  // namespace

TEST_CASE("cert: certificates name their key and that of the CA") {
    TlsFiles files;
    const std::string one = files.add_switch("one", "any"), vm = files.add_host("vm", "any");
    const std::string ca = key_id(kSubject, files.ca() + "/ca-cert.pem");
    CHECK_FALSE(ca.empty());
    CHECK(key_id(kAuthority, files.ca() + "/ca-cert.pem") == ca);
    for (const std::string& path : {one + "/server-cert.pem", vm + "/client-cert.pem"}) {
        CHECK(key_id(kAuthority, path) == ca);
        CHECK_FALSE(key_id(kSubject, path).empty());
        CHECK(key_id(kSubject, path) != ca);
    }
}

TEST_CASE("cert: keys are readable by their owner only") {
    TlsFiles files;
    const std::string one = files.add_switch("one", "any"), vm = files.add_host("vm", "any");
    for (const std::string& key :
         {files.ca() + "/ca-key.pem", one + "/server-key.pem", vm + "/client-key.pem"}) {
        CHECK(mode_of(key) == 0600);
    }
    for (const std::string& folder : {files.ca(), one, vm}) {
        CHECK(mode_of(folder) == 0700);
        CHECK(std::filesystem::exists(folder + "/ca-cert.pem"));
    }
    CHECK(fabric::TlsCredentials::load(one));
    CHECK(TlsFiles::load_host(vm));
}

TEST_CASE("cert: no file is overwritten") {
    TlsFiles files;
    const std::string vm = files.add_host("vm", "any");
    std::filesystem::last_write_time(vm + "/client-key.pem", {});
    const auto before = std::filesystem::last_write_time(vm + "/client-key.pem");
    CHECK(error_of(host(files.ca(), "vm")).find("remove it first") != std::string::npos);
    CHECK(std::filesystem::last_write_time(vm + "/client-key.pem") == before);
    CHECK(error_of({.command = "ca",
                    .directory = files.ca(),
                    .name = {},
                    .guids = {},
                    .nodes = {},
                    .hosts = {},
                    .days = 1})
              .find("remove it first") != std::string::npos);
}

TEST_CASE("cert: mistakes are reported") {
    TlsFiles files;
    CHECK(error_of(host(files.ca() + "/none", "vm")).find("pib-switch cert ca") !=
          std::string::npos);
    CHECK(error_of(host(files.ca(), "vm", "0")).find("not GUIDs") == 0);
    for (const char* name : {"", ".", "..", "../vm", "a b", "a/b", "\xff"}) {
        CHECK(error_of(host(files.ca(), name)).find("not a name") == 0);
    }
    auto many = host(files.ca(), "vm");
    many.nodes.assign(fabric::kMaxNames, "leaf");
    CHECK(error_of(many).find("a certificate has at most 255 GUIDs") == 0);
}

TEST_CASE("cert: a key that others may read is not used") {
    TlsFiles files;
    const std::string one = files.add_switch("one", "any");
    REQUIRE(::chmod((one + "/server-key.pem").c_str(), 0644) == 0);
    const auto loaded = fabric::TlsCredentials::load(one);
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().find("chmod 600") != std::string::npos);
    for (const char* missing : {"server-key.pem", "server-cert.pem", "ca-cert.pem"}) {
        const std::string name = std::string("without-") + missing;
        const std::string directory = files.add_switch(name, "any");
        std::filesystem::remove(directory + "/" + missing);
        const auto refused = fabric::TlsCredentials::load(directory);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().find(missing == std::string("server-key.pem")
                                       ? "server-key.pem"
                                       : "pib-switch cert") != std::string::npos);
    }
}

}  // namespace pib::test
