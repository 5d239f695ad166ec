// SPDX-License-Identifier: GPL-2.0-or-later
// Two pib-switch processes in separate network namespaces, so that the network between them can
// lose packets, or be cut without notice to either.
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "socket_hca.h"
#include "test_fabric.h"

namespace pib::test {
namespace {

using fabric::UniqueFd;

constexpr unsigned kTrunk = 4;  // the trunk's port: the last one of four
constexpr uint64_t kOtherGuid = 0x200;

UniqueFd this_network() {
    return UniqueFd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
}

// An empty network namespace. Its creation needs rights that a test may lack; see exists().
class Network {
  public:
    Network() : home_(this_network()) {
        if (::unshare(CLONE_NEWNET) == 0) {
            own_ = this_network();
            ::setns(home_.get(), CLONE_NEWNET);
        }
    }
    [[nodiscard]] bool exists() const { return static_cast<bool>(own_); }
    // A path that programs of any namespace can use while this Network exists.
    [[nodiscard]] std::string path() const {
        return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(own_.get());
    }
    // Processes that `work` starts run in this namespace.
    template <typename Work>
    void inside(Work work) const {
        REQUIRE(::setns(own_.get(), CLONE_NEWNET) == 0);
        work();
        REQUIRE(::setns(home_.get(), CLONE_NEWNET) == 0);
    }
    void run(const std::string& line) const {
        inside([&] { CHECK(::system(line.c_str()) == 0); });
    }

  private:
    UniqueFd home_, own_;
};

ib::Mad node_info_through_port_1() {
    ib::Mad smp = make_smp(ib::Method::kGet, ib::attr::kNodeInfo, 0);
    smp.set(ib::mad_header::kTransactionId, 1);
    smp.bytes[7] = 2;  // hops: the adapter's port, then port 1 of the switch
    initial_path(smp)[1] = 1;
    initial_path(smp)[2] = 1;
    REQUIRE(ib::smi_send(smp, {ib::NodeType::kChannelAdapter, 1}, 1).action ==
            ib::SmiAction::kPort);
    return smp;
}

// NodeGUID of the answer, 0 while there is none.
uint64_t answered_guid(const LinkRecorder& recorder) {
    for (const Bytes& packet : recorder.packets) {
        const auto view = ib::PacketView::parse(packet, ib::Crcs::kElided);
        ib::Mad mad;
        if (view && view->payload().size() == ib::kMadSize) {
            std::ranges::copy(view->payload(), mad.bytes.begin());
            if (mad.method() == ib::Method::kGetResp) {
                return ib::get(mad.smp_data(), ib::node_info::kNodeGuid);
            }
        }
    }
    return 0;
}

}  // namespace

TEST_CASE("trunk: lost TCP packets delay frames, and a vanished peer is detected") {
    const Network here, there;
    if (!have_program() || !here.exists() || ::system("ip -V >/dev/null 2>&1") != 0) {
        SKIP("PIB_SWITCH is not set, or network namespaces cannot be made");
    }
    there.run("ip link add near type veth peer name far netns " + here.path() +
              " && ip addr add 10.77.0.2/24 dev near && ip link set near up");
    here.run("ip addr add 10.77.0.1/24 dev far && ip link set far up");
    std::optional<Program> one, other;
    here.inside([&] {
        one.emplace(std::vector<std::string>{"--ports", "4", "--guid", "100", "--plain-tcp",
                                             "--listen", "tcp:10.77.0.1:7777"});
    });
    there.inside([&] {
        other.emplace(std::vector<std::string>{"--ports", "4", "--guid", "200", "--plain-tcp",
                                               "--connect", "tcp:10.77.0.1:7777"});
    });
    CHECK(one->reaches(1, "Initialize"));
    CHECK(other->reaches(kTrunk, "Initialize"));

    // All packets are lost for a while: TCP retransmits them, and the links stay up.
    SocketHca hca(one->fabric_path(), 0x1000);
    REQUIRE(hca.until([&] { return hca.end->is_up(); }));
    there.run("ip link set near down");
    REQUIRE(send(*hca.end,
                 smp_packet(node_info_through_port_1(), ib::kPermissiveLid, ib::kPermissiveLid)));
    REQUIRE(hca.until([&] {
        const auto counters = one->ask({{"command", "counters"}, {"port", 1}});
        return counters.at("ports").at(0).at("PortXmitPkts").get<unsigned>() > 0;
    }));
    CHECK(answered_guid(hca.recorder) == 0);
    there.run("ip link set near up");
    CHECK(hca.until([&] { return answered_guid(hca.recorder) == kOtherGuid; }));
    const auto counters = one->ask({{"command", "counters"}, {"port", 1}});
    CHECK(counters.at("ports").at(0).at("LinkDowned") == 0);

    // The other process ends, and the network also loses the end of its TCP connection.
    there.run("ip link set near down");
    other->stop(SIGKILL);
    CHECK(one->reaches(1, "Down"));
    there.run("ip link set near up");
    there.inside([&] { other->start(); });
    CHECK(one->reaches(1, "Initialize"));
    CHECK(other->reaches(kTrunk, "Initialize"));
}

}  // namespace pib::test
