// SPDX-License-Identifier: GPL-2.0-or-later
// Runs the checks and prints which of them observe something unexpected.
// usage: conformance [NUMBER]   all checks, or those whose number begins with NUMBER
//        conformance --list     the rows of docs/conformance.md, tab-separated
#include <cstdio>
#include <exception>
#include <iostream>
#include <set>
#include <string>

#include "check.h"
#include "trial.h"

using namespace pib::conformance;

namespace {

int list() {
    for (const CheckTable& table : all_tables()) {
        std::cout << "#\t" << table.title << "\n";
        for (const Check& check : table.checks) {
            std::cout << check.number << "\t" << check.clause << "\t" << check.sentence << "\t"
                      << check.seen << "\t" << check.difference << "\n";
        }
    }
    return 0;
}

std::string outcome(const CheckTable& table, const Check& check) {
    try {
        Trial trial;
        if (table.prepare != nullptr) {
            table.prepare(trial);
        }
        check.stimulus(trial);
        return trial.seen();
    } catch (const std::exception& error) {
        return std::string("it broke off: ") + error.what();
    }
}

bool passes(const CheckTable& table, const Check& check) {
    const std::string seen = outcome(table, check);
    if (seen == check.seen) {
        return true;
    }
    std::cout << check.number << " (IBA " << check.clause << "): " << check.sentence
              << "\n  expected: " << check.seen << "\n  seen:     " << seen << "\n";
    return false;
}

int run(std::string_view first_letters) {
    std::set<std::string_view> numbers;
    size_t run = 0;
    size_t failed = 0;
    for (const CheckTable& table : all_tables()) {
        for (const Check& check : table.checks) {
            if (!numbers.insert(check.number).second) {
                std::cout << check.number << " is the number of two checks\n";
                ++failed;
            }
            if (check.number.starts_with(first_letters)) {
                ++run;
                failed += passes(table, check) ? 0 : 1;
            }
        }
    }
    std::cout << run << " checks, " << failed << " failed\n";
    return failed == 0 && run != 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view argument = argc > 1 ? argv[1] : "";
    return argument == "--list" ? list() : run(argument);
}
