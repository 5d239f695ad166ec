// SPDX-License-Identifier: GPL-2.0-or-later
#include "fat_tree.h"

namespace pib::test {
namespace {

std::string name(const char* kind, unsigned pod, unsigned number) {
    return kind + std::to_string(pod) + "-" + std::to_string(number);
}

std::string port(unsigned own, const std::string& peer, unsigned peers) {
    return "[" + std::to_string(own) + "] \"" + peer + "\"[" + std::to_string(peers) + "]\n";
}

std::string node(const char* kind, unsigned ports, const std::string& id) {
    return std::string("\n") + kind + " " + std::to_string(ports) + " \"" + id + "\"\n";
}

std::string leaf_with_hosts(const FatTree& tree, unsigned pod, unsigned leaf) {
    const auto id = name("leaf", pod, leaf);
    std::string text = node("Switch", FatTree::kSwitchPorts, id);
    for (unsigned host = 0; host < tree.hosts; ++host) {
        text += port(1 + host, name("host", pod * tree.leaves + leaf, host), 1);
    }
    for (unsigned middle = 0; middle < tree.middles; ++middle) {
        text += port(1 + tree.hosts + middle, name("middle", pod, middle), 1 + leaf);
    }
    for (unsigned host = 0; host < tree.hosts; ++host) {
        text += node("Ca", 1, name("host", pod * tree.leaves + leaf, host));
        text += port(1, id, 1 + host);
    }
    return text;
}

}  // namespace

std::string FatTree::text() const {
    std::string text;
    for (unsigned pod = 0; pod < pods; ++pod) {
        for (unsigned leaf = 0; leaf < leaves; ++leaf) {
            text += leaf_with_hosts(*this, pod, leaf);
        }
        for (unsigned middle = 0; middle < middles; ++middle) {
            text += node("Switch", kSwitchPorts, name("middle", pod, middle));
            for (unsigned link = 0; link < up; ++link) {
                text += port(1 + leaves + link, name("core", 0, middle), 1 + pod * up + link);
            }
        }
    }
    for (unsigned core = 0; core < middles; ++core) {
        text += node("Switch", kSwitchPorts, name("core", 0, core));
    }
    return text;
}

}  // namespace pib::test
