// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/capture_filter.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/control_fields.h"
#include "ib/wire/packet.h"

namespace pib::fabric {
namespace {

using nlohmann::json;

constexpr uint32_t kMostQp = 0xFFFFFF;

std::expected<void, std::string> set_member(CaptureRule& rule, const std::string& name,
                                            const json& value) {
    const bool lid = name == "slid" || name == "dlid";
    const bool qp = name == "qp" || name == "source_qp";
    if (!lid && !qp) {
        return std::unexpected("a rule has slid, dlid, qp or source_qp, not " + name);
    }
    const unsigned number = control_number(value);
    if (number > (lid ? UINT16_MAX : kMostQp)) {
        return std::unexpected(name + (lid ? " is 0 to 65535" : " is 0 to 16777215"));
    }
    if (lid) {
        (name == "slid" ? rule.slid : rule.dlid) = static_cast<uint16_t>(number);
    } else {
        (name == "qp" ? rule.qp : rule.source_qp) = number;
    }
    return {};
}

std::expected<CaptureRule, std::string> rule_from(const json& members) {
    CaptureRule rule;
    if (!members.is_object() || members.empty()) {
        return std::unexpected("a rule is an object with slid, dlid, qp or source_qp");
    }
    for (const auto& [name, value] : members.items()) {
        if (const auto set = set_member(rule, name, value); !set) {
            return std::unexpected(set.error());
        }
    }
    return rule;
}

bool matches_transport(const CaptureRule& rule, std::span<const uint8_t> packet) {
    const auto view = ib::PacketView::parse(packet, ib::Crcs::kElided);
    if (!view || (rule.qp && view->bth().dest_qp.value() != *rule.qp)) {
        return false;
    }
    const auto deth = view->deth();
    return !rule.source_qp || (deth && deth->src_qp.value() == *rule.source_qp);
}

bool matches(const CaptureRule& rule, const ib::Lrh& lrh, std::span<const uint8_t> packet) {
    if ((rule.slid && lrh.slid.value() != *rule.slid) ||
        (rule.dlid && lrh.dlid.value() != *rule.dlid)) {
        return false;
    }
    return (!rule.qp && !rule.source_qp) || matches_transport(rule, packet);
}

}  // namespace

std::expected<CaptureFilter, std::string> CaptureFilter::from(const json& rules) {
    CaptureFilter filter;
    if (!rules.is_array() || rules.size() > kMostRules) {
        return std::unexpected("rules are a list of at most " + std::to_string(kMostRules));
    }
    for (const json& members : rules) {
        const auto rule = rule_from(members);
        if (!rule) {
            return std::unexpected(rule.error());
        }
        filter.rules_.push_back(*rule);
    }
    return filter;
}

bool CaptureFilter::takes(std::span<const uint8_t> packet) const {
    if (rules_.empty()) {
        return true;
    }
    const auto lrh = ib::parse_lrh(packet, ib::Crcs::kElided);
    return lrh && std::ranges::any_of(
                      rules_, [&](const CaptureRule& rule) { return matches(rule, *lrh, packet); });
}

}  // namespace pib::fabric
