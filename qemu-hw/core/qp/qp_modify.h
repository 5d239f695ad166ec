// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of MODIFY_QP before it takes effect: state transitions, their attributes, and the values
// of the attributes (IBA vol. 1, 10.3.1, 11.2.4.2). Only apply_attributes() changes the QP.
#pragma once

#include <span>

#include "port/port.h"
#include "qp/qp.h"

namespace pib::hca {

// Checks the transition, and that the mask has all attributes that it requires and none that it
// does not permit.
Verdict check_transition(const QueuePair& qp, const QpAttributes& in);

// Checks the values of the attributes in the mask.
Verdict check_attributes(const QueuePair& qp, const QpAttributes& in, std::span<Port* const> ports);

// The state that the command asks for; without kState in its mask, the present state.
QpState target_state(const QueuePair& qp, const QpAttributes& in);

// Whether `in` makes the QP use its alternate path (IBA 17.2.8); `in` has passed the checks.
[[nodiscard]] bool is_migration_command(const QueuePair& qp, const QpAttributes& in);

// Copies the attributes in the mask, except the state.
void apply_attributes(QpAttributes& attr, const QpAttributes& in);

// Kinds of DLIDs that are permitted in an address vector besides unicast LIDs.
struct LidClass {
    bool multicast;
    bool permissive;
};
// Checks that `port` can send with an address vector. Error: BAD_PARAM.
Verdict check_address_vector(const AddressVector& av, const Port& port, LidClass allowed);

}  // namespace pib::hca
