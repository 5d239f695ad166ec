// SPDX-License-Identifier: GPL-2.0-or-later
// All objects of a device as JSON, for tools on the host (docs/observability.md). It reads the
// device's own state only, no guest memory.
#pragma once

#include <string>
#include <string_view>

#include "mmio/device_objects.h"

namespace pib::hca {

// Limit of entries for each kind of object; the dump always has the number of all objects.
constexpr uint32_t kDumpedObjects = 4096;

std::string dump_objects(DeviceObjects& objects);
// "now_ns" and "refusals" of the same: a few kilobytes, however many objects there are.
std::string dump_refusals(DeviceObjects& objects);
// One object: "qp", "cq", "srq", "eq", "mr" (by its key) or "port". Empty: there is none.
std::string dump_object(DeviceObjects& objects, std::string_view kind, uint64_t number);

}  // namespace pib::hca
