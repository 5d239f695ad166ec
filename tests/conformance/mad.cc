// SPDX-License-Identifier: GPL-2.0-or-later
#include "mad.h"

#include <algorithm>

#include "stranger.h"

namespace pib::conformance {
namespace {

constexpr size_t kInitialPath = 128;
constexpr uint16_t kPermissiveLid = 0xffff;

}  // namespace

Bytes write(const Mad& mad) {
    const bool directed = mad.mad_class == MadClass::kSubnDirected;
    Bytes out = {mad.base_version, static_cast<uint8_t>(mad.mad_class), mad.class_version,
                 static_cast<uint8_t>(mad.method)};
    put(out, mad.status, 2);
    out.push_back(directed ? mad.hop_pointer : uint8_t{0});
    out.push_back(directed ? mad.hop_count : uint8_t{0});
    put(out, mad.transaction, 8);
    put(out, mad.attribute, 2);
    put(out, 0, 2);
    put(out, mad.modifier, 4);
    put(out, mad.m_key, 8);
    put(out, directed ? mad.dr_slid : 0, 2);
    put(out, directed ? mad.dr_dlid : 0, 2);
    out.resize(kSmpData);
    out.insert(out.end(), mad.data.begin(), mad.data.end());
    out.resize(kMadBytes);
    if (directed) {
        out[kInitialPath + 1] = 1;
    }
    return out;
}

Packet smp_packet(const Mad& mad) {
    return {.vl = 15,
            .dlid = kPermissiveLid,
            .slid = kPermissiveLid,
            .opcode = kUd | kSendOnly,
            .ack = false,
            .payload = write(mad)};
}

Packet gmp_packet(const Mad& mad, uint16_t slid, uint16_t dlid) {
    return {.dlid = dlid,
            .slid = slid,
            .opcode = kUd | kSendOnly,
            .dest_qp = 1,
            .ack = false,
            .qkey = kGsiQKey,
            .source_qp = 1,
            .payload = write(mad)};
}

}  // namespace pib::conformance
