// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/capture_client.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/wall_clock.h"

namespace pib::fabric {
namespace {

constexpr const char* kAnswer = "{\"format\":\"pcapng\",\"ok\":true}\n";

}  // namespace

CaptureClient::CaptureClient(Poller& poller, Fabric& fabric, UniqueFd fd, CaptureFilter filter)
    : poller_(poller),
      fabric_(fabric),
      fd_(std::move(fd)),
      filter_(std::move(filter)),
      stream_(kAnswer, wall_offset_ns(fabric.now_ns())) {
    fabric_.add_tap(*this);
    if (!poller_.add(fd_.get(), EPOLLIN, *this)) {
        end();
        return;
    }
    wait_for_room(true);
}

CaptureClient::~CaptureClient() {
    end();
}

void CaptureClient::end() {
    if (fd_) {
        fabric_.remove_tap(*this);
        poller_.remove(fd_.get());
        fd_.reset();
    }
}

void CaptureClient::packet_seen(std::span<const uint8_t> packet, const Arrival& arrival) {
    if (filter_.takes(packet)) {
        stream_.add(packet, arrival);
        wait_for_room(true);
    }
}

// A client sends nothing while it captures: input, or its end, ends the capture.
void CaptureClient::ready(uint32_t events) {
    if (!fd_) {
        return;
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        end();
    } else {
        write();
    }
}

void CaptureClient::write() {
    while (!stream_.pending().empty()) {
        const auto bytes = stream_.pending();
        const ssize_t n =
            ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            end();
            return;
        }
        stream_.sent(static_cast<size_t>(n));
    }
    wait_for_room(false);
}

void CaptureClient::wait_for_room(bool wanted) {
    if (fd_ && wanted != waits_for_room_) {
        waits_for_room_ = wanted;
        poller_.modify(fd_.get(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, *this);
    }
}

}  // namespace pib::fabric
