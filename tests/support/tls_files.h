// SPDX-License-Identifier: GPL-2.0-or-later
// A directory with a private CA and certificates as `pib-switch cert` makes them.
#pragma once

#include <stdlib.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tls/cert_command.h"
#include "tls/tls_credentials.h"

namespace pib::test {

class TlsFiles {
  public:
    TlsFiles() {
        char name[] = "/tmp/pib-tls-test-XXXXXX";
        path_ = ::mkdtemp(name);
        make({.command = "ca",
              .directory = ca(),
              .name = {},
              .guids = {},
              .nodes = {},
              .hosts = {},
              .days = 2});
    }
    ~TlsFiles() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TlsFiles(const TlsFiles&) = delete;
    TlsFiles& operator=(const TlsFiles&) = delete;

    [[nodiscard]] std::string ca() const { return path_ + "/ca"; }
    // Makes the files of a switch; returns their directory.
    std::string add_switch(const std::string& name, const std::string& guids,
                           const std::string& host = "127.0.0.1") {
        return make({.command = "switch",
                     .directory = ca(),
                     .name = name,
                     .guids = {guids},
                     .nodes = {},
                     .hosts = {host},
                     .days = 2});
    }
    std::string add_host(const std::string& name, const std::string& guids) {
        return make({.command = "host",
                     .directory = ca(),
                     .name = name,
                     .guids = {guids},
                     .nodes = {},
                     .hosts = {},
                     .days = 2});
    }
    // Credentials of a host, as QEMU loads them.
    static std::unique_ptr<fabric::TlsCredentials> load_host(const std::string& directory) {
        for (const char* kind : {"cert", "key"}) {
            std::filesystem::copy_file(directory + "/client-" + kind + ".pem",
                                       directory + "/server-" + kind + ".pem",
                                       std::filesystem::copy_options::skip_existing);
        }
        auto loaded = fabric::TlsCredentials::load(directory);
        REQUIRE(loaded);
        return std::move(*loaded);
    }

  private:
    std::string make(const fabric::CertOptions& options) {
        const auto made = fabric::make_certificate(options);
        INFO((made ? "" : made.error()));
        REQUIRE(made);
        return options.directory + "/" + options.name;
    }

    std::string path_;
};

}  // namespace pib::test
