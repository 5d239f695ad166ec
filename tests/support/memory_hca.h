// SPDX-License-Identifier: GPL-2.0-or-later
// An adapter that shares memory with a pib-switch process, by descriptors on a real socket.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "copy_hca.h"
#include "program.h"
#include "shared_memory.h"

namespace pib::test {

// Sends the bytes together with these descriptors; false: the kernel refused, see errno.
inline bool send_with_fds(int socket, const Bytes& bytes, const std::vector<int>& fds) {
    std::vector<char> room(CMSG_SPACE(fds.size() * sizeof(int)));
    iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
        message.msg_control = room.data();
        message.msg_controllen = room.size();
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
        std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
    }
    return ::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

// An adapter's end of a link in shared memory.
struct MemoryHca : LinkRecorder {
    fabric::UniqueFd fd;
    std::vector<fabric::UniqueFd> received;
    std::optional<link::SharedMemory> memory;
    std::unique_ptr<link::LinkEndpoint> end;
    bool closed = false;

    MemoryHca(const std::string& path, uint64_t guid, uint32_t features = kCopyFeatures) {
        auto connected = fabric::connect_unix(path);
        REQUIRE(connected);
        fd = std::move(*connected);
        auto hello = make_hello(guid);
        hello.features = features;
        end = std::make_unique<link::LinkEndpoint>(hello, make_buffers(), *this);
        endpoint = end.get();
        end->training().set_parameters(make_parameters());
        REQUIRE(until([this] { return end->training().is_open(); }));
    }
    std::optional<link::LinkRings> link_rings() override {
        REQUIRE(received.size() == 2);
        memory = link::SharedMemory::map(received[0].get()).value();
        return link::LinkRings{.out = memory->ring(0), .in = memory->ring(1)};
    }
    void wake() {
        const uint64_t one = 1;
        [[maybe_unused]] const auto n = ::write(received[1].get(), &one, sizeof(one));
    }
    // Sends the queued bytes together with these descriptors.
    void send(std::vector<int> fds = {}) {
        const Bytes out(end->output().begin(), end->output().end());
        send(out, fds);
        end->consume_output(out.size());
    }
    void send(const Bytes& bytes, const std::vector<int>& fds) const {
        REQUIRE(send_with_fds(fd.get(), bytes, fds));
    }
    void pump() {
        if (!end->output().empty()) {
            send();
        }
        uint8_t bytes[4096];
        alignas(cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))];
        iovec part{bytes, sizeof(bytes)};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = room;
        message.msg_controllen = sizeof(room);
        const ssize_t n = ::recvmsg(fd.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (const cmsghdr* header = CMSG_FIRSTHDR(&message); n > 0 && header != nullptr) {
            int fds[2];
            std::memcpy(fds, CMSG_DATA(header), sizeof(fds));
            received.emplace_back(fds[0]);
            received.emplace_back(fds[1]);
        }
        if (n > 0) {
            REQUIRE(feed(*end, std::span(bytes).first(static_cast<size_t>(n))));
        }
        closed = closed || n == 0;
        if (end->channel().is_shared() && !closed) {
            REQUIRE(end->receive(SIZE_MAX));
            if (end->channel().publish()) {
                wake();
            }
        }
    }
    bool until(const std::function<bool()>& done) {
        return eventually([&] {
            pump();
            return done();
        });
    }
    // Sends MEMORY for this memory, with its descriptors except for the last `missing`.
    void share(const ShownMemory& shown, size_t missing = 0) {
        end->peer_copy().share(shown.control_memory.data(), shown.blocks);
        std::vector<int> fds{shown.control_memory.fd.get(), shown.ram.fd.get()};
        fds.resize(fds.size() - missing);
        send(fds);
    }
};

}  // namespace pib::test
