// SPDX-License-Identifier: GPL-2.0-or-later
// pib-switch: an InfiniBand switch for virtual machines, and the command that talks to it.
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "control_commands.h"
#include "ctl.h"
#include "fabric_server.h"

namespace {

using namespace pib;
using namespace pib::fabric;
using nlohmann::json;

struct ServeOptions {
    std::vector<std::string> listen;
    std::string control;
    std::string guid;
    std::string pcap;
    PcapFormat pcap_format = PcapFormat::kInfiniBand;
    std::string log_level = "info";
    std::vector<std::string> faults;
    unsigned mtu = 4096;
    unsigned vls = 8;
    SwitchConfig config;
};

struct CtlOptions {
    std::string control;
    bool as_json = false;
    json request = json::object();
    json faults = json::object();
    int port = -1;
    std::string state;
    std::string direction = "both";
    bool clear = false;
};

// The same every time for the same addresses, so that a restarted switch is the same node to the
// subnet manager; the second bit says that no registry has given it out (EUI-64).
ib::Guid default_guid(const std::vector<std::string>& listen) {
    std::uint64_t hash = 0xCBF29CE484222325;
    for (const std::string& address : listen) {
        for (const char c : address) {
            hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001B3;
        }
    }
    return ib::Guid(0x0250'4942'0000'0000 | (hash & 0xFFFF'FFFF));
}

std::expected<ib::Guid, std::string> parse_guid(const std::string& text) {
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(text.c_str(), &end, 16);
    if (text.empty() || *end != '\0' || value == 0) {
        return std::unexpected("not a GUID (hexadecimal, not 0): " + text);
    }
    return ib::Guid(value);
}

// PORT:name=value,... with PORT a number or "all" and the names of `ctl fault`.
std::expected<void, std::string> apply_fault(Switch& sw, const std::string& text) {
    const auto colon = text.find(':');
    if (colon == std::string::npos) {
        return std::unexpected("not PORT:NAME=VALUE,...: " + text);
    }
    json members = json::object();
    std::string direction = "both";
    for (const std::string& part : CLI::detail::split(text.substr(colon + 1), ',')) {
        const auto equals = part.find('=');
        const std::string name = part.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
        if (name == "direction") {
            direction = value;
            continue;
        }
        members[name] = json::parse(value, nullptr, false);
    }
    const std::string which = text.substr(0, colon);
    const unsigned port = which == "all" ? 0 : static_cast<unsigned>(std::atoi(which.c_str()));
    if ((which != "all" && port == 0) || port > sw.num_ports()) {
        return std::unexpected("no such port: " + which);
    }
    for (unsigned number = port == 0 ? 1 : port; number <= (port == 0 ? sw.num_ports() : port);
         ++number) {
        const json answer = run_control_command(
            sw,
            {{"command", "fault"}, {"port", number}, {"direction", direction}, {"set", members}});
        if (!answer.at("ok").get<bool>()) {
            return std::unexpected(text + ": " + answer.at("error").get<std::string>());
        }
    }
    return {};
}

// Codes of PortInfo:MTUCap and PortInfo:VLCap; 0: not one of the values the IBA has.
std::uint8_t mtu_code(unsigned bytes) {
    for (std::uint8_t code = 1; code <= 5; ++code) {
        if (ib::mtu_bytes(static_cast<ib::Mtu>(code)) == bytes) {
            return code;
        }
    }
    return 0;
}
std::uint8_t vl_code(unsigned vls) {
    for (std::uint8_t code = 1; code <= 5; ++code) {
        if (link::data_vls(code) == vls) {
            return code;
        }
    }
    return 0;
}

std::expected<void, std::string> complete_config(ServeOptions& options) {
    auto guid = options.guid.empty() ? default_guid(options.listen) : parse_guid(options.guid);
    if (!guid) {
        return std::unexpected(guid.error());
    }
    const std::uint8_t mtu = mtu_code(options.mtu);
    const std::uint8_t vls = vl_code(options.vls);
    if (mtu == 0) {
        return std::unexpected("MTU is 256, 512, 1024, 2048 or 4096");
    }
    if (vls == 0) {
        return std::unexpected("data VLs are 1, 2, 4, 8 or 15");
    }
    options.config.node_guid = *guid;
    options.config.mtu_cap = static_cast<ib::Mtu>(mtu);
    options.config.vl_cap = vls;
    return {};
}

void block_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
}

std::expected<void, std::string> serve(ServeOptions& options) {
    if (const auto complete = complete_config(options); !complete) {
        return complete;
    }
    block_signals();
    FabricServer server(options.config);
    for (const std::string& text : options.faults) {
        if (const auto applied = apply_fault(server.fabric_switch(), text); !applied) {
            return applied;
        }
    }
    if (!options.pcap.empty()) {
        if (const auto captured = server.capture(options.pcap, options.pcap_format); !captured) {
            return captured;
        }
    }
    if (const auto control = options.control.empty() ? std::expected<void, std::string>{}
                                                     : server.listen_control(options.control);
        !control) {
        return control;
    }
    for (const std::string& text : options.listen) {
        const auto address = Address::parse(text);
        if (!address) {
            return std::unexpected(address.error());
        }
        if (const auto listening = server.listen(*address); !listening) {
            return listening;
        }
    }
    return server.run();
}

void add_serve_options(CLI::App& app, ServeOptions& options) {
    app.add_option("--listen", options.listen, "unix:PATH or tcp:HOST:PORT; may be repeated");
    app.add_option("--control", options.control, "Unix socket for pib-switch ctl");
    app.add_option("--ports", options.config.num_ports, "external ports")
        ->check(CLI::Range(1, 36))
        ->capture_default_str();
    app.add_option("--guid", options.guid, "node GUID, hexadecimal (default: from the addresses)");
    app.add_option("--name", options.config.description, "NodeDescription")->capture_default_str();
    app.add_option("--mtu", options.mtu, "MTUCap in bytes")->capture_default_str();
    app.add_option("--vls", options.vls, "data VLs")->capture_default_str();
    app.add_option("--pcap", options.pcap, "capture all packets to this file (- for stdout)");
    app.add_option("--pcap-format", options.pcap_format,
                   "infiniband (link type 247) or erf (197, for Wireshark)")
        ->transform(CLI::CheckedTransformer(
            std::map<std::string, PcapFormat>{{"infiniband", PcapFormat::kInfiniBand},
                                              {"erf", PcapFormat::kErf}},
            CLI::ignore_case));
    app.add_option("--fault", options.faults,
                   "PORT:NAME=VALUE,... as of ctl fault, PORT may be all; may be repeated");
    app.add_option("--log-level", options.log_level, "trace, debug, info, warning, error or off")
        ->capture_default_str();
}

template <typename T>
void add_fault_option(CLI::App& command, CtlOptions& options, const std::string& name,
                      const std::string& text) {
    std::string member = name;
    std::ranges::replace(member, '-', '_');
    command.add_option_function<T>(
        "--" + name, [&options, member](const T& value) { options.faults[member] = value; }, text);
}

void add_fault_command(CLI::App& ctl, CtlOptions& options) {
    CLI::App* fault = ctl.add_subcommand("fault", "show or set the faults of a port's link");
    fault->add_option("PORT", options.port)->required();
    add_fault_option<double>(*fault, options, "drop", "probability of loss");
    add_fault_option<double>(*fault, options, "duplicate", "probability of duplication");
    add_fault_option<double>(*fault, options, "reorder", "probability of being passed by others");
    add_fault_option<double>(*fault, options, "corrupt", "probability of a flipped bit");
    add_fault_option<unsigned>(*fault, options, "reorder-depth", "packets that pass at most");
    add_fault_option<double>(*fault, options, "delay-us", "delay of every packet");
    add_fault_option<double>(*fault, options, "jitter-us", "random delay on top");
    add_fault_option<std::uint64_t>(*fault, options, "seed", "of the random sequence");
    add_fault_option<unsigned>(*fault, options, "opcode", "only packets with this BTH opcode");
    fault->add_flag_callback(
        "--vl15", [&] { options.faults["vl15"] = true; }, "subnet management packets too");
    fault->add_option("--direction", options.direction, "in, out or both")->capture_default_str();
    fault->add_flag("--clear", options.clear, "no faults any more");
    fault->final_callback([&] {
        options.request = {{"command", "fault"}, {"port", options.port}};
        if (options.clear || !options.faults.empty()) {
            options.request["set"] = options.clear ? json::object() : options.faults;
            options.request["direction"] = options.direction;
        }
    });
}

void add_ctl_command(CLI::App& app, CtlOptions& options) {
    CLI::App* ctl = app.add_subcommand("ctl", "talk to a running switch");
    ctl->add_option("--control", options.control, "its control socket")->required();
    ctl->add_flag("--json", options.as_json, "print the answer as JSON");
    ctl->require_subcommand(1);
    ctl->fallthrough();
    struct Simple {
        const char* name;
        const char* text;
    };
    for (const auto& [name, text] :
         {Simple{"status", "the switch and its ports"}, Simple{"lft", "linear forwarding table"},
          Simple{"mft", "multicast forwarding table"}}) {
        ctl->add_subcommand(name, text)->final_callback([&options, name] {
            options.request = {{"command", name}};
        });
    }
    CLI::App* counters = ctl->add_subcommand("counters", "port counters");
    counters->add_option("PORT", options.port, "default: all");
    counters->add_flag("--clear", options.clear, "set to zero after reading");
    counters->final_callback([&] {
        options.request = {{"command", "counters"}, {"clear", options.clear}};
        if (options.port >= 0) {
            options.request["port"] = options.port;
        }
    });
    CLI::App* link = ctl->add_subcommand("link", "pull or plug a port's cable, or retrain it");
    link->add_option("PORT", options.port)->required();
    link->add_option("STATE", options.state, "up, down or retrain")->required();
    link->final_callback([&] {
        options.request = {{"command", "link"}, {"port", options.port}, {"state", options.state}};
    });
    add_fault_command(*ctl, options);
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("An InfiniBand switch for virtual machines");
    ServeOptions serve_options;
    CtlOptions ctl_options;
    add_serve_options(app, serve_options);
    add_ctl_command(app, ctl_options);
    CLI11_PARSE(app, argc, argv);
    if (!ctl_options.request.empty()) {
        return run_ctl(ctl_options.control, ctl_options.request, ctl_options.as_json);
    }
    if (serve_options.listen.empty()) {
        std::fprintf(stderr, "pib-switch: --listen is required\n");
        return 2;
    }
    spdlog::set_default_logger(spdlog::stderr_color_st("pib-switch"));
    spdlog::set_level(spdlog::level::from_str(serve_options.log_level));
    if (const auto served = serve(serve_options); !served) {
        spdlog::error("{}", served.error());
        return 1;
    }
    return 0;
}
