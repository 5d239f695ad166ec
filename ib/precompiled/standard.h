// SPDX-License-Identifier: GPL-2.0-or-later
// Headers of the standard library that most files include. With the
// option precompiled the compiler reads them once for each library. A file
// still includes what it uses, because other builds do not see this header.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>
