// SPDX-License-Identifier: GPL-2.0-or-later
// pib-replay: the command line.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>

#include "replay_options.h"
#include "replayer.h"

namespace {

using namespace pib::hca;
using namespace pib::hca::replay;

void print_call(uint64_t number, const Step& step) {
    std::printf("%llu %s %s\n", static_cast<unsigned long long>(number),
                seconds(step.time_ns).c_str(), describe(step).c_str());
}

void print_mark(uint64_t number, uint64_t time_ns, size_t objects) {
    std::printf("mark %llu, %s: %zu hashes\n", static_cast<unsigned long long>(number),
                seconds(time_ns).c_str(), objects);
}

ReplayOptions options_for(const CommandLine& line) {
    ReplayOptions options;
    options.until_ns = line.until_ns;
    options.tolerant = line.tolerant;
    options.verbose = line.verbose;
    options.trace_entries = line.wants_trace() ? Trace::kMaxEntries : 0;
    if (line.lists_calls) {
        options.on_call = print_call;
        options.on_mark = print_mark;
    }
    return options;
}

void print_result(const std::string& file, const ReplayResult& result) {
    std::printf("%llu calls replayed, from %s to %s; %llu marks compared%s\n",
                static_cast<unsigned long long>(result.calls), seconds(result.first_ns).c_str(),
                seconds(result.last_ns).c_str(), static_cast<unsigned long long>(result.marks),
                result.truncated ? "; the end of the recording is missing" : "");
    if (!result.difference.empty()) {
        std::fflush(stdout);
        std::fprintf(stderr, "pib-replay: %s: %s\n", file.c_str(), result.difference.c_str());
    }
    if (result.differences > 1) {
        std::fprintf(stderr, "pib-replay: %s: %llu more differences follow\n", file.c_str(),
                     static_cast<unsigned long long>(result.differences - 1));
    }
}

int complain(const std::string& file, const std::string& why) {
    std::fprintf(stderr, "pib-replay: %s: %s\n", file.c_str(), why.c_str());
    return 2;
}

int replay_file(const CommandLine& line) {
    std::ifstream file(line.file, std::ios::binary);
    if (!file) {
        return complain(line.file, "cannot be read: name a recording that exists");
    }
    Replayer replayer(file, options_for(line));
    const auto header = replayer.open();
    if (!header) {
        return complain(line.file, header.error());
    }
    std::printf("pib-hca %016llx, register interface %u.%u\n",
                static_cast<unsigned long long>(header->config.node_guid), header->major,
                header->minor);
    const auto result = replayer.run();
    if (!result) {
        return complain(line.file, result.error());
    }
    print_result(line.file, *result);
    for (const Dump& dump : line.dumps) {
        const auto text = dump_of(replayer.device(), dump);
        if (!text) {
            return complain(line.file, text.error());
        }
        std::printf("%s\n", text->c_str());
    }
    return result->difference.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    const auto line = parse_command_line({argv + 1, static_cast<size_t>(argc - 1)});
    if (!line) {
        std::fprintf(stderr, "pib-replay: %s\n", line.error().c_str());
        return 2;
    }
    if (line->help) {
        std::fputs(kUsage, stdout);
        return 0;
    }
    try {
        return replay_file(*line);
    } catch (const std::bad_alloc&) {
        return complain(line->file, "not enough memory: free some, or take a larger machine");
    }
}
