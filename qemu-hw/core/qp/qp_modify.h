// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of MODIFY_QP before it takes effect: state transitions, their attributes, and the values
// of these (IBA vol. 1, 10.3.1, 11.2.5.2). Pure checks; nothing is changed here.
#pragma once

#include <span>

#include "port/port.h"
#include "qp/qp.h"

namespace pib::hca {

// OK, BAD_STATE (no such transition, or CUR_STATE is not the state), BAD_PARAM (an attribute is
// missing, or not allowed here), NOT_SUPPORTED (path migration, queue resizing).
CmdStatus check_transition(const QueuePair& qp, const QpAttributes& in);

// OK, BAD_PARAM, BAD_RESERVED or NOT_SUPPORTED. Looks at the attributes in the mask only.
CmdStatus check_attributes(const QueuePair& qp, const QpAttributes& in,
                           std::span<Port* const> ports);

// The state that the command asks for.
QpState target_state(const QueuePair& qp, const QpAttributes& in);

// Copies the attributes in the mask.
// `in` makes the QP use its alternate path (IBA 17.2.8); its attributes are valid.
bool is_migration_command(const QueuePair& qp, const QpAttributes& in);

void apply_attributes(QpAttributes& attr, const QpAttributes& in);

// Whether an address vector can be sent to from this port: SL, LID (`multicast` and permissive LIDs
// where allowed), GID index.
struct LidClass {
    bool multicast;
    bool permissive;
};
bool address_vector_is_valid(const AddressVector& av, const Port& port, LidClass allowed);

}  // namespace pib::hca
