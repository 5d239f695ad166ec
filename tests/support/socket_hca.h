// SPDX-License-Identifier: GPL-2.0-or-later
// An adapter that is connected to a pib-switch process.
#pragma once

#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/address.h"
#include "link_pair.h"
#include "program.h"

namespace pib::test {

// An adapter's end of a link over a socket.
struct SocketHca {
    LinkRecorder recorder;
    std::unique_ptr<link::LinkEndpoint> end;
    fabric::UniqueFd fd;
    bool closed = false;

    SocketHca(const std::string& path, uint64_t guid) {
        auto connected = fabric::connect_unix(path);
        REQUIRE(connected);
        fd = std::move(*connected);
        end = std::make_unique<link::LinkEndpoint>(make_hello(guid), make_buffers(), recorder);
        recorder.endpoint = end.get();
        end->training().set_parameters(make_parameters());
    }
    void pump() {
        const auto out = end->output();
        if (!out.empty() && !closed) {
            const ssize_t n = ::send(fd.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (n > 0) {
                end->consume_output(static_cast<size_t>(n));
            }
        }
        uint8_t buffer[65536];
        const ssize_t n = ::recv(fd.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
        if (n > 0) {
            (void)feed(*end, std::span(buffer).first(static_cast<size_t>(n)));
        }
        closed = closed || n == 0;
    }
    bool until(const std::function<bool()>& done) {
        return eventually([&] {
            pump();
            return done() && (closed || end->output().empty());
        });
    }
};

}  // namespace pib::test
