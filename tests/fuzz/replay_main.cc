// SPDX-License-Identifier: GPL-2.0-or-later
// Runs a fuzz target without a fuzzer: its seeds, the inputs in the files named, and mutations of
// all of them. A file is one input: hex text with # comments if its name ends in .hex, else raw
// bytes; a file with the ending .inputs has an input as hex text in each line. Each run has another
// seed for mutations and prints it; --seed repeats a run.
//   TARGET [--runs N] [--seed N] [--write-seeds DIR] [FILE...]
#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <string_view>

#include "fuzz_target.h"

namespace {

using pib::fuzz::Bytes;

constexpr size_t kMaxInput = 16 * 1024;

struct Options {
    uint64_t runs = 20'000;
    uint32_t seed = std::random_device()();
    std::string seed_folder;
    std::vector<std::string> files;
};

Bytes parse_hex(std::istream& in) {
    Bytes bytes;
    std::string line;
    while (std::getline(in, line)) {
        std::istringstream words(line.substr(0, line.find('#')));
        std::string word;
        while (words >> word) {
            for (size_t i = 0; i + 1 < word.size(); i += 2) {
                bytes.push_back(static_cast<uint8_t>(std::stoul(word.substr(i, 2), nullptr, 16)));
            }
        }
    }
    return bytes;
}

void read_file(const std::string& path, std::vector<Bytes>& to) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
        std::cerr << path << ": cannot be read\n";
        std::exit(2);
    }
    if (path.ends_with(".inputs")) {
        for (std::string line; std::getline(in, line);) {
            std::istringstream one(line);
            to.push_back(parse_hex(one));
        }
    } else if (path.ends_with(".hex")) {
        to.push_back(parse_hex(in));
    } else {
        to.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
}

// Makes one change: flips bits, sets boundary values, cuts, duplicates, or mixes two inputs.
void mutate(Bytes& input, const std::vector<Bytes>& corpus, std::mt19937& random) {
    const auto pick = [&](size_t below) { return below == 0 ? 0 : random() % below; };
    const auto at = static_cast<ptrdiff_t>(pick(input.size()));
    switch (random() % 6) {
        case 0:
            if (!input.empty()) {
                input[static_cast<size_t>(at)] ^= static_cast<uint8_t>(1U << random() % 8);
            }
            break;
        case 1: {
            static constexpr uint8_t kEdges[] = {0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF};
            if (!input.empty()) {
                input[static_cast<size_t>(at)] = kEdges[random() % std::size(kEdges)];
            }
            break;
        }
        case 2:
            input.resize(static_cast<size_t>(at));
            break;
        case 3:
            input.insert(input.begin() + at, 1 + random() % 8, static_cast<uint8_t>(random()));
            break;
        case 4:
            if (!input.empty()) {
                input[static_cast<size_t>(at)] = static_cast<uint8_t>(random());
            }
            break;
        default: {
            const Bytes& other = corpus[pick(corpus.size())];
            input.resize(static_cast<size_t>(at));
            input.insert(input.end(), other.begin() + static_cast<ptrdiff_t>(pick(other.size())),
                         other.end());
        }
    }
    input.resize(std::min(input.size(), kMaxInput));
}

void write_seeds(const std::string& folder, const std::vector<Bytes>& seeds) {
    for (size_t i = 0; i < seeds.size(); ++i) {
        std::ofstream out(folder + "/seed-" + std::to_string(i), std::ios::binary);
        out.write(reinterpret_cast<const char*>(seeds[i].data()),
                  static_cast<std::streamsize>(seeds[i].size()));
    }
}

Options parse_options(std::span<char*> arguments) {
    Options options;
    for (size_t i = 1; i < arguments.size(); ++i) {
        const std::string_view argument = arguments[i];
        const bool has_value = i + 1 < arguments.size();
        if (argument == "--runs" && has_value) {
            const std::string_view value = arguments[++i];
            std::from_chars(value.data(), value.data() + value.size(), options.runs);
        } else if (argument == "--seed" && has_value) {
            const std::string_view value = arguments[++i];
            std::from_chars(value.data(), value.data() + value.size(), options.seed);
        } else if (argument == "--write-seeds" && has_value) {
            options.seed_folder = arguments[++i];
        } else {
            options.files.emplace_back(argument);
        }
    }
    return options;
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = parse_options({argv, static_cast<size_t>(argc)});
    std::vector<Bytes> corpus = pib::fuzz::seeds();
    if (!options.seed_folder.empty()) {
        write_seeds(options.seed_folder, corpus);
        return 0;
    }
    corpus.emplace_back();
    for (const std::string& path : options.files) {
        read_file(path, corpus);
    }
    for (const Bytes& input : corpus) {
        pib::fuzz::run(input);
    }
    // Printed before the runs, so that a crash can be repeated.
    std::cerr << "--runs " << options.runs << " --seed " << options.seed << '\n';
    std::mt19937 random(options.seed);
    for (uint64_t run = 0; run < options.runs; ++run) {
        Bytes input = corpus[random() % corpus.size()];
        for (unsigned changes = 1 + random() % 6; changes > 0; --changes) {
            mutate(input, corpus, random);
        }
        pib::fuzz::run(input);
    }
    std::cout << corpus.size() << " inputs, " << options.runs << " mutations\n";
    return 0;
}
