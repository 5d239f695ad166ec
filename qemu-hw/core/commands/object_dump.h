// SPDX-License-Identifier: GPL-2.0-or-later
// All objects of a device as JSON, for tools on the host (docs/observability.md). A dump changes no
// state. It reads only receive queues from guest memory (posted_receives()).
#pragma once

#include <string>
#include <string_view>

#include "mmio/device_objects.h"

namespace pib::hca {

// Limit of entries for each kind of object; the dump always has the number of all objects.
constexpr uint32_t kDumpedObjects = 4096;

std::string dump_objects(DeviceObjects& objects);
// The members "now_ns" and "refusals" of dump_objects(): a few kilobytes, with any number of
// objects.
std::string dump_refusals(DeviceObjects& objects);
// One object of a kind: "qp", "cq", "srq", "eq", "mr" (`number`: its key) or "port". Empty: there
// is no such object.
std::string dump_object(DeviceObjects& objects, std::string_view kind, uint64_t number);

}  // namespace pib::hca
