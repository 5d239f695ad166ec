// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/config_text.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <type_traits>

namespace pib::hca::record {
namespace {

constexpr std::string_view kDescription = "node-description";

// Calls f(name, member) for each number of the configuration except peer_copy, which is false in a
// recorded device.
template <typename AnyConfig, typename F>
void for_each_number(AnyConfig& config, F&& f) {
    f("ports", config.port_count);
    f("vectors", config.vector_count);
    f("node-guid", config.node_guid);
    f("port-guid-1", config.port_guids[0]);
    f("port-guid-2", config.port_guids[1]);
    f("port-guid-3", config.port_guids[2]);
    f("port-guid-4", config.port_guids[3]);
    f("link-width", config.link_width);
    f("link-speed", config.link_speed);
    f("link-speed-ext", config.link_speed_ext);
    f("mtu-cap", config.mtu_cap);
    f("vl-cap", config.vl_cap);
    f("device-memory-pages", config.device_memory_pages);
    f("shadow-doorbells", config.shadow_doorbells);
    f("bursts", config.bursts);
    f("trace-entries", config.trace_entries);
    f("trace-registers", config.trace_kinds.registers);
    f("trace-dma", config.trace_kinds.dma);
    f("trace-interrupts", config.trace_kinds.interrupts);
    f("inject", config.knobs.inject);
    f("poison-wc", config.knobs.poison_wc);
    f("shuffle-srq", config.knobs.shuffle_srq);
    f("warnings", config.knobs.warnings);
    f("qpn-choice", config.knobs.qpn_choice);
    f("number-choice", config.knobs.number_choice);
    f("strict", config.knobs.strict);
    f("adversary-seed", config.knobs.adversary.seed);
    f("adversary-kinds", config.knobs.adversary.kinds);
}

// The largest value that the text may give to a member of this type.
template <typename T>
uint64_t most() {
    if constexpr (std::is_same_v<T, bool>) {
        return 1;
    } else if constexpr (std::is_same_v<T, NumberChoice>) {
        return static_cast<uint64_t>(NumberChoice::kRandom);
    } else if constexpr (std::is_same_v<T, Strictness>) {
        return static_cast<uint64_t>(Strictness::kFatal);
    } else {
        return std::numeric_limits<T>::max();
    }
}

// False: the configuration has no number of this name, or the text is not a value for it.
bool set_number(Config& config, std::string_view name, std::string_view text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
        return false;
    }
    bool found = false;
    for_each_number(config, [&](std::string_view known, auto& member) {
        using T = std::remove_reference_t<decltype(member)>;
        if (known == name && value <= most<T>()) {
            member = static_cast<T>(value);
            found = true;
        }
    });
    return found;
}

// Makes a line of an untrusted file safe for a message on a terminal.
std::string printable(std::string_view line) {
    constexpr size_t kMost = 80;
    std::string text(line.substr(0, kMost));
    std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
}

}  // namespace

std::string config_to_text(const Config& config) {
    std::string text;
    for_each_number(config, [&](std::string_view name, const auto& member) {
        text += std::string(name) + '=' + std::to_string(static_cast<uint64_t>(member)) + '\n';
    });
    std::string description = config.node_description;
    std::ranges::replace(description, '\n', ' ');
    return text + std::string(kDescription) + '=' + description + '\n';
}

std::expected<Config, std::string> config_from_text(std::string_view text) {
    Config config;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        const size_t sign = line.find('=');
        const std::string_view name = line.substr(0, sign);
        const std::string_view value = sign == line.npos ? "" : line.substr(sign + 1);
        if (name == kDescription) {
            config.node_description = value;
        } else if (!set_number(config, name, value)) {
            return std::unexpected("its configuration has \"" + printable(line) +
                                   "\", which this program does not know: take the pib-replay of "
                                   "the version that recorded it");
        }
    }
    return config;
}

}  // namespace pib::hca::record
