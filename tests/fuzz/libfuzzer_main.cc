// SPDX-License-Identifier: GPL-2.0-or-later
// The entry point that libFuzzer calls.
#include "fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    pib::fuzz::run({data, size});
    return 0;
}
