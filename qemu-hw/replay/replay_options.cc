// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "commands/object_dump.h"

namespace pib::hca::replay {

const char* const kUsage =
    "pib-replay FILE [--until TIME] [--dump WHAT]... [--list] [--log] [--tolerant]\n"
    "\n"
    "Feeds a recording of a pib-hca (property record, or ./pib up --record) to the same device\n"
    "outside of QEMU, and compares both. Exit status: 0 they are equal, 1 they differ, 2 the file\n"
    "or an argument is unusable.\n"
    "\n"
    "  --until TIME  stop before calls after this time of the VM's clock: 12.5, 300ms, 7us, 40ns\n"
    "  --dump WHAT   print as JSON at the end: objects, journal, trace, or one object by its\n"
    "                number: qp, cq, srq, eq, mr or port N\n"
    "  --list        print each call of the device and each mark\n"
    "  --log         print what the device logs\n"
    "  --tolerant    go on after a difference, with answers that may be wrong\n"
    "  --help        print this text\n";

namespace {

constexpr std::array<std::string_view, 3> kWhole = {"objects", "journal", "trace"};
constexpr std::array<std::string_view, 6> kNumbered = {"qp", "cq", "srq", "eq", "mr", "port"};

bool contains(std::span<const std::string_view> words, std::string_view word) {
    return std::ranges::find(words, word) != words.end();
}

std::expected<uint64_t, std::string> parse_number(std::string_view text) {
    const bool in_hex = text.starts_with("0x");
    const std::string_view digits = in_hex ? text.substr(2) : text;
    uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, in_hex ? 16 : 10);
    if (error != std::errc() || end != digits.data() + digits.size()) {
        return std::unexpected("\"" + std::string(text) + "\" is not a number: write 64 or 0x40");
    }
    return value;
}

// The arguments that have not been taken yet.
class Words {
  public:
    explicit Words(std::span<char* const> words) : words_(words) {}
    bool empty() const { return words_.empty(); }
    std::string take() {
        const std::string word = words_.front();
        words_ = words_.subspan(1);
        return word;
    }

  private:
    std::span<char* const> words_;
};

std::expected<Dump, std::string> parse_dump(Words& words) {
    Dump dump{.kind = words.empty() ? "" : words.take()};
    std::string number;
    // "qp 0x40" may be one argument.
    if (const size_t space = dump.kind.find(' '); space != std::string::npos) {
        number = dump.kind.substr(space + 1);
        dump.kind.resize(space);
    }
    if (contains(kWhole, dump.kind)) {
        return dump;
    }
    if (!contains(kNumbered, dump.kind)) {
        return std::unexpected("--dump \"" + dump.kind +
                               "\": expected objects, journal, trace, or qp, cq, srq, eq, mr or "
                               "port with a number");
    }
    if (number.empty() && !words.empty()) {
        number = words.take();
    }
    const auto value = parse_number(number);
    if (!value) {
        return std::unexpected("--dump " + dump.kind + ": " + value.error());
    }
    dump.number = *value;
    return dump;
}

}  // namespace

bool CommandLine::wants_trace() const {
    return std::ranges::any_of(dumps, [](const Dump& dump) { return dump.kind == "trace"; });
}

std::expected<uint64_t, std::string> parse_time(const std::string& text) {
    struct Unit {
        std::string_view name;
        double ns;
    };
    static constexpr Unit kUnits[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
    constexpr double kMost = 9e18;
    double value = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    const auto* unit = std::ranges::find(
        kUnits, std::string_view(end, static_cast<size_t>(last - end)), &Unit::name);
    if (error != std::errc() || unit == std::end(kUnits) || !(value >= 0) ||
        value * unit->ns > kMost) {
        return std::unexpected("--until \"" + text +
                               "\": expected a time as 12.5, 12.5s, 300ms, 7us or 40ns");
    }
    return static_cast<uint64_t>(std::llround(value * unit->ns));
}

std::expected<CommandLine, std::string> parse_command_line(std::span<char* const> arguments) {
    CommandLine line;
    Words words(arguments);
    while (!words.empty()) {
        const std::string word = words.take();
        if (word == "--until") {
            const auto time = parse_time(words.empty() ? "" : words.take());
            if (!time) {
                return std::unexpected(time.error());
            }
            line.until_ns = *time;
        } else if (word == "--dump") {
            auto dump = parse_dump(words);
            if (!dump) {
                return std::unexpected(dump.error());
            }
            line.dumps.push_back(std::move(*dump));
        } else if (word == "--tolerant") {
            line.tolerant = true;
        } else if (word == "--list") {
            line.lists_calls = true;
        } else if (word == "--log") {
            line.verbose = true;
        } else if (word == "--help" || word == "-h") {
            line.help = true;
        } else if (word.starts_with("-") || !line.file.empty()) {
            return std::unexpected("unknown argument \"" + word + "\": see pib-replay --help");
        } else {
            line.file = word;
        }
    }
    if (line.file.empty() && !line.help) {
        return std::unexpected("name a recording: pib-replay FILE; see pib-replay --help");
    }
    return line;
}

std::expected<std::string, std::string> dump_of(Device& device, const Dump& dump) {
    if (dump.kind == "objects") {
        return device.objects();
    }
    if (dump.kind == "journal") {
        return device.journal();
    }
    if (dump.kind == "trace") {
        return device.trace();
    }
    const std::string text = dump_object(device.engine().objects(), dump.kind, dump.number);
    if (text.empty()) {
        return std::unexpected("there is no " + dump.kind + " " + std::to_string(dump.number) +
                               " at this time: see --dump objects, or choose another --until");
    }
    return text;
}

}  // namespace pib::hca::replay
