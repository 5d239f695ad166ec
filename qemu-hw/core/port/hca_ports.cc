// SPDX-License-Identifier: GPL-2.0-or-later
#include "port/hca_ports.h"

#include <algorithm>

#include "port/hca_port.h"
#include "port/pma_answer.h"

namespace pib::hca {

HcaPorts::HcaPorts(const Config& config, Host& host, EqTable& eqs, Counters& counters,
                   PeerCopy* peer_copy)
    : sma_(config), pma_(config.port_count) {
    for (unsigned number = 1; number <= config.port_count; ++number) {
        ports_.push_back(std::make_unique<HcaPort>(PortContext{.host = host,
                                                               .ports = *this,
                                                               .eqs = eqs,
                                                               .counters = counters,
                                                               .sma = sma_,
                                                               .pma = pma_,
                                                               .peer_copy = peer_copy,
                                                               .number = number}));
        views_.push_back(ports_.back().get());
    }
}

HcaPorts::~HcaPorts() = default;

void HcaPorts::set_client(PortClient& client) {
    for (auto& port : ports_) {
        port->set_client(client);
    }
}

HcaPort* HcaPorts::find(uint32_t number) {
    return number - 1 < ports_.size() ? ports_[number - 1].get() : nullptr;
}

bool HcaPorts::run() {
    bool more = false;
    for (auto& port : ports_) {
        more |= port->run();
    }
    return more;
}

void HcaPorts::timer(uint64_t now_ns) {
    count_waits(*this);
    pma_.advance(now_ns);
    for (auto& port : ports_) {
        port->timer(now_ns);
    }
}

uint64_t HcaPorts::next_deadline() const {
    uint64_t deadline = pma_.next_deadline();
    for (const auto& port : ports_) {
        deadline = std::min(deadline, port->next_deadline());
    }
    return deadline;
}

void HcaPorts::flush() {
    for (auto& port : ports_) {
        port->flush();
    }
}

void HcaPorts::reset(bool cold) {
    sma_.reset(cold);
    if (cold) {
        pma_.reset();
    }
    for (auto& port : ports_) {
        port->reset(cold);
    }
}

}  // namespace pib::hca
