// SPDX-License-Identifier: GPL-2.0-or-later
#include "live_subnet.h"

#include <sys/socket.h>

#include <chrono>
#include <stdexcept>

#include "program.h"

namespace pib::test {
namespace {

uint64_t clock_ns() {
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

class SocketCable final : public Cable {
  public:
    explicit SocketCable(fabric::UniqueFd socket) : socket_(std::move(socket)) {}

    void carry(std::span<const uint8_t> bytes) override {
        unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
        flush();
    }
    bool take(std::vector<uint8_t>& bytes) override {
        flush();
        bytes.resize(64 * 1024);
        const ssize_t n = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (n == 0) {
            throw std::runtime_error("the switch has closed the link");
        }
        bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
        return !bytes.empty();
    }

  private:
    void flush() {
        const ssize_t n =
            ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) {
            unsent_.erase(unsent_.begin(), unsent_.begin() + n);
        }
    }

    fabric::UniqueFd socket_;
    std::vector<uint8_t> unsent_;
};

bool turn(Guest& guest) {
    guest.host.clock_ns = clock_ns();
    const bool due = guest.host.timer_deadline_ns <= guest.host.clock_ns;
    if (due) {
        guest.host.timer_deadline_ns = hca::kNever;
        guest.device->timer();
    }
    return guest.move() || due;
}

}  // namespace

LiveSubnet::LiveSubnet(std::vector<fabric::UniqueFd> sockets) {
    for (fabric::UniqueFd& socket : sockets) {
        add(std::move(socket));
    }
}

void LiveSubnet::add(fabric::UniqueFd socket) {
    guests_.push_back(std::make_unique<Guest>(static_cast<unsigned>(guests_.size()), clock_ns()));
    Guest& guest = *guests_.back();
    guest.start();
    guest.connect(std::make_unique<SocketCable>(std::move(socket)));
    const auto initialized = [&] { return guest.query_port().state >= 2; };
    if (!run_until(initialized)) {
        throw std::runtime_error("a link does not come up");
    }
}

void LiveSubnet::settle() {
    bool moved = true;
    while (moved) {
        moved = false;
        for (const auto& guest : guests_) {
            moved |= turn(*guest);
        }
    }
}

bool LiveSubnet::run_until(const std::function<bool()>& done, uint64_t) {
    return eventually([&] {
        settle();
        return done();
    });
}

}  // namespace pib::test
