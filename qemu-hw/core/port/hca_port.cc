// SPDX-License-Identifier: GPL-2.0-or-later
#include "port/hca_port.h"

namespace pib::hca {

namespace {

// Limits of one run(): looped packets, and the work that they cause besides their own delivery, as
// for a turn of a link (StreamInput).
constexpr unsigned kLoopedPerRun = 64;
constexpr uint64_t kLoopedWork = 128 * 1024;

}  // namespace

HcaPort::HcaPort(const PortContext& context)
    : TransportPort(attributes_, egress_, mads_),
      context_(context),
      link_events_({context_, attributes_, egress_, ingress_, copies_}),
      link_(context.host, context.number, link_events_),
      copies_(context_, link_),
      attributes_(context_, link_),
      waits_(context_.pma_counters()),
      egress_(context_, attributes_, link_, waits_),
      mads_(context_, attributes_, egress_),
      ingress_(context_, attributes_, mads_),
      flaps_(context.host, context.counters.adversary) {}

void HcaPort::link_connected(bool can_share) {
    input_.clear();
    link_.connected(attributes_.hello(can_share), ib::link_parameters(context_.attrs()));
}

void HcaPort::link_rx(std::span<const uint8_t> bytes) {
    input_.receive(bytes, [this](std::span<const uint8_t> step) {
        const uint64_t training = link_.received(step);
        return training + (context_.client != nullptr ? context_.client->take_copied() : 0);
    });
    if (input_.waits()) [[unlikely]] {
        context_.host.wake();  // run() goes on
    }
    attributes_.sync_parameters();
    resume();
}

bool HcaPort::link_poll() {
    const bool more = link_.poll();
    attributes_.sync_parameters();
    resume();
    return more;
}

void HcaPort::link_writable() {
    link_.writable();
    resume();
}

void HcaPort::link_closed() {
    input_.clear();
    link_.closed();
    resume();
}

void HcaPort::resume() {
    mads_.resume();
    if (egress_.resume() && context_.client != nullptr) {
        context_.client->port_ready(context_.number);
    }
}

void HcaPort::deliver_looped() {
    PortLoopback& loopback = egress_.loopback();
    uint64_t work = 0;
    for (unsigned i = 0; i < kLoopedPerRun && work < kLoopedWork && !loopback.empty(); ++i) {
        const auto bytes = loopback.front();
        if (ib::parse_lrh(bytes, ib::Crcs::kElided)) {
            ib::Burst packet(bytes);
            ib::Placement here;
            (void)ingress_.receive(packet, here, true);
        }
        loopback.pop();
        work += context_.client != nullptr ? context_.client->take_copied() : 0;
    }
}

bool HcaPort::run() {
    deliver_looped();
    if (input_.waits()) [[unlikely]] {
        link_rx({});
    } else {
        resume();
    }
    return !egress_.loopback().empty();
}

void HcaPort::timer(uint64_t now_ns) {
    if (egress_.timer(now_ns) && context_.client != nullptr) {
        context_.client->port_ready(context_.number);
    }
    mads_.send_traps(now_ns);
    if (flaps_.take_due(now_ns)) [[unlikely]] {
        link_.retrain(ib::link_parameters(context_.attrs()));
    }
}

void HcaPort::count_waits() {
    if (waits_.waiting() != 0) {
        waits_.note(waits_.waiting(), context_.host.now_ns());
    }
}

void HcaPort::reset(bool cold) {
    if (!cold) {
        count_waits();
    }
    waits_.clear();
    egress_.reset();
    mads_.clear();
    flaps_.reset();
    if (!cold) {
        ib::port_link_down(context_.attrs());
    }
    attributes_.refresh();
    link_.retrain(ib::link_parameters(context_.attrs()));
}

}  // namespace pib::hca
