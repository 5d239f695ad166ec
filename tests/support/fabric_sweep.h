// SPDX-License-Identifier: GPL-2.0-or-later
// Finds the nodes of a TopologyNet as a subnet manager does: by directed routes, each node once,
// through all ports that are up.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "topology_net.h"

namespace pib::test {

class FabricSweep {
  public:
    using Path = std::vector<uint8_t>;
    struct Found {
        Path path;
        uint8_t switch_ports = 0;  // 0: a channel adapter
    };

    // `own`: the first adapter of the net, which sends the requests.
    FabricSweep(TopologyNet& net, FakeHca& own) : net_(net), own_(own) {}

    void run();
    // Sends a request along `path` and returns the answer, whose status has to be 0.
    ib::Mad ask(ib::Method method, uint16_t attribute, uint32_t modifier, const Path& path,
                std::span<const uint8_t> data = {});

    std::map<uint64_t, Found> nodes;  // by GUID
    unsigned ends_up = 0;             // ports of switches whose link is up
    unsigned asked = 0;

  private:
    void visit(const Path& path);
    void look_through_ports(const Found& found);

    TopologyNet& net_;
    FakeHca& own_;
    std::deque<Found> unseen_;
};

}  // namespace pib::test
