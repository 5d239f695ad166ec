// SPDX-License-Identifier: GPL-2.0-or-later
// A link as its switch port sees it: packets, credits and the link's state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "links/link_attachment.h"
#include "switch/neighbour.h"

namespace pib::fabric {

// Tells the owner of a connection that there is output for the peer. Tells it again only after the
// output was taken.
class OutputNotice {
  public:
    // Both outlive the notice.
    OutputNotice(link::LinkEndpoint& endpoint, LinkOwner& owner)
        : endpoint_(endpoint), owner_(owner) {}

    void give() {
        if (!given_ && (!endpoint_.output().empty() || endpoint_.channel().unpublished() != 0 ||
                        endpoint_.channel().wants_room())) {
            given_ = true;
            owner_.link_output_ready();
        }
    }
    void output_taken() { given_ = false; }

  private:
    link::LinkEndpoint& endpoint_;
    LinkOwner& owner_;
    bool given_ = false;
};

class PortLink final : public Neighbour {
  public:
    // All of them outlive the link.
    PortLink(link::LinkEndpoint& endpoint, LinkAttachment& attachment, OutputNotice& notice)
        : endpoint_(endpoint), attachment_(attachment), notice_(notice) {}

    link::BurstRoom begin(const link::BurstRequest& request) override;
    void commit(const ib::BurstSize& size, const OfferRecord* offer) override;
    [[nodiscard]] const CopyCounts* copies() const override;
    [[nodiscard]] bool can_send(unsigned vl, size_t bytes, link::SendCrc crc) const override;
    [[nodiscard]] uint32_t credits(unsigned vl) const override;
    [[nodiscard]] uint32_t granted(unsigned vl) const override;
    void release(unsigned vl, uint32_t blocks) override;
    void set_parameters(const link::Link& parameters) override;
    void retrain() override;

  private:
    link::LinkEndpoint& endpoint_;
    LinkAttachment& attachment_;
    OutputNotice& notice_;
};

}  // namespace pib::fabric
