# SPDX-License-Identifier: GPL-2.0-or-later
"""Decodes structures of the hardware interface as text: a line for each field, as Wireshark shows a packet."""

import dataclasses

from lab.interface.description import Field, Interface

INDENT = "    "
# The segment after the control segment of a send WQE, by operation. Other operations have none.
SEGMENTS = {"RDMA_WRITE": "rdma", "RDMA_WRITE_WITH_IMM": "rdma", "RDMA_READ": "rdma", "ATOMIC_WRITE": "rdma",
            "CMP_SWAP": "atomic", "FETCH_ADD": "atomic", "MASKED_CMP_SWAP": "atomic", "MASKED_FETCH_ADD": "atomic",
            "LOCAL_INV": "key", "BIND_MW": "bind", "REG_MR": "reg", "FLUSH": "flush"}
DECIMAL = 0x10000               # larger numbers are addresses, GUIDs and keys
DATAGRAM_TYPES = ("SMI", "GSI", "UD")
IMMEDIATE = "imm_data"
# Structures whose imm_data is an R_Key, little-endian, if another field has this value or flag.
HOLDS_KEY = {"pib_hca_wqe_control": ("opcode", "SEND_WITH_INV"), "pib_hca_cqe": ("flags", "INVALIDATED")}


def _number(field: Field, data: bytes) -> int:
    return int.from_bytes(data, "big" if field.kind.startswith("be") else "little")


def _value(field: Field, data: bytes) -> str:
    if not field.is_number:
        return data.hex(" ")
    number = _number(field, data)
    if field.names is not None:
        return f"{field.names.name(number)} ({number:#x})"
    ranged = field.least is not None and field.most is not None and not field.least <= number <= field.most
    return f"{number:#x} ({number})" + (f", not {field.least} to {field.most}" if ranged else "")


def _fields(interface: Interface, struct: str, data: bytes) -> tuple[Field, ...]:
    """The fields of a structure. Its imm_data is a number in the byte order of what it holds."""
    fields = interface.structs[struct].fields
    if struct not in HOLDS_KEY:
        return fields
    name, value = HOLDS_KEY[struct]
    field = next(one for one in fields if one.name == name)
    names, number = field.names, _number(field, data[field.offset:field.offset + field.size])
    if names is None or not (number >> names.of[value] & 1 if names.bits else number == names.of[value]):
        return fields
    return tuple(dataclasses.replace(one, kind="le32") if one.name == IMMEDIATE else one for one in fields)


def lines(interface: Interface, struct: str, data: bytes, at: int = 0, indent: str = "") -> list[str]:
    """Lines for the fields of a structure; for reserved fields only if they are not 0. data: may end early. at: offset
    of the structure in it."""
    found = [f"{indent}{at:3}: {struct}"]
    for field in _fields(interface, struct, data[at:]):
        part = data[at + field.offset:at + field.offset + field.size]
        if len(part) < field.size:
            return found + [f"{indent}{INDENT}{at + field.offset:3}: (ends here)"]
        if field.kind in interface.structs:
            inner = lines(interface, field.kind, data, at + field.offset, indent + INDENT)
            found += [inner[0].replace(field.kind, f"{field.name}: {field.kind}"), *inner[1:]]
        elif not field.is_reserved or any(part):
            found.append(f"{indent}{INDENT}{at + field.offset:3}: {field.name} = {_value(field, part)}")
    return found


def _sges(interface: Interface, data: bytes, at: int, count: int) -> list[str]:
    size = interface.structs["pib_hca_sge"].size
    return [line for one in range(count) if at + one * size < len(data)
            for line in lines(interface, "pib_hca_sge", data, at + one * size)]


def send_wqe(interface: Interface, data: bytes, qp_type: str = "RC") -> list[str]:
    """Lines for a send WQE with its segments. qp_type: a name of PIB_HCA_QP_*."""
    found = lines(interface, "pib_hca_wqe_control", data)
    at = interface.structs["pib_hca_wqe_control"].size
    segment = "ud" if qp_type in DATAGRAM_TYPES else SEGMENTS.get(interface.names["wqe_opcode"].name(data[0]))
    if segment:
        found += lines(interface, f"pib_hca_wqe_{segment}", data, at)
        at += interface.structs[f"pib_hca_wqe_{segment}"].size
    if data[1] >> interface.names["wqe_flag"].of["INLINE"] & 1:
        length = int.from_bytes(data[8:12], "little")
        return found + [f"{at:3}: data = {data[at:at + length].hex(' ')}"]
    return found + _sges(interface, data, at, data[2])


def recv_wqe(interface: Interface, data: bytes) -> list[str]:
    size = interface.structs["pib_hca_recv_wqe"].size
    return lines(interface, "pib_hca_recv_wqe", data) + _sges(interface, data, size, int.from_bytes(data[:4], "little"))


def _brief_value(field: Field, data: bytes) -> str:
    if not field.is_number:
        return data.hex()
    number = _number(field, data)
    if field.names is not None:
        return field.names.name(number)
    return str(number) if number < DECIMAL else f"{number:#x}"


def brief(interface: Interface, struct: str, data: bytes, prefix: str = "") -> list[str]:
    """Names and values of the fields that are not 0, in words for one line. data: may end early."""
    found = []
    for field in _fields(interface, struct, data):
        part = data[field.offset:field.offset + field.size]
        if len(part) < field.size or not any(part):
            continue
        if field.kind in interface.structs:
            found += brief(interface, field.kind, part, f"{prefix}{field.name}.")
        else:
            found.append(f"{prefix}{field.name} {_brief_value(field, part)}")
    return found


def of_command(interface: Interface, opcode: int, data: bytes) -> list[str]:
    """Lines for the input of a command."""
    struct = next((one.input for one in interface.commands if one.opcode == opcode), "")
    return lines(interface, struct, data) if struct else []
