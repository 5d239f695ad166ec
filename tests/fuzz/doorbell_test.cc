// SPDX-License-Identifier: GPL-2.0-or-later
// Doorbells of the provider through the shadow doorbell page.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "provider/lying_device.h"

TEST_CASE("provider: a poster that stands still delays no other poster") {
    for (const bool awake : {false, true}) {
        const char* fault = post_beside_stopped_poster(awake);
        CHECK(std::string(fault == nullptr ? "" : fault).empty());
    }
}
