// SPDX-License-Identifier: GPL-2.0-or-later
// Common part of tests with random traffic: chooses which flow posts next, and moves the clock. A
// Flow has `posted`, a container of requests that are posted and not known to be complete.
#pragma once

#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

#include "pair.h"

namespace pib::hca::test {

// The seed in PIB_RANDOM_SEED, or a new one in each run. Prints it, so that a failure can be
// repeated.
inline uint64_t new_seed() {
    const char* asked = std::getenv("PIB_RANDOM_SEED");
    const uint64_t seed =
        asked != nullptr ? std::strtoull(asked, nullptr, 10) : std::random_device()();
    std::cerr << "PIB_RANDOM_SEED=" << seed << '\n';
    return seed;
}

template <typename Flow>
class RandomDrive {
  public:
    virtual ~RandomDrive() = default;
    Pair& pair() { return pair_; }
    const std::vector<Flow>& flows() const { return flows_; }

  protected:
    // `most_posted`: limit of the posted requests of each flow.
    RandomDrive(uint64_t seed, const Faults& faults, size_t most_posted)
        : random_(seed), most_posted_(most_posted) {
        pair_.faults = faults;
        pair_.random.seed(seed + 1);
    }

    virtual void post(Flow& flow) = 0;
    virtual void replenish(Flow& flow) = 0;  // may post receives
    virtual bool poll() = 0;                 // false: nothing has completed

    void post_all(uint64_t operations) {
        for (uint64_t i = 0; i < operations; ++i) {
            Flow& flow = flows_[random_() % flows_.size()];
            while (flow.posted.size() == most_posted_) {
                make_progress();
            }
            post(flow);
            replenish(flows_[random_() % flows_.size()]);
            if (random_() % 4 == 0) {
                pair_.settle();
                poll();
            }
        }
    }

    void make_progress() {
        for (Flow& flow : flows_) {
            replenish(flow);
        }
        pair_.settle();
        if (!poll()) {
            pair_.step_clock();
            poll();
        }
    }

    // Runs until done(flow) is true for all flows, or up to a limit; the caller checks the result.
    template <typename Done>
    void progress_until(Done&& done) {
        for (unsigned i = 0; i < 1'000'000 && !std::ranges::all_of(flows_, done); ++i) {
            make_progress();
        }
    }

    Pair pair_;
    std::vector<Flow> flows_;
    std::mt19937_64 random_;

  private:
    const size_t most_posted_;
};

}  // namespace pib::hca::test
