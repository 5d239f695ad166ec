// SPDX-License-Identifier: GPL-2.0-or-later
#include "port/pma_answer.h"

#include "port/hca_port.h"
#include "port/hca_ports.h"

namespace pib::hca {

void count_waits(HcaPorts& ports) {
    unsigned number = 1;
    while (HcaPort* port = ports.find(number)) {
        port->count_waits();
        ++number;
    }
}

std::optional<ib::Mad> answer_pma(HcaPorts& ports, const ib::Mad& request, uint64_t now_ns) {
    count_waits(ports);
    return ports.pma().answer(request, now_ns);
}

}  // namespace pib::hca
