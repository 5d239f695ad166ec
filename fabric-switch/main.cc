// SPDX-License-Identifier: GPL-2.0-or-later
// pib-switch: an InfiniBand switch for virtual machines, and the command that talks to it.
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include "base/guid_text.h"
#include "confinement.h"
#include "control/control_commands.h"
#include "control/ctl.h"
#include "fabric_server.h"
#include "options.h"
#include "page_program.h"

namespace {

using namespace pib;
using namespace pib::fabric;

// Derives the GUID from the addresses of --listen, so that the subnet manager sees a restarted
// switch as the same node. topology.cc explains why the GUID begins with 0x06.
ib::Guid default_guid(const std::vector<std::string>& listen) {
    uint64_t hash = 0xCBF29CE484222325;
    for (const std::string& address : listen) {
        for (const char c : address) {
            hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
        }
    }
    return ib::Guid(0x0650'4942'0000'0000 | (hash & 0xFFFF'FFFF));
}

std::expected<ib::Guid, std::string> guid_of(const ServeOptions& options) {
    if (options.guid.empty()) {
        return default_guid(options.listen);
    }
    const auto guid = parse_guid(options.guid);
    if (!guid) {
        return std::unexpected("not a GUID (hexadecimal, not 0): " + options.guid);
    }
    return *guid;
}

// Codes of PortInfo:MTUCap and PortInfo:VLCap; 0: IBA does not have this value.
uint8_t mtu_code(unsigned bytes) {
    for (uint8_t code = 1; code <= 5; ++code) {
        if (ib::mtu_bytes(static_cast<ib::Mtu>(code)) == bytes) {
            return code;
        }
    }
    return 0;
}
uint8_t vl_code(unsigned vls) {
    for (uint8_t code = 1; code <= 5; ++code) {
        if (link::data_vls(code) == vls) {
            return code;
        }
    }
    return 0;
}

std::expected<void, std::string> complete_config(ServeOptions& options) {
    auto guid = guid_of(options);
    if (!guid) {
        return std::unexpected(guid.error());
    }
    const uint8_t mtu = mtu_code(options.mtu_bytes);
    const uint8_t vls = vl_code(options.data_vls);
    if (mtu == 0) {
        return std::unexpected("--mtu: expected 256, 512, 1024, 2048 or 4096");
    }
    if (vls == 0) {
        return std::unexpected("--vls: expected 1, 2, 4, 8 or 15");
    }
    options.config.node_guid = *guid;
    options.config.num_ports = static_cast<uint8_t>(options.ports);
    options.config.mtu_cap = static_cast<ib::Mtu>(mtu);
    options.config.vl_cap = vls;
    return {};
}

std::expected<std::unique_ptr<Fabric>, std::string> make_fabric(const ServeOptions& options) {
    if (options.topology.empty()) {
        return std::make_unique<Fabric>(options.config);
    }
    auto topology = load_topology(options.topology);
    if (!topology) {
        return std::unexpected(topology.error());
    }
    return Fabric::make(std::move(*topology), options.config, options.only);
}

// Connects as --connect says: `text` is ADDRESS or ADDRESS=NODE,NODE...
std::expected<void, std::string> connect(FabricServer& server, const std::string& text,
                                         const SocketRules& rules) {
    const size_t equals = text.find('=');
    const auto address = Address::parse(std::string_view(text).substr(0, equals));
    if (!address) {
        return std::unexpected(address.error());
    }
    std::vector<std::string> nodes;
    for (size_t at = equals; at != std::string::npos;) {
        const size_t end = text.find(',', at + 1);
        nodes.push_back(text.substr(at + 1, end == std::string::npos ? end : end - at - 1));
        at = end;
    }
    return server.connect(*address, nodes, rules);
}

void block_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);  // only the capture ends at the limit of a file's size
}

std::expected<void, std::string> run_confined(FabricServer& server) {
    // If drop_capabilities() or confine() fails, the filter of the systemd unit still applies. The
    // closer's thread starts between the two calls: before the first it would keep capabilities,
    // after the second it could not start.
    auto confined = drop_capabilities();
    if (const auto started = server.closer().start(); !started) {
        return started;
    }
    if (confined) {
        confined = confine();
    }
    if (!confined) {
        spdlog::warn(
            "{}: the switch keeps all of its user's rights: start it as a user that has few",
            confined.error());
    }
    return server.run();
}

// The switch needs a descriptor for each link and newcomer, and for each one that a peer passes.
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

std::expected<void, std::string> serve(ServeOptions& options) {
    if (const auto complete = complete_config(options); !complete) {
        return complete;
    }
    auto fabric = make_fabric(options);
    if (!fabric) {
        return std::unexpected(fabric.error());
    }
    block_signals();
    raise_descriptor_limit();
    FabricServer server(std::move(*fabric));
    server.set_shared_memory(options.shared_memory);
    server.set_poll_us(options.poll_us);
    for (const std::string& text : options.faults) {
        if (const auto applied = apply_fault_option(server.fabric(), text); !applied) {
            return applied;
        }
    }
    if (!options.pcap.empty()) {
        if (const auto captured = server.capture(options.pcap, options.pcap_format); !captured) {
            return captured;
        }
    }
    if (!options.tls.empty()) {
        auto loaded = TlsCredentials::load(options.tls);
        if (!loaded) {
            return std::unexpected(loaded.error());
        }
        server.set_tls(std::move(*loaded));
    }
    for (const std::string& text : options.listen) {
        const auto address = Address::parse(text);
        if (!address) {
            return std::unexpected(address.error());
        }
        if (const auto listening = server.listen(*address, options.sockets); !listening) {
            return listening;
        }
    }
    for (const std::string& text : options.connect) {
        if (const auto connected = connect(server, text, options.sockets); !connected) {
            return connected;
        }
    }
    // The control socket comes last: if it exists, all other sockets do.
    if (const auto control = options.control.empty() ? std::expected<void, std::string>{}
                                                     : server.listen_control(options.control);
        !control) {
        return control;
    }
    if (!options.http.empty()) {
        if (const auto page = start_page(options.http, options.control); !page) {
            return std::unexpected(page.error());
        }
    }
    return run_confined(server);
}

}  // namespace

int main(int argc, char** argv) {
    auto options = parse_options(argc, argv);
    if (!options) {
        return options.error();
    }
    if (!options->ctl.command.empty()) {
        return run_ctl(options->ctl);
    }
    if (!options->cert.command.empty()) {
        return run_cert(options->cert);
    }
    spdlog::set_default_logger(spdlog::stderr_color_st("pib-switch"));
    spdlog::set_level(spdlog::level::from_str(options->serve.log_level));
    if (const auto served = serve(options->serve); !served) {
        spdlog::error("{}", served.error());
        return 1;
    }
    return 0;
}
