// SPDX-License-Identifier: GPL-2.0-or-later
// Guests whose cables are sockets to a running pib-switch, on the clock of this machine.
#pragma once

#include <memory>
#include <vector>

#include "base/unique_fd.h"
#include "subnet.h"

namespace pib::test {

class LiveSubnet final : public World {
  public:
    // Creates a guest for each socket. The switch admits the guests in this order.
    explicit LiveSubnet(std::vector<fabric::UniqueFd> sockets);

    Guest& guest(unsigned index) { return *guests_[index]; }

    void settle() override;
    // Ignores `within_ns`, because real time depends on the machine; fails only after a hang.
    bool run_until(const std::function<bool()>& done, uint64_t within_ns) override;
    bool run_until(const std::function<bool()>& done) { return run_until(done, 0); }

  private:
    void add(fabric::UniqueFd socket);

    std::vector<std::unique_ptr<Guest>> guests_;
};

}  // namespace pib::test
