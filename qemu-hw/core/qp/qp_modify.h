// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of MODIFY_QP before it takes effect: state transitions, their attributes, and the values
// of these (IBA vol. 1, 10.3.1, 11.2.5.2). Pure checks; nothing is changed here.
#pragma once

#include <span>

#include "port/port.h"
#include "qp/qp.h"

namespace pib::hca {

// The transition, and which attributes it needs and takes.
Verdict check_transition(const QueuePair& qp, const QpAttributes& in);

// The values of the attributes in the mask.
Verdict check_attributes(const QueuePair& qp, const QpAttributes& in, std::span<Port* const> ports);

// The state that the command asks for.
QpState target_state(const QueuePair& qp, const QpAttributes& in);

// Copies the attributes in the mask.
// `in` makes the QP use its alternate path (IBA 17.2.8); its attributes are valid.
bool is_migration_command(const QueuePair& qp, const QpAttributes& in);

void apply_attributes(QpAttributes& attr, const QpAttributes& in);

// Whether this port can send to an address vector.
struct LidClass {
    bool multicast;
    bool permissive;
};
Verdict check_address_vector(const AddressVector& av, const Port& port, LidClass allowed);

}  // namespace pib::hca
