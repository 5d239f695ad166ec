// SPDX-License-Identifier: GPL-2.0-or-later
// Sends a request to a running switch and prints the answer.
#include "control/ctl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <expected>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/address.h"

namespace pib::fabric {
namespace {

using nlohmann::json;

std::expected<json, std::string> ask(const std::string& path, const json& request) {
    const auto fd = connect_unix(path);
    if (!fd) {
        return std::unexpected(fd.error());
    }
    // Words of the command line need not be UTF-8.
    const std::string line = request.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    if (::send(fd->get(), line.data(), line.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(line.size())) {
        return std::unexpected(path + ": the switch has ended: start it again");
    }
    std::string answer;
    std::array<char, 65536> buffer;
    while (answer.find('\n') == std::string::npos) {
        const ssize_t n = ::recv(fd->get(), buffer.data(), buffer.size(), 0);
        if (n <= 0) {
            return std::unexpected(path + ": the switch closed the connection: look at its log");
        }
        answer.append(buffer.data(), static_cast<size_t>(n));
    }
    auto parsed = json::parse(answer, nullptr, false);
    if (!parsed.is_object()) {
        return std::unexpected(
            path + ": not the answer of a switch: give the path that pib-switch has as --control");
    }
    return parsed;
}

bool accepted(const json& answer) {
    return answer.value("ok", json()) == true;
}

std::string refusal_of(const json& answer) {
    const json error = answer.value("error", json());
    return error.is_string() ? error.get<std::string>() : "refused";
}

void print_status(const json& answer) {
    const json& sw = answer.at("switch");
    fmt::print("{}  GUID {}  LID {}  SM LID {}  {} ports\n",
               sw.at("description").get<std::string>(), sw.at("guid").get<std::string>(),
               sw.at("lid").get<int>(), sw.at("sm_lid").get<int>(), sw.at("ports").get<int>());
    fmt::print("{:>4}  {:<10} {:<9} {:>5} {:>5} {:>5}  {:<12} {}\n", "port", "state", "physical",
               "width", "speed", "queue", "LIDs", "neighbour");
    for (const json& port : answer.at("ports")) {
        if (!port.contains("neighbour") && port.at("cable").get<bool>()) {
            continue;
        }
        std::string lids, who;
        for (const json& lid : port.at("lids")) {
            lids += (lids.empty() ? "" : ",") + std::to_string(lid.get<int>());
        }
        if (port.contains("neighbour")) {
            const json& n = port.at("neighbour");
            who = fmt::format("{} port {} ({}){}", n.at("description").get<std::string>(),
                              n.at("port").get<int>(), n.at("port_guid").get<std::string>(),
                              port.at("connected").get<bool>() ? "" : " gone");
        }
        fmt::print("{:>4}  {:<10} {:<9} {:>5} {:>5} {:>5}  {:<12} {}{}{}{}\n",
                   port.at("port").get<int>(), port.at("state").get<std::string>(),
                   port.at("phys_state").get<std::string>(), port.at("width").get<std::string>(),
                   port.at("speed").get<std::string>(), port.at("queued_packets").get<int>(), lids,
                   who, port.at("cable").get<bool>() ? "" : " [unplugged]",
                   port.at("faults").get<bool>() ? " [faults]" : "",
                   port.at("peer_copy").get<bool>() ? " [peer copy]" : "");
    }
}

void print_counters(const json& answer) {
    for (const json& port : answer.at("ports")) {
        fmt::print("port {}\n", port.at("port").get<int>());
        for (const auto& [name, value] : port.items()) {
            if (name != "port" && value.get<uint64_t>() != 0) {
                fmt::print("  {:<32} {}\n", name, value.get<uint64_t>());
            }
        }
    }
}

void print_lft(const json& answer) {
    fmt::print("{:>6}  port   (LinearFDBTop {})\n", "LID", answer.at("top").get<int>());
    for (const json& entry : answer.at("entries")) {
        fmt::print("{:>6}  {}\n", entry.at(0).get<int>(), entry.at(1).get<int>());
    }
}

void print_mft(const json& answer) {
    fmt::print("{:>6}  ports\n", "MLID");
    for (const json& entry : answer.at("entries")) {
        fmt::print("{:#06x}  {}\n", entry.at(0).get<unsigned>(), entry.at(1).dump());
    }
}

void print_faults(const json& answer) {
    for (const char* direction : {"in", "out"}) {
        json counts = answer.at(direction).at("counts");
        const auto seen = counts.at("seen").get<uint64_t>();
        counts.erase("seen");
        fmt::print("port {} {}: {}; {} packets", answer.at("port").get<int>(), direction,
                   answer.at(direction).at("description").get<std::string>(), seen);
        for (const auto& [name, count] : counts.items()) {
            if (count != 0) {
                fmt::print(", {} {}", name, count.get<uint64_t>());
            }
        }
        fmt::print("\n");
    }
}

void print_nodes(const json& answer) {
    fmt::print("{:<16} {:<18} {:>6} {:>6} {:>6}  {:<24} {}\n", "type", "GUID", "LID", "ports", "up",
               "id", "description");
    for (const json& node : answer.at("nodes")) {
        fmt::print("{:<16} {:<18} {:>6} {:>6} {:>6}  {:<24} {}\n",
                   node.at("type").get<std::string>(), node.value("guid", ""), node.value("lid", 0),
                   node.at("ports").get<int>(), node.value("ports_up", 0),
                   node.at("id").get<std::string>(), node.at("description").get<std::string>());
    }
}

void print_journal(const json& answer) {
    constexpr double kNsPerSecond = 1e9;
    for (const json& entry : answer.at("entries")) {
        const auto times = entry.at("times").get<uint64_t>();
        fmt::print("{:>12.3f} s ago  port {:<3} {:<13} {}{}\n",
                   entry.at("age_ns").get<double>() / kNsPerSecond, entry.at("port").get<int>(),
                   entry.at("change").get<std::string>(), entry.at("detail").get<std::string>(),
                   times > 1 ? fmt::format("  ({} times)", times) : "");
    }
}

void print_vls(const json& answer) {
    fmt::print("{:>3}  {:>8}  {}\n", "VL", "waiting", "credits");
    for (const json& entry : answer.at("by_vl")) {
        fmt::print("{:>3}  {:>8}  {}\n", entry.at("vl").get<int>(),
                   entry.at("queued_packets").get<int>(),
                   entry.contains("credits") ? entry.at("credits").dump() : "");
    }
    for (const char* table : {"high", "low"}) {
        fmt::print("{} priority, VL and weight: {}\n", table, answer.at(table).dump());
    }
    fmt::print("VLHighLimit {}\nVL by SL, a line for each input port:\n",
               answer.at("high_limit").get<int>());
    for (size_t input = 0; input < answer.at("sl_to_vl").size(); ++input) {
        fmt::print("{:>4}  {}\n", input, answer.at("sl_to_vl").at(input).dump());
    }
}

struct Printer {
    const char* command;
    void (*print)(const json& answer);
};
constexpr Printer kPrinters[] = {
    {"status", print_status},   {"counters", print_counters}, {"lft", print_lft},
    {"mft", print_mft},         {"fault", print_faults},      {"nodes", print_nodes},
    {"journal", print_journal}, {"vls", print_vls},
};

void print_for_people(const std::string& command, const json& answer) {
    for (const Printer& printer : kPrinters) {
        if (command == printer.command) {
            printer.print(answer);
            return;
        }
    }
}

// `faults` has the values as text. Passes valid JSON as it is, and other text as a JSON string,
// which the switch refuses where it needs a number.
json fault_members(const std::map<std::string, std::string>& faults) {
    json members = json::object();
    for (const auto& [name, text] : faults) {
        const json value = json::parse(text, nullptr, false);
        members[name] = value.is_discarded() ? json(text) : value;
    }
    return members;
}

json request_of(const CtlOptions& options) {
    json request = {{"command", options.command}};
    if (!options.port.empty()) {
        const bool number = options.port.find_first_not_of("0123456789") == std::string::npos;
        request["port"] =
            number ? json(std::strtoul(options.port.c_str(), nullptr, 10)) : json(options.port);
    }
    if (!options.node.empty()) {
        request["switch"] = options.node;
    }
    if (options.command == "link") {
        request["state"] = options.state;
    } else if (options.command == "run") {
        request["line"] = fmt::format("{}", fmt::join(options.words, " "));
    } else if (options.command == "counters") {
        request["clear"] = options.clear;
    } else if (options.command == "fault" && (options.clear || !options.faults.empty())) {
        request["set"] = options.clear ? json::object() : fault_members(options.faults);
        request["direction"] = options.direction;
    }
    return request;
}

// Each line is one request; the first refused request ends the script.
int run_lines(const CtlOptions& options, std::istream& lines) {
    size_t number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        const auto answer = ask(options.control, {{"command", "run"}, {"line", line}});
        if (!answer || !accepted(*answer)) {
            fmt::print(stderr, "pib-switch ctl: {}:{}: {}\n", options.script, number,
                       answer ? refusal_of(*answer) : answer.error());
            return 1;
        }
    }
    return 0;
}

int run_script(const CtlOptions& options) {
    if (options.script == "-") {
        return run_lines(options, std::cin);
    }
    std::ifstream file(options.script);
    if (!file) {
        fmt::print(stderr, "pib-switch ctl: cannot read {}: {}\n", options.script,
                   std::strerror(errno));
        return 1;
    }
    return run_lines(options, file);
}

}  // namespace

int run_ctl(const CtlOptions& options) {
    if (options.command == "script") {
        return run_script(options);
    }
    const auto answer = ask(options.control, request_of(options));
    if (!answer) {
        fmt::print(stderr, "pib-switch ctl: {}\n", answer.error());
        return 1;
    }
    const bool ok = accepted(*answer);
    if (options.as_json) {
        fmt::print("{}\n", answer->dump());
        return ok ? 0 : 1;
    }
    if (!ok) {
        fmt::print(stderr, "pib-switch ctl: {}\n", refusal_of(*answer));
        return 1;
    }
    try {
        print_for_people(options.command, *answer);
    } catch (const json::exception&) {
        fmt::print(stderr,
                   "pib-switch ctl: the switch has another version: use its own pib-switch\n");
        return 1;
    }
    return 0;
}

}  // namespace pib::fabric
