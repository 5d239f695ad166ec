// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/passed_fds.h"

#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "base/pass_rights.h"

namespace pib::fabric {
namespace {

// Maximum number of descriptors that Linux passes with a message (SCM_MAX_FD). With less room
// recvmsg() would close the rest itself, and could block.
constexpr size_t kMostOfMessage = 253;

// Calls `take` with each descriptor of the message.
template <typename Take>
void for_each_fd(msghdr& message, Take take) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        for (size_t at = CMSG_LEN(0); at + sizeof(int) <= header->cmsg_len; at += sizeof(int)) {
            int fd = -1;
            std::memcpy(&fd, reinterpret_cast<const char*>(header) + at, sizeof(fd));
            take(fd);
        }
    }
}

}  // namespace

ssize_t PassedFds::receive(int socket, std::span<uint8_t> space, bool expected) {
    iovec part{space.data(), space.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostOfMessage * sizeof(int))> room;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    const ssize_t n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (n <= 0) {
        return n;
    }
    for_each_fd(message, [this](int fd) { keep(fd); });
    refused_ = refused_ || (message.msg_flags & MSG_CTRUNC) != 0 || (count_ != 0 && !expected);
    if (refused_) {
        drop();
    }
    return n;
}

void PassedFds::keep(int fd) {
    if (count_ < kMost) {
        fds_[count_++] = UniqueFd(fd);
    } else {
        refused_ = true;
        closer_.close(UniqueFd(fd));
    }
}

void PassedFds::expect(int socket, bool expected) {
    if (expected != expected_) {
        expected_ = expected;
        pass_rights(socket, expected);
    }
}

void PassedFds::drop() {
    for (UniqueFd& fd : std::span(fds_).first(std::exchange(count_, 0))) {
        closer_.close(std::move(fd));
    }
}

}  // namespace pib::fabric
