// SPDX-License-Identifier: GPL-2.0-or-later
// Contents of recordings of a device, for pib-replay. The first byte says whether the replay goes
// on after a difference. The target adds the checksums, because a fuzzer would not find right ones.
#include <sstream>
#include <string>

#include "fuzz_target.h"
#include "mini_driver.h"
#include "recording_content.h"
#include "replayer.h"

using namespace pib::hca;

namespace pib::fuzz {

namespace {

class Sink final : public record::Sink {
  public:
    bool write(std::span<const uint8_t> bytes) override {
        file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return true;
    }
    std::string file;
};

// The recording of a device with a queue pair and a link.
Bytes recording(uint8_t first) {
    Sink sink;
    test::FakeHost host;
    Config config;
    config.node_guid = 0x5254000000000001;
    config.port_guids[0] = 0x5254000000000002;
    {
        auto device = Device::create(config, host, {.sink = &sink}).value();
        test::MiniDriver driver(host, *device);
        driver.enable();
        device->links().connected(1, false);
        const uint32_t pd = driver.alloc_pd();
        const test::MiniCq cq = driver.create_cq(driver.create_eq(1).eqn);
        test::QpShape shape;
        shape.pd = pd;
        shape.send_cq = shape.recv_cq = cq.cqn;
        test::MiniQp qp = driver.create_qp(shape);
        test::RcPath path;
        path.av.dlid = 2;
        path.dest_qpn = qp.qpn;
        driver.connect_rc(qp, path);
        test::SendWr wr;
        wr.inline_data.assign(64, 7);
        driver.post_send(qp, wr);
        host.clock_ns += 1'000'000'000;
        device->timer();
        device->links().closed(1);
        device->reset(false);
    }
    const std::string content = test::content_of(sink.file);
    Bytes input{first};
    input.insert(input.end(), content.begin(), content.end());
    return input;
}

}  // namespace

std::vector<Bytes> seeds() {
    return {recording(0), recording(1)};
}

void run(std::span<const uint8_t> input) {
    Input in(input);
    const bool tolerant = (in.byte() & 1) != 0;
    const auto rest = in.rest();
    std::istringstream file(test::recording_of({rest.begin(), rest.end()}));
    replay::Replayer replayer(file, {.tolerant = tolerant});
    if (replayer.open()) {
        (void)replayer.run();
        require(!replayer.device().objects().empty(), "a replayed device can be dumped");
    }
}

}  // namespace pib::fuzz
