// SPDX-License-Identifier: GPL-2.0-or-later
// A fat tree of three levels as a topology file: each leaf of a pod has a link to each middle
// switch of the pod. Middle switch N of each pod has `up` links to core switch N.
#pragma once

#include <string>

namespace pib::test {

struct FatTree {
    static constexpr unsigned kSwitchPorts = 36;

    unsigned pods, leaves, hosts, middles, up;

    [[nodiscard]] constexpr unsigned all_hosts() const { return pods * leaves * hosts; }
    [[nodiscard]] constexpr unsigned all_switches() const {
        return pods * (leaves + middles) + middles;
    }
    [[nodiscard]] constexpr unsigned all_links() const {
        return all_hosts() + pods * leaves * middles + pods * middles * up;
    }
    [[nodiscard]] std::string text() const;
};

}  // namespace pib::test
