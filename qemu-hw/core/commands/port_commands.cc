// SPDX-License-Identifier: GPL-2.0-or-later
// Commands about ports; the functions of port_operations.h execute them.
#include <algorithm>

#include "commands/command_table.h"
#include "commands/port_operations.h"

namespace pib::hca {

namespace {

template <typename T>
CommandReply reply(const CmdResult<T>& out) {
    return out ? CommandReply::data(*out) : CommandReply(out.error());
}

}  // namespace

CommandReply cmd_query_port(DeviceObjects& objects, const CommandInput& in) {
    return reply(query_port(objects.ports, in.object));
}

CommandReply cmd_query_pkeys(DeviceObjects& objects, const CommandInput& in) {
    return reply(query_pkeys(objects.ports, in.object));
}

CommandReply cmd_query_gids(DeviceObjects& objects, const CommandInput& in) {
    return reply(query_gids(objects.ports, in.object));
}

CommandReply cmd_modify_port(DeviceObjects& objects, const CommandInput& in) {
    return modify_port(objects.ports, in.object, in.as<pib_hca_modify_port>(),
                       objects.host.now_ns());
}

CommandReply cmd_mad_ifc(DeviceObjects& objects, const CommandInput& in) {
    const auto answer =
        mad_ifc(objects.ports, in.object, in.as<pib_hca_mad_ifc>(), objects.host.now_ns());
    if (!answer) {
        return answer.error();
    }
    CommandReply reply;
    reply.result = answer->result;
    if (answer->has_mad()) {
        const auto mad = std::span(answer->mad.bytes);
        std::ranges::copy(mad, reply.bytes.begin());
        reply.out_length = static_cast<uint32_t>(mad.size());
    }
    return reply;
}

}  // namespace pib::hca
