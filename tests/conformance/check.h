// SPDX-License-Identifier: GPL-2.0-or-later
// Checks as tables. Each row has its number in docs/conformance.md, the clause of IBA volume 1, a
// sentence, the stimulus, and everything that is observed afterwards.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace pib::conformance {

class Trial;

struct Check {
    std::string_view number;
    std::string_view clause;
    std::string_view sentence;
    void (*stimulus)(Trial&);
    std::string_view seen;             // the answer of Trial::seen()
    std::string_view difference = {};  // reason why `seen` differs from IBA; empty: it does not
};

struct CheckTable {
    std::string_view title;
    void (*prepare)(Trial&);  // runs before the stimulus of each row
    std::span<const Check> checks;
};

// All tables, in the order of the document.
const std::vector<CheckTable>& all_tables();

}  // namespace pib::conformance
