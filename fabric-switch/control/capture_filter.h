// SPDX-License-Identifier: GPL-2.0-or-later
// The packets of a live capture: those that match one of its rules, or all if there is no rule.
#pragma once

#include <cstdint>
#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pib::fabric {

// A packet matches a rule if it matches each member that is set.
struct CaptureRule {
    std::optional<uint16_t> slid, dlid;
    std::optional<uint32_t> qp;         // BTH:DestQP
    std::optional<uint32_t> source_qp;  // DETH: datagrams only
};

class CaptureFilter {
  public:
    static constexpr size_t kMostRules = 256;

    // From a JSON array of objects with the members of CaptureRule. The error is one line for a
    // user.
    [[nodiscard]] static std::expected<CaptureFilter, std::string> from(
        const nlohmann::json& rules);
    // Whether the capture includes `packet`, LRH to padding.
    [[nodiscard]] bool takes(std::span<const uint8_t> packet) const;

  private:
    std::vector<CaptureRule> rules_;
};

}  // namespace pib::fabric
