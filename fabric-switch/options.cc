// SPDX-License-Identifier: GPL-2.0-or-later
#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

namespace pib::fabric {
namespace {

constexpr unsigned kMostMode = 0777;
constexpr const char* kPortHelp = "a number, or NODE[NUMBER] in a topology";

// Reads permissions in octal, with or without a 0 in front. Returns the error, or an empty string.
std::string take_mode(const std::string& text, unsigned& mode) {
    char* end = nullptr;
    const unsigned long given = std::strtoul(text.c_str(), &end, 8);
    if (text.empty() || text.front() == '-' || *end != '\0' || given > kMostMode) {
        return "permissions are octal, 0 to 0777, not " + text;
    }
    mode = static_cast<unsigned>(given);
    return {};
}

void add_socket_rules(CLI::App& app, ServeOptions& options) {
    app.add_option_function<std::string>(
           "--socket-mode",
           [&options](const std::string& text) { take_mode(text, options.sockets.mode); },
           "permissions of Unix sockets to listen on, octal: who may join the fabric (0660)")
        ->check([](const std::string& text) {
            unsigned mode = 0;
            return take_mode(text, mode);
        });
    app.add_option("--socket-group", options.sockets.group,
                   "group of these sockets, whose members may join the fabric");
    app.add_flag(
        "--plain-tcp", options.sockets.plain_tcp,
        "permit TCP without TLS to other hosts, for networks that only trusted hosts reach");
}

void add_certificate(CLI::App& cert, CertOptions& options, const std::string& name,
                     const std::string& text) {
    CLI::App* command = cert.add_subcommand(name, text);
    command->final_callback([&options, name] { options.command = name; });
    command->add_option("DIRECTORY", options.directory, "directory of the CA")->required();
    const bool is_ca = name == "ca";
    constexpr unsigned kYear = 365, kCaYears = 10, kMostDays = 100 * kYear;
    options.days = kYear;
    command
        ->add_option_function<unsigned>(
            "--days", [&options](unsigned days) { options.days = days; },
            is_ca ? "days of validity (3650)" : "days of validity (365)")
        ->check(CLI::Range(1U, kMostDays));
    if (is_ca) {
        command->preparse_callback([&options](size_t) { options.days = kCaYears * kYear; });
        return;
    }
    command->add_option("NAME", options.name, "name of the switch or host, and of its directory")
        ->required();
    command
        ->add_option("--guid", options.guids,
                     "GUID, FIRST-LAST or any: permitted node and port GUIDs; may be repeated")
        ->required();
    if (name == "switch") {
        command->add_option("--host", options.hosts,
                            "a name or address to which others connect; may be repeated");
    } else {
        command->add_option("--node", options.nodes,
                            "permitted node of the topology, by its name; may be repeated");
    }
}

void add_cert_command(CLI::App& app, CertOptions& options) {
    CLI::App* cert = app.add_subcommand("cert", "make a private CA and its certificates for TLS");
    cert->require_subcommand(1);
    add_certificate(*cert, options, "ca", "the CA");
    add_certificate(*cert, options, "switch", "a certificate for pib-switch --tls");
    add_certificate(*cert, options, "host", "a certificate for QEMU's tls-creds-x509");
}

void add_serve_options(CLI::App& app, ServeOptions& options) {
    app.add_option(
        "--listen", options.listen,
        "unix:PATH, tls:HOST:PORT, tcp:HOST:PORT, or tcp:PORT on the loopback addresses; may be "
        "repeated");
    add_socket_rules(app, options);
    app.add_option("--tls", options.tls,
                   "directory with certificates of pib-switch cert, for tls: addresses");
    app.add_option("--connect", options.connect,
                   "ADDRESS[=NODE,...]: connect the cables to these switches, or all that leave "
                   "this process, to a pib-switch that listens there; may be repeated");
    app.add_option("--control", options.control, "Unix socket for pib-switch ctl");
    app.add_option("--http", options.http,
                   "ADDRESS, ADDRESS:PORT, or PORT on the loopback address: show the fabric in a "
                   "browser there, by pib web of the package pib-lab")
        ->needs("--control");
    app.add_option("--topology", options.topology,
                   "topology file of ibnetdiscover or ibsim, with many switches and nodes")
        ->excludes(app.add_option("--guid", options.guid,
                                  "node GUID, hexadecimal (default: from the addresses)"));
    app.add_option("--only", options.only,
                   "NODE,...: the switches of the topology that this process has; others are "
                   "elsewhere")
        ->delimiter(',')
        ->needs("--topology");
    app.add_option("--ports", options.ports, "external ports")
        ->check(CLI::Range(1, 36))
        ->capture_default_str();
    app.add_option("--name", options.config.description, "NodeDescription")->capture_default_str();
    app.add_option("--mtu", options.mtu_bytes, "MTUCap in bytes")->capture_default_str();
    app.add_option("--vls", options.data_vls, "data VLs")->capture_default_str();
    app.add_option("--pcap", options.pcap, "capture all packets to this file (- for stdout)");
    app.add_option_function<std::string>(
           "--pcap-format",
           [&options](const std::string& format) {
               options.pcap_format = format == "erf" ? PcapFormat::kErf : PcapFormat::kInfiniBand;
           },
           "infiniband (link type 247), or erf (197), which Wireshark reads without settings")
        ->check(CLI::IsMember({"infiniband", "erf"}));
    app.add_option(
        "--fault", options.faults,
        "PORT:NAME=VALUE,... as for ctl fault, PORT may be all or NODE[NUMBER]; may be repeated");
    app.add_flag("!--no-shared-memory", options.shared_memory,
                 "speak to all devices through their sockets only");
    app.add_flag("!--no-bursts", options.config.bursts,
                 "packets of a message go one by one through shared memory, too");
    app.add_flag("!--no-peer-copy", options.config.peer_copy,
                 "take no memory from devices with peer-copy=on: payload goes through the rings");
    app.add_option("--poll-us", options.poll_us,
                   "poll this long before sleeping, in us, while a processor is idle; 0: never")
        ->capture_default_str();
    app.add_option("--log-level", options.log_level, "trace, debug, info, warning, error or off")
        ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}))
        ->capture_default_str();
}

CLI::App& add_command(CLI::App& ctl, CtlOptions& options, const std::string& name,
                      const std::string& text) {
    CLI::App* command = ctl.add_subcommand(name, text);
    command->final_callback([&options, name] { options.command = name; });
    return *command;
}

void add_fault_command(CLI::App& ctl, CtlOptions& options) {
    struct Fault {
        const char* name;
        const char* text;
    };
    static constexpr Fault kFaults[] = {
        {"drop", "probability of loss, 0 to 1"},
        {"duplicate", "probability of duplication"},
        {"reorder", "probability that later packets pass a packet"},
        {"corrupt", "probability of a flipped bit"},
        {"reorder-depth", "maximum number of packets that pass it"},
        {"delay-us", "delay of every packet"},
        {"jitter-us", "additional random delay"},
        {"seed", "seed of the random sequence"},
        {"opcode", "only packets with this BTH opcode (decimal)"},
        {"attribute", "only MADs with this AttributeID (decimal)"},
    };
    CLI::App& fault =
        add_command(ctl, options, "fault", "show the faults of a port's link, or replace them");
    fault.add_option("PORT", options.port, kPortHelp)->required();
    for (const Fault& row : kFaults) {
        std::string member = row.name;
        std::ranges::replace(member, '-', '_');
        fault.add_option_function<std::string>(
            std::string("--") + row.name,
            [&options, member](const std::string& value) { options.faults[member] = value; },
            row.text);
    }
    fault.add_flag_callback(
        "--vl15", [&options] { options.faults["vl15"] = "true"; }, "subnet management packets too");
    fault.add_option("--direction", options.direction, "in, out or both")->capture_default_str();
    fault.add_flag("--clear", options.clear, "remove all faults");
}

void add_ctl_command(CLI::App& app, CtlOptions& options) {
    CLI::App* ctl = app.add_subcommand("ctl", "talk to a running switch");
    ctl->add_option("--control", options.control, "its control socket")->required();
    ctl->add_flag("--json", options.as_json, "print the answer as JSON");
    ctl->add_option("--switch", options.node, "a switch by name or GUID, where there are several");
    ctl->require_subcommand(1);
    ctl->fallthrough();
    add_command(*ctl, options, "status", "the switch and its ports");
    add_command(*ctl, options, "nodes", "all nodes of the fabric");
    add_command(*ctl, options, "lft", "linear forwarding table");
    add_command(*ctl, options, "mft", "multicast forwarding table");
    add_command(*ctl, options, "journal",
                "last changes of links: up, down, cables, faults, errors");
    add_command(*ctl, options, "vls", "waiting packets and credits by VL, VL tables")
        .add_option("PORT", options.port, kPortHelp)
        ->required();
    CLI::App& counters = add_command(*ctl, options, "counters", "port counters");
    counters.add_option("PORT", options.port, std::string(kPortHelp) + "; default: all");
    counters.add_flag("--clear", options.clear, "set to zero after reading");
    CLI::App& link = add_command(*ctl, options, "link", "a port's cable");
    link.add_option("PORT", options.port, kPortHelp)->required();
    link.add_option("STATE", options.state, "up, down or retrain")->required();
    CLI::App& run = add_command(*ctl, options, "run", "one of ibsim's verbs, such as Unlink");
    run.add_option("VERB", options.words, "e.g. Unlink 'leaf1[3]'")->required();
    CLI::App& script = add_command(*ctl, options, "script", "ibsim's verbs, one a line");
    script.add_option("FILE", options.script, "- is standard input")->required();
    add_fault_command(*ctl, options);
}

}  // namespace

std::expected<Options, int> parse_options(int argc, char** argv) {
    Options options;
    CLI::App app("An InfiniBand switch for virtual machines");
    add_serve_options(app, options.serve);
    add_ctl_command(app, options.ctl);
    add_cert_command(app, options.cert);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return std::unexpected(app.exit(error));
    }
    const bool serves = options.ctl.command.empty() && options.cert.command.empty();
    if (serves && options.serve.listen.empty()) {
        std::fprintf(stderr, "pib-switch: --listen is required; see --help\n");
        return std::unexpected(2);
    }
    return options;
}

}  // namespace pib::fabric
