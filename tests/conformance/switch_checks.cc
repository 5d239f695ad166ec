// SPDX-License-Identifier: GPL-2.0-or-later
// The switch's end of the link protocol, and its agents. Strangers are the adapters at its ports.
#include <algorithm>
#include <memory>

#include "links/switch_endpoint.h"
#include "switch/switch.h"
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

constexpr uint64_t kSwitchGuid = 0x0650000000000001;
constexpr uint64_t kFirstGuid = 0x0650000000001001;
constexpr size_t kLinkBytes = 64 * 1024;

// A stranger at a port of the switch.
class Adapter final : public fabric::LinkOwner {
  public:
    explicit Adapter(fabric::Admission& admission)
        : link_(std::make_unique<fabric::SwitchEndpoint>(admission, *this)) {}

    // Carries frames both ways once; false when there were none.
    bool carry() {
        Bytes out = stranger.take_output();
        bool moved = !out.empty();
        for (ByteSpan rest(out); link_ && !rest.empty();) {
            const auto space = link_->input_space();
            const size_t n = std::min({rest.size(), space.size(), kLinkBytes});
            std::copy_n(rest.begin(), n, space.begin());
            rest = rest.subspan(n);
            if (!link_->feed_input(n)) {
                take();  // the link may have sent REFUSE before it ended
                link_.reset();
            }
        }
        moved = take() || moved;
        return moved;
    }
    bool is_open() const { return link_ != nullptr; }

    Stranger stranger;

  private:
    void link_output_ready() override {}
    void link_note(const std::string& /*text*/) override {}
    bool take() {
        if (!link_ || link_->output().empty()) {
            return false;
        }
        const Bytes bytes(link_->output().begin(), link_->output().end());
        link_->consume_output(bytes.size());
        stranger.receive(bytes);
        return true;
    }

    std::unique_ptr<fabric::SwitchEndpoint> link_;
};

class Bench {
  public:
    explicit Bench(uint8_t ports = 4) : switch_(config(ports)) { switch_.advance(kNow); }

    Adapter& plug() {
        return *adapters_.emplace_back(std::make_unique<Adapter>(switch_.admission()));
    }
    // Connects an adapter, and brings its link up.
    Adapter& join() {
        Adapter& adapter = plug();
        adapter.stranger.send_hello(kFirstGuid + 16 * adapters_.size());
        settle();
        return adapter;
    }
    void settle() {
        for (bool moved = true; moved;) {
            moved = false;
            switch_.advance(kNow);
            for (const auto& adapter : adapters_) {
                moved = adapter->carry() || moved;
            }
        }
    }

  private:
    static constexpr uint64_t kNow = 1'000'000;
    static fabric::SwitchConfig config(uint8_t ports) {
        fabric::SwitchConfig config;
        config.node_guid = ib::Guid(kSwitchGuid);
        config.num_ports = ports;
        return config;
    }

    fabric::Switch switch_;
    std::vector<std::unique_ptr<Adapter>> adapters_;
};

void note_frames(Trial& t, Adapter& adapter) {
    std::string text = adapter.is_open() ? "open" : "closed";
    for (const Frame& frame : adapter.stranger.take_frames()) {
        const bool refuse = frame.type == static_cast<uint8_t>(FrameType::kRefuse);
        text += refuse ? ", REFUSE " + std::to_string(number_at(frame.body, 0, 2))
                       : ", frame " + std::to_string(frame.type);
    }
    t.note(text);
}

// Sends a changed HELLO to a switch with free ports. The stranger sends no LINK.
void hello(Trial& t, const std::function<void(Frame&)>& change) {
    Bench bench;
    Adapter& adapter = bench.plug();
    adapter.stranger.answers = false;
    adapter.stranger.send_hello(kFirstGuid);
    const Bytes bytes = adapter.stranger.take_output();
    Frame frame{.type = bytes[0], .flags = 0, .body = {bytes.begin() + 8, bytes.end()}};
    change(frame);
    adapter.stranger.send(frame);
    bench.settle();
    note_frames(t, adapter);
}

// Sends a frame on a link that is up, and notes whether the link stays open.
void behind(Trial& t, const Frame& wrong) {
    Bench bench;
    Adapter& adapter = bench.join();
    adapter.stranger.take_frames();
    adapter.stranger.send(wrong);
    bench.settle();
    t.note(adapter.is_open() ? "open" : "closed");
}

// Sends a MAD, and notes the status of its answer.
void asks(Trial& t, const Mad& mad, const Trial::Change& change = {}) {
    Bench bench;
    Adapter& adapter = bench.join();
    Packet packet = smp_packet(mad);
    if (change) {
        change(packet);
    }
    adapter.stranger.send(packet);
    bench.settle();
    const auto answers = adapter.stranger.take_packets();
    t.note(answers.empty() ? "no answer"
                           : "status " + std::to_string(number_at(answers[0].payload, 4, 2)));
}

// A MAD to the switch itself, which is one hop away.
Mad at_switch(uint16_t which, uint32_t modifier = 0) {
    return {.hop_pointer = 1, .hop_count = 1, .attribute = which, .modifier = modifier};
}

constexpr Check kChecks[] = {
    {"K01", "link: Handshake", "HELLO is answered by WELCOME, LINK and CREDITs for eight VLs.",
     [](Trial& t) {
         Bench bench;
         Adapter& adapter = bench.join();
         const auto frames = adapter.stranger.take_frames();
         const auto credits = std::ranges::count(frames, uint8_t{5}, &Frame::type);
         t.note("frames " + std::to_string(frames[0].type) + " and " +
                std::to_string(frames[1].type) + ", " + std::to_string(credits) + " CREDITs");
     },
     "frames 2 and 4, 8 CREDITs"},
    {"K02", "link: Handshake", "WELCOME has version 1, the switch's GUID and its port.",
     [](Trial& t) {
         Bench bench;
         const Frame frame = bench.join().stranger.take_frames()[0];
         const ByteSpan body(frame.body);
         t.note(body.size() == 32 && number_at(body, 0, 2) == 1 && number_at(body, 4, 4) == 0 &&
                        number_at(body, 8, 8) == kSwitchGuid && body[16] == 1
                    ? "right WELCOME"
                    : "wrong WELCOME");
     },
     "right WELCOME"},
    {"K03", "link: Handshake", "HELLO with another magic is refused as malformed.",
     [](Trial& t) { hello(t, [](Frame& f) { f.body[0] = 'Q'; }); }, "closed, REFUSE 4"},
    {"K04", "link: Handshake", "HELLO of another major version is refused.",
     [](Trial& t) { hello(t, [](Frame& f) { f.body[5] = 2; }); }, "closed, REFUSE 1"},
    {"K05", "link: Handshake", "HELLO that is a byte short is refused as malformed.",
     [](Trial& t) { hello(t, [](Frame& f) { f.body.pop_back(); }); }, "closed, REFUSE 4"},
    {"K06", "link: Handshake", "HELLO of role 3 is refused as malformed.",
     [](Trial& t) { hello(t, [](Frame& f) { f.body[12] = 3; }); }, "closed, REFUSE 4"},
    {"K07", "link: Handshake", "HELLO of port 0 is refused as malformed.",
     [](Trial& t) { hello(t, [](Frame& f) { f.body[13] = 0; }); }, "closed, REFUSE 4"},
    {"K08", "link: Handshake", "HELLO of port 255 is refused as malformed.",
     [](Trial& t) { hello(t, [](Frame& f) { f.body[13] = 255; }); }, "closed, REFUSE 4"},
    {"K09", "link: Handshake", "HELLO of node GUID 0 is refused as malformed.",
     [](Trial& t) { hello(t, [](Frame& f) { std::fill_n(f.body.begin() + 16, 8, uint8_t{0}); }); },
     "closed, REFUSE 4"},
    {"K10", "link: Handshake", "HELLO of port GUID 0 is refused as malformed.",
     [](Trial& t) { hello(t, [](Frame& f) { std::fill_n(f.body.begin() + 24, 8, uint8_t{0}); }); },
     "closed, REFUSE 4"},
    {"K11", "link: Handshake", "HELLO with reserved bytes is refused as malformed.",
     [](Trial& t) { hello(t, [](Frame& f) { f.body[111] = 1; }); }, "closed, REFUSE 4"},
    {"K12", "link: Handshake", "LINK in place of HELLO ends the connection without REFUSE.",
     [](Trial& t) { hello(t, [](Frame& f) { f = {.type = 4, .body = Bytes(12)}; }); }, "closed"},
    {"K13", "link: Handshake", "A flag of HELLO's header ends the connection without REFUSE.",
     [](Trial& t) { hello(t, [](Frame& f) { f.flags = 1; }); }, "closed"},
    {"K14", "link: Handshake", "Features that do not exist are ignored.",
     [](Trial& t) { hello(t, [](Frame& f) { f.body[8] = 0x80; }); }, "open, frame 2, frame 4"},
    {"K15", "link: Handshake", "A second connection with the same port GUID is refused.",
     [](Trial& t) {
         Bench bench;
         Adapter& first = bench.plug();
         Adapter& second = bench.plug();
         first.stranger.send_hello(kFirstGuid);
         bench.settle();
         second.stranger.send_hello(kFirstGuid);
         bench.settle();
         note_frames(t, second);
     },
     "closed, REFUSE 2"},
    {"K16", "link: Handshake", "A connection is refused where no port is free.",
     [](Trial& t) {
         Bench bench(1);
         bench.join();
         note_frames(t, bench.join());
     },
     "closed, REFUSE 3"},
    {"K17", "link: Handshake", "A second HELLO ends the connection.",
     [](Trial& t) { behind(t, {.type = 1, .body = Bytes(112)}); }, "closed"},
    {"K18", "link: Transport", "An unknown type of frame ends the connection.",
     [](Trial& t) { behind(t, {.type = 77}); }, "closed"},
    {"K19", "link: Link state", "LINK with the epoch of the one before ends the connection.",
     [](Trial& t) { behind(t, {.type = 4, .body = {1, 3, 7, 1, 5, 4, 0, 1, 0, 0, 0, 0}}); },
     "closed"},
    {"K20", "link: Link state", "LINK with another epoch does not.",
     [](Trial& t) { behind(t, {.type = 4, .body = {1, 3, 7, 1, 5, 4, 0, 2, 0, 0, 0, 0}}); },
     "open"},
    {"K21", "link: Credits", "CREDIT for VL15 ends the connection.",
     [](Trial& t) { behind(t, {.type = 5, .body = {15, 0, 0, 1, 0, 0, 0, 9}}); }, "closed"},
    {"K22", "link: Packets", "PACKET of 7 bytes ends the connection.",
     [](Trial& t) { behind(t, {.type = 6, .body = Bytes(7)}); }, "closed"},
    {"K23", "link: Packets", "PACKET of 8 bytes is not a packet and is dropped.",
     [](Trial& t) { behind(t, {.type = 6, .body = Bytes(8)}); }, "open"},
    {"K24", "14.2.5.3", "The switch answers Get(NodeInfo) by directed route.",
     [](Trial& t) { asks(t, at_switch(attribute::kNodeInfo)); }, "status 32768"},
    {"K25", "14.2.5.4", "The switch answers Get(SwitchInfo).",
     [](Trial& t) { asks(t, at_switch(0x0012)); }, "status 32768"},
    {"K26", "14.2.5.6", "The switch answers Get(PortInfo) of its port 0.",
     [](Trial& t) { asks(t, at_switch(attribute::kPortInfo, 0)); }, "status 32768"},
    {"K27", "14.2.5.6", "Get(PortInfo) of a port that the switch does not have has status 7.",
     [](Trial& t) { asks(t, at_switch(attribute::kPortInfo, 200)); }, "status 32796"},
    {"K28", "14.2.5.10", "The switch answers Get(LinearForwardingTable).",
     [](Trial& t) { asks(t, at_switch(0x0019)); }, "status 32768"},
    {"K29", "13.4.7", "Get of an unknown attribute is not supported.",
     [](Trial& t) { asks(t, at_switch(0x7777)); }, "status 32780"},
    {"K30", "14.2.2.2", "A directed route by a port that does not exist is dropped.",
     [](Trial& t) {
         asks(t, {.hop_pointer = 1, .hop_count = 2, .attribute = attribute::kNodeInfo});
     },
     "no answer"},
    {"K31", "7.8.2", "An SMP whose VCRC is wrong is dropped.",
     [](Trial& t) {
         Bench bench;
         Adapter& adapter = bench.join();
         Bytes bytes = write(smp_packet(at_switch(attribute::kNodeInfo)));
         bytes.back() ^= 1;
         adapter.stranger.send_packet(bytes);
         bench.settle();
         t.note(adapter.stranger.take_packets().empty() ? "no answer" : "answered");
     },
     "no answer"},
    {"K32", "14.2.2", "A directed route leads through the switch to the second adapter.",
     [](Trial& t) {
         Bench bench;
         Adapter& first = bench.join();
         Adapter& second = bench.join();
         Packet packet =
             smp_packet({.hop_pointer = 1, .hop_count = 2, .attribute = attribute::kNodeInfo});
         packet.payload[128 + 2] = 2;
         first.stranger.send(packet);
         bench.settle();
         const auto got = second.stranger.take_packets();
         t.note(got.size() == 1 ? "hop pointer " + std::to_string(got[0].payload[6]) : "no packet");
     },
     "hop pointer 2"},
    {"K33", "7.2.7", "In Initialize the switch forwards no data packet.",
     [](Trial& t) {
         Bench bench;
         Adapter& first = bench.join();
         Adapter& second = bench.join();
         first.stranger.send(Packet{.dlid = 2, .slid = 1, .dest_qp = 5, .payload = Bytes(8)});
         bench.settle();
         t.note(second.stranger.take_packets().empty() ? "dropped" : "forwarded");
     },
     "dropped"},
};

}  // namespace

CheckTable switch_checks() {
    return {"The switch's end of a link", nullptr, kChecks};
}

}  // namespace pib::conformance
