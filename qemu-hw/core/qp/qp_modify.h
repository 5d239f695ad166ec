// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of MODIFY_QP before it takes effect: state transitions, their attributes, and the values
// of the attributes (IBA vol. 1, 10.3.1, 11.2.4.2). Only apply_attributes() changes anything.
#pragma once

#include <span>

#include "port/port.h"
#include "qp/qp.h"

namespace pib::hca {

// Checks the transition, and which attributes it needs and takes.
Verdict check_transition(const QueuePair& qp, const QpAttributes& in);

// Checks the values of the attributes in the mask.
Verdict check_attributes(const QueuePair& qp, const QpAttributes& in, std::span<Port* const> ports);

// The state that the command asks for.
QpState target_state(const QueuePair& qp, const QpAttributes& in);

// Whether `in` makes the QP use its alternate path (IBA 17.2.8); `in` has passed the checks.
bool is_migration_command(const QueuePair& qp, const QpAttributes& in);

// Copies the attributes in the mask, except the state.
void apply_attributes(QpAttributes& attr, const QpAttributes& in);

// Kinds of DLIDs that an address vector may have besides unicast LIDs.
struct LidClass {
    bool multicast;
    bool permissive;
};
// Whether this port can send to an address vector.
Verdict check_address_vector(const AddressVector& av, const Port& port, LidClass allowed);

}  // namespace pib::hca
