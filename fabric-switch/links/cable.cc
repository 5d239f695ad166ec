// SPDX-License-Identifier: GPL-2.0-or-later
// Cables: queues of packets, credits and training.
#include "links/cable.h"

#include <utility>

#include "ib/link/packet_checksums.h"

namespace pib::fabric {
namespace {

// Maximum number of SMPs in the queue, as in a link endpoint; VL15 has no credits.
constexpr size_t kMaxVl15Queued = 512;

}  // namespace

Cable::Cable(LinkUser& a, LinkUser& b, uint32_t receive_blocks, PacketPool& pool,
             CableScheduler& scheduler)
    : receive_blocks_(receive_blocks),
      pool_(pool),
      scheduler_(scheduler),
      a_(*this, a, b_),
      b_(*this, b, a_) {
    a.attach(a_);
    b.attach(b_);
}

Cable::~Cable() {
    scheduled_ = true;  // keeps a port from scheduling the cable again
    a_.user_.detach();
    b_.user_.detach();
}

void Cable::ready() {
    if (!scheduled_) {
        scheduled_ = true;
        scheduler_.cable_ready(*this);
    }
}

void Cable::run(unsigned packets) {
    if (std::exchange(changed_, false)) {
        train();
    }
    for (End* end : {&a_, &b_}) {
        end->deliver(packets);
        if (std::exchange(end->pump_, false)) {
            end->user_.pump();
        }
    }
    scheduled_ = false;
    const auto busy = [](const End& end) { return end.pump_ || !end.queue_.empty(); };
    if (changed_ || busy(a_) || busy(b_)) {
        ready();
    }
}

// Any change of parameters takes an active link through Down.
void Cable::train() {
    if (std::exchange(up_, false)) {
        a_.drop_queue();
        b_.drop_queue();
        a_.user_.link_down();
        b_.user_.link_down();
    }
    if (const auto active = link::negotiate(a_.parameters_, b_.parameters_)) {
        up_ = true;
        a_.user_.link_up(*active);
        b_.user_.link_up(*active);
    }
}

// ---- one end

bool Cable::End::can_send(unsigned vl, size_t bytes, link::SendCrc crc) const {
    if (!cable_.up_ || bytes > PacketPool::kMaxPacketBytes) {
        return false;
    }
    if (vl >= link::kDataVls) {
        return vl15_queued_ < kMaxVl15Queued;
    }
    const uint32_t blocks =
        crc == link::SendCrc::kGiven ? link::credit_blocks(bytes) : link::packet_blocks(bytes);
    return used_[vl] + blocks <= cable_.receive_blocks_;
}

uint32_t Cable::End::credits(unsigned vl) const {
    return cable_.up_ && vl < link::kDataVls ? cable_.receive_blocks_ - used_[vl] : 0;
}

// Gives room for one packet, and none for offers.
link::BurstRoom Cable::End::begin(const link::BurstRequest& request) {
    if (request.is_offer || !can_send(request.vl, request.longest, request.crc)) {
        return {};
    }
    const bool given = request.crc == link::SendCrc::kGiven;
    const uint32_t blocks =
        given ? link::credit_blocks(request.longest) : link::packet_blocks(request.longest);
    // Within a process, checksums are written only for injected errors.
    pending_ = {.bytes = cable_.pool_.take(request.longest, {}),
                .vl = static_cast<uint8_t>(request.vl),
                .with_crcs = given,
                .blocks = request.vl < link::kDataVls ? blocks : 0};
    return {pending_.bytes.bytes(), 1};
}

void Cable::End::commit(const ib::BurstSize&, const OfferRecord*) {
    if (!pending_.bytes) {
        return;
    }
    if (pending_.vl < link::kDataVls) {
        used_[pending_.vl] += pending_.blocks;
    } else {
        ++vl15_queued_;
    }
    queue_.push(std::exchange(pending_, {}));
    cable_.ready();
}

// A freed buffer is a credit for the peer.
void Cable::End::release(unsigned vl, uint32_t blocks) {
    if (vl < link::kDataVls) {
        peer_.used_[vl] -= blocks;
        peer_.pump_ = true;
        cable_.ready();
    }
}

void Cable::End::set_parameters(const link::Link& parameters) {
    parameters_ = parameters;
    retrain();
}

void Cable::End::retrain() {
    cable_.changed_ = true;
    cable_.ready();
}

void Cable::End::deliver(unsigned packets) {
    for (; packets != 0 && !queue_.empty() && !cable_.changed_; --packets) {
        Packet packet = std::exchange(queue_.front(), {});
        queue_.pop();
        if (packet.vl >= link::kDataVls) {
            --vl15_queued_;
            pump_ = true;
        }
        auto checked =
            link::check_packet(packet.bytes.bytes(), packet.bytes.bytes(),
                               packet.with_crcs ? ib::Crcs::kIcrcAndVcrc : ib::Crcs::kElided,
                               peer_.parameters_.mtu_cap);
        if (checked) {
            (void)peer_.user_.receive(*checked, nullptr);
        } else {
            peer_.release(packet.vl, packet.blocks);
            peer_.user_.receive_fault(checked.error());
        }
    }
}

void Cable::End::drop_queue() {
    for (; !queue_.empty(); queue_.pop()) {
        if (queue_.front().vl < link::kDataVls) {
            used_[queue_.front().vl] -= queue_.front().blocks;
        }
    }
    vl15_queued_ = 0;
}

}  // namespace pib::fabric
