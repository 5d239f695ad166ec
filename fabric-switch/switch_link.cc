// SPDX-License-Identifier: GPL-2.0-or-later
// Between a link endpoint and a switch port.
#include "switch_link.h"

namespace pib::fabric {
namespace {

link::LinkEndpoint::Buffers buffers_of(const SwitchConfig& config) {
    link::LinkEndpoint::Buffers buffers;
    for (unsigned vl = 0; vl < link::data_vls(config.vl_cap); ++vl) {
        buffers.receive_blocks[vl] = config.receive_blocks;
    }
    return buffers;
}

}  // namespace

SwitchLink::SwitchLink(Switch& sw, Owner& owner)
    : switch_(sw), owner_(owner), endpoint_(buffers_of(sw.config()), *this) {}

std::expected<void, link::LinkFailure> SwitchLink::feed_input(std::size_t bytes) {
    const auto fed = endpoint_.feed_input(bytes);
    if (fed && port_ != nullptr) {
        port_->pump();  // what came in may have been credits
    }
    notify();
    return fed;
}

void SwitchLink::consume_output(std::size_t bytes) {
    endpoint_.consume_output(bytes);
    notified_ = false;
    if (port_ != nullptr) {
        port_->pump();
    }
    notify();
}

void SwitchLink::close() {
    endpoint_.close();
    if (port_ != nullptr) {
        port_->detach();
        port_ = nullptr;
    }
}

void SwitchLink::notify() {
    if (!notified_ && !endpoint_.output().empty()) {
        notified_ = true;
        owner_.link_output_ready();
    }
}

link::HelloAnswer SwitchLink::link_hello(const ib::link::Hello& hello) {
    const auto number = switch_.admit(hello);
    if (!number) {
        return std::unexpected(number.error());
    }
    port_ = &switch_.port(*number);
    port_->attach(*this);
    owner_.link_note("port " + std::to_string(*number) + ": " + hello.node_description +
                     " connected");
    return ib::link::Welcome{.version_minor = ib::link::kVersionMinor,
                             .features = 0,
                             .switch_guid = switch_.config().node_guid,
                             .port_number = *number};
}

void SwitchLink::link_up(const link::ActiveLink& active) {
    port_->link_up(active);
    owner_.link_note("port " + std::to_string(port_number()) + ": link up");
}

void SwitchLink::link_down() {
    port_->link_down();
    owner_.link_note("port " + std::to_string(port_number()) + ": link down");
}

std::span<std::uint8_t> SwitchLink::begin_packet(unsigned vl, std::size_t bytes,
                                                 link::SendCrc crc) {
    return endpoint_.begin_packet(vl, bytes, crc);
}

void SwitchLink::commit_packet() {
    endpoint_.commit_packet();
    notify();
}

bool SwitchLink::can_send(unsigned vl, std::size_t bytes, link::SendCrc crc) const {
    return endpoint_.can_send(vl, bytes, crc);
}

void SwitchLink::release(unsigned vl, std::uint32_t blocks) {
    endpoint_.release(vl, blocks);
    notify();
}

void SwitchLink::set_offer(const ib::link::Link& offer) {
    endpoint_.set_offer(offer);
    notify();
}

void SwitchLink::retrain() {
    endpoint_.retrain();
    notify();
}

}  // namespace pib::fabric
