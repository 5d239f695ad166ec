// SPDX-License-Identifier: GPL-2.0-or-later
// An adapter's and a switch's end of a link with peer copy. The test answers pulls in place of the
// switch's copier.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <new>

#include "burst_message.h"
#include "ib/link/peer_copy_control.h"
#include "shared_memory.h"

namespace pib::test {

using link::BlockSegment;
using link::PeerCopyControl;
using link::PullResult;

inline constexpr uint32_t kAll =
    link::kFeatureSharedMemory | link::kFeatureBursts | link::kFeaturePeerCopy;
inline constexpr uint64_t kBlock = 8 << 20;
inline constexpr uint32_t kPackets = 100;
inline constexpr uint32_t kPayload = kPackets * kMtu;

// Memory that an adapter and its switch share besides the rings.
class ControlMemory {
  public:
    ControlMemory() : bytes_(link::peer_copy_bytes(blocks) / sizeof(Line) + 1) {
        new (bytes_.data()) PeerCopyControl{};
    }
    [[nodiscard]] uint8_t* data() { return reinterpret_cast<uint8_t*>(bytes_.data()); }
    [[nodiscard]] PeerCopyControl& control() { return *std::launder(as<PeerCopyControl>()); }
    [[nodiscard]] uint8_t* bounce() { return data() + link::kBounceOffset; }

    const std::vector<uint64_t> blocks{kBlock};

  private:
    struct alignas(64) Line {
        uint8_t bytes[64];
    };
    template <typename T>
    T* as() {
        return reinterpret_cast<T*>(bytes_.data());
    }
    std::vector<Line> bytes_;
};

struct AdapterEvents : LinkRecorder {
    std::optional<link::LinkRings> rings;
    std::vector<BlockSegment> place;  // destination of offers; empty: they are refused
    bool stays = true;                // the destination still exists when the payload comes
    unsigned asked = 0, placed = 0, refused = 0;

    std::optional<link::LinkRings> link_rings() override { return rings; }
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override {
        if (payload.is_here()) {
            return LinkRecorder::link_burst(burst, payload);
        }
        if (payload.is_offered()) {
            ++asked;
            payload.where = place;
            return place.empty() ? 0 : burst.count();
        }
        CHECK(payload.where == place);
        if (stays) {
            ++placed;
            endpoint->release(0, link::burst_blocks(burst));
        }
        return stays ? burst.count() : 0;
    }
    void link_copy_refused() override { ++refused; }
};

struct SwitchEvents : LinkRecorder {
    std::optional<link::LinkRings> rings;
    Bytes room = Bytes(link::kOfferRoom);
    bool mappable = true, takes = true, lives = true;
    bool keeps = false;        // offers keep their receive buffer
    std::string pull_refusal;  // result of link_pull(); empty: it takes the pull
    std::string refusal;       // result of link_memory(); empty: it takes the memory
    std::vector<link::Memory> memories;
    std::vector<link::Offer> offers;
    std::vector<link::Pull> pulls;

    std::optional<link::LinkRings> link_rings() override { return rings; }
    std::expected<std::span<uint8_t>, std::string> link_memory(
        const link::Memory& memory) override {
        if (!refusal.empty()) {
            return std::unexpected(refusal);
        }
        memories.push_back(memory);
        return mappable ? std::span(room) : std::span<uint8_t>{};
    }
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override {
        if (!payload.is_offered()) {
            return LinkRecorder::link_burst(burst, payload);
        }
        offers.push_back(*payload.offer);
        if (takes && !keeps) {
            endpoint->release(0, link::burst_blocks(burst));
        }
        return takes ? burst.count() : 0;
    }
    bool link_copy_offer(const link::Offer& from, std::span<uint8_t> to) override {
        for (size_t i = 0; i < to.size(); ++i) {
            to[i] = static_cast<uint8_t>(i / kMtu);
        }
        return lives && from.bytes == to.size();
    }
    std::expected<void, std::string> link_pull(const link::Pull& pull) override {
        if (!pull_refusal.empty()) {
            return std::unexpected(pull_refusal);
        }
        pulls.push_back(pull);
        return {};
    }
};

struct PeerCopyPair {
    link::SharedMemory memory = link::SharedMemory::create(20).value();
    ControlMemory shown;
    AdapterEvents hca_events;
    SwitchEvents switch_events;
    link::LinkEndpoint hca, sw;
    uint64_t next_handle = 1;
    std::string error;

    explicit PeerCopyPair(uint32_t granted = kAll)
        : hca(hello(), make_buffers(), hca_events), sw(make_buffers(), switch_events) {
        hca_events.endpoint = &hca;
        switch_events.endpoint = &sw;
        hca_events.rings = {.out = memory.ring(0), .in = memory.ring(1)};
        switch_events.rings = {.out = memory.ring(1), .in = memory.ring(0)};
        switch_events.answer = link::Welcome{.features = granted, .port_number = 1};
        hca.training().set_parameters(make_parameters());
        sw.training().set_parameters(make_parameters());
        stream(hca, sw);
        stream(sw, hca);
        turns();
        REQUIRE(hca.is_up());
    }
    static link::Hello hello() {
        auto hello = make_hello(0x100);
        hello.features = kAll;
        return hello;
    }
    void note(const std::expected<bool, link::LinkFailure>& did) {
        if (!did) {
            error = did.error().text;
        }
    }
    void stream(link::LinkEndpoint& from, link::LinkEndpoint& to) {
        const Bytes bytes(from.output().begin(), from.output().end());
        from.consume_output(bytes.size());
        if (const auto fed = feed(to, bytes); !fed) {
            error = fed.error().text;
        }
    }
    void turn(link::LinkEndpoint& end) {
        note(end.receive(SIZE_MAX));
        (void)end.channel().publish();
    }
    void turns() {
        for (unsigned i = 0; i < 4; ++i) {
            turn(hca);
            turn(sw);
        }
    }
    // Shares the adapter's memory, and sets `mapped` in the control memory for the switch.
    void share() {
        hca.peer_copy().share(shown.data(), shown.blocks);
        stream(hca, sw);
        shown.control().mapped = switch_events.mappable ? link::kMapped : link::kNotMapped;
    }
    // Offers the payload of WRITE MIDDLE packets. False: there is no room or no credit.
    bool offer(link::LinkEndpoint& from, std::span<const BlockSegment> segments,
               uint32_t packets = kPackets) {
        if (!send_offer(from, next_handle, segments, packets)) {
            return false;
        }
        ++next_handle;
        return true;
    }
    // Sends an offer to the adapter and returns the PULL with which the adapter responds.
    const link::Pull& asked() {
        REQUIRE(offer(sw, {}));
        return again();
    }
    const link::Pull& again() {
        (void)sw.channel().publish();
        turn(hca);
        turn(sw);
        REQUIRE(!switch_events.pulls.empty());
        return switch_events.pulls.back();
    }
    void answer(PullResult result) {
        shown.control().answer = link::pull_answer(switch_events.pulls.back().sequence, result);
        turn(hca);
    }
    uint64_t finished() { return shown.control().finished; }
};

inline const std::vector<BlockSegment> kPlace = {
    {.offset = 4096, .block = 0, .length = 100},
    {.offset = 0, .block = 0, .length = kPayload - 100}};

}  // namespace pib::test
