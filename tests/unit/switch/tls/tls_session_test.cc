// SPDX-License-Identifier: GPL-2.0-or-later
// Links over TLS at the program: peers with and without a certificate of the CA.
#include "tls/tls_session.h"

#include <fcntl.h>
#include <poll.h>

#include <catch2/catch_test_macros.hpp>

#include "free_port.h"
#include "socket_hca.h"
#include "tls_files.h"

namespace pib::test {
namespace {

using fabric::TlsSession;
using fabric::UniqueFd;

constexpr unsigned kTrunk = 4;  // the trunk's port: the last one of four

UniqueFd connect_tcp(const std::string& port) {
    const auto to = fabric::resolve(*fabric::Address::parse("tcp:127.0.0.1:" + port));
    REQUIRE(to);
    auto fd = fabric::begin_connect(to->front());
    REQUIRE(fd);
    pollfd ready{fd->get(), POLLOUT, 0};
    REQUIRE(::poll(&ready, 1, -1) == 1);
    return std::move(*fd);
}

// An adapter that connects over TLS.
struct TlsHca {
    LinkRecorder recorder;
    link::LinkEndpoint end;
    UniqueFd fd;
    std::unique_ptr<TlsSession> tls;
    bool secured = false, closed = false;

    TlsHca(const fabric::TlsCredentials& credentials, const std::string& port, uint64_t guid)
        : end(make_hello(guid), make_buffers(), recorder),
          fd(connect_tcp(port)),
          tls(credentials.connect(fd.get(), "127.0.0.1")) {
        REQUIRE(tls);
        recorder.endpoint = &end;
        end.training().set_parameters(make_parameters());
    }
    void pump() {
        if (closed) {
            return;
        }
        if (!secured) {
            const auto progress = tls->handshake();
            closed = progress == TlsSession::Progress::kFailed;
            secured = progress == TlsSession::Progress::kDone;
            return;
        }
        const auto sent =
            end.output().empty() ? std::optional<size_t>(0) : tls->write(end.output());
        if (sent) {
            end.consume_output(*sent);
        }
        uint8_t buffer[65536];
        const auto got = tls->read(buffer);
        closed = !sent || !got;
        if (got) {
            (void)feed(end, std::span(buffer).first(*got));
        }
    }
    bool until(const std::function<bool()>& done) {
        return eventually([&] {
            pump();
            return done();
        });
    }
    bool is_turned_away() {
        return until([&] { return closed; }) && recorder.welcomes.empty();
    }
};

// A switch that listens with TLS.
struct SecureSwitch {
    TlsFiles files;
    std::string port = free_port();
    Program program{{"--ports", "4", "--guid", "100", "--tls", files.add_switch("one", "100"),
                     "--listen", "tls:127.0.0.1:" + port}};

    [[nodiscard]] unsigned ports_taken() const {
        unsigned taken = 0;
        const auto status = program.ask({{"command", "status"}});
        for (const auto& port_status : status.at("ports")) {
            taken += port_status.contains("neighbour") ? 1 : 0;
        }
        return taken;
    }
};

bool is_closed(const UniqueFd& fd) {
    return eventually([&] {
        char buffer[4096];
        const ssize_t n = ::recv(fd.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
        return n == 0 || (n < 0 && errno == ECONNRESET);
    });
}

// Whether a client with this priority string of GnuTLS and the certificate of a host ("": none)
// gets an answer to its HELLO.
bool is_answered(const SecureSwitch& one, const char* priority, const std::string& host) {
    const UniqueFd fd = connect_tcp(one.port);
    gnutls_certificate_credentials_t own = nullptr;
    gnutls_session_t session = nullptr;
    REQUIRE(gnutls_certificate_allocate_credentials(&own) == 0);
    if (!host.empty()) {
        REQUIRE(gnutls_certificate_set_x509_key_file(own, (host + "/client-cert.pem").c_str(),
                                                     (host + "/client-key.pem").c_str(),
                                                     GNUTLS_X509_FMT_PEM) >= 0);
    }
    REQUIRE(gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_NONBLOCK) == 0);
    REQUIRE(gnutls_priority_set_direct(session, priority, nullptr) == 0);
    REQUIRE(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, own) == 0);
    gnutls_transport_set_int(session, fd.get());
    Bytes hello;
    link::append(hello, make_hello(0x1000));
    bool secured = false;
    ssize_t got = GNUTLS_E_AGAIN;
    CHECK(eventually([&] {
        if (!secured) {
            got = gnutls_handshake(session);
            secured = got == GNUTLS_E_SUCCESS;
            if (secured) {
                (void)gnutls_record_send(session, hello.data(), hello.size());
            }
        }
        char answer[64];
        got = secured ? gnutls_record_recv(session, answer, sizeof(answer)) : got;
        return got >= 0 || gnutls_error_is_fatal(static_cast<int>(got)) != 0;
    }));
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(own);
    return got > 0;
}

}  // namespace

TEST_CASE("tls: certificates of one CA join two processes, and join them again") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    SecureSwitch one;
    Program other({"--ports", "4", "--guid", "200", "--tls", one.files.add_switch("other", "200"),
                   "--connect", "tls:127.0.0.1:" + one.port});
    CHECK(one.program.reaches(1, "Initialize"));
    CHECK(other.reaches(kTrunk, "Initialize"));
    const auto status = one.program.ask({{"command", "status"}});
    CHECK(status.at("ports").at(0).at("neighbour").at("owner") == "certificate other");
    one.program.stop(SIGKILL);
    CHECK(other.reaches(kTrunk, "Down"));
    one.program.start();
    CHECK(one.program.reaches(1, "Initialize"));
    CHECK(other.reaches(kTrunk, "Initialize"));
    CHECK(other.stop(SIGTERM) == 0);
}

TEST_CASE("tls: an adapter gets the ports that its certificate permits") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    SecureSwitch one;
    const auto vm = TlsFiles::load_host(one.files.add_host("vm", "1000-10ff"));
    TlsHca good(*vm, one.port, 0x1000);
    REQUIRE(good.until([&] { return good.end.is_up(); }));
    TlsHca other(*vm, one.port, 0x2000);
    REQUIRE(other.until([&] { return other.closed; }));
    REQUIRE(other.recorder.refusals.size() == 1);
    CHECK(other.recorder.refusals[0].reason == link::RefuseReason::kNotAllowed);
    CHECK(other.recorder.refusals[0].text.find("--guid") != std::string::npos);

    // A peer with another certificate and the same GUIDs does not get the first peer's port.
    good.fd.reset();
    CHECK(one.program.reaches(1, "Down"));
    const auto twin = TlsFiles::load_host(one.files.add_host("twin", "any"));
    TlsHca stranger(*twin, one.port, 0x1000);
    REQUIRE(stranger.until([&] { return stranger.closed; }));
    REQUIRE(stranger.recorder.refusals.size() == 1);
    CHECK(stranger.recorder.refusals[0].text.find("certificate vm") != std::string::npos);
    CHECK(one.ports_taken() == 1);
}

TEST_CASE("tls: peers of another CA get no port") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    SecureSwitch one;
    // A certificate of another CA. Its owner trusts the switch's CA.
    TlsFiles foreign;
    const std::string thief = foreign.add_host("vm", "any");
    std::filesystem::copy_file(one.files.ca() + "/ca-cert.pem", thief + "/ca-cert.pem",
                               std::filesystem::copy_options::overwrite_existing);
    const auto stolen = TlsFiles::load_host(thief);
    CHECK(TlsHca(*stolen, one.port, 0x1000).is_turned_away());
    // A switch whose certificate is for another host, seen from the connecting side.
    const std::string port = free_port();
    const Program misnamed({"--guid", "300", "--tls",
                            one.files.add_switch("far", "300", "far.example"), "--listen",
                            "tls:127.0.0.1:" + port});
    const auto vm = TlsFiles::load_host(one.files.add_host("vm", "any"));
    TlsHca careful(*vm, port, 0x1000);
    CHECK(careful.is_turned_away());
    CHECK(careful.tls->error().find("name") != std::string::npos);
    // HELLO without TLS.
    const UniqueFd plain = connect_tcp(one.port);
    Bytes hello;
    link::append(hello, make_hello(0x1000));
    REQUIRE(::send(plain.get(), hello.data(), hello.size(), MSG_NOSIGNAL) > 0);
    CHECK(is_closed(plain));
    CHECK(one.ports_taken() == 0);
}

TEST_CASE("tls: TLS 1.2 is refused, and so is a peer without a certificate") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    SecureSwitch one;
    const std::string vm = one.files.add_host("vm", "any");
    CHECK_FALSE(is_answered(one, "NORMAL:-VERS-ALL:+VERS-TLS1.2", vm));
    CHECK_FALSE(is_answered(one, "NORMAL", ""));
    CHECK(one.ports_taken() == 0);
    CHECK(is_answered(one, "NORMAL", vm));
}

TEST_CASE("tls: a peer that stalls in the handshake stops no other") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    SecureSwitch one;
    // Each connection sends the first 0 to 10 bytes of a ClientHello, and then nothing.
    const std::string record("\x16\x03\x01\x3f\xff\x01\x00\x3f\xfb\x03\x03", 11);
    std::vector<UniqueFd> stalled;
    for (size_t i = 0; i < 60; ++i) {
        stalled.push_back(connect_tcp(one.port));
        REQUIRE(::send(stalled.back().get(), record.data(), i % record.size(), MSG_NOSIGNAL) >= 0);
    }
    const auto vm = TlsFiles::load_host(one.files.add_host("vm", "any"));
    TlsHca good(*vm, one.port, 0x1000);
    CHECK(good.until([&] { return good.end.is_up(); }));
    SocketHca local(one.program.fabric_path(), 0x2000);
    CHECK(local.until([&] { return local.end->is_up(); }));
    // A handshake message beyond the limit.
    const UniqueFd large = connect_tcp(one.port);
    const std::string header("\x16\x03\x01\x40\x00\x01\xff\xff\xff\x03\x03", 11);
    const std::string body(1 << 20, 'x');
    (void)::send(large.get(), header.data(), header.size(), MSG_NOSIGNAL);
    (void)::send(large.get(), body.data(), body.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    CHECK(is_closed(large));
    CHECK(one.program.alive());
}

TEST_CASE("tls: an address with TLS needs certificates") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    CHECK_FALSE(Program({"--listen", "tls:127.0.0.1:" + free_port()}).alive());
    CHECK_FALSE(Program({"--connect", "tls:127.0.0.1:9"}).alive());
    CHECK_FALSE(Program({"--tls", "/nonexistent"}).alive());
}

}  // namespace pib::test
