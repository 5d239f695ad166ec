# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints the constants of the hardware interface, and the offsets of structures' fields, for languages that cannot read
C headers:

    python3 -I -B lab/start.py lab.interface.constants python|rust

A field's offset in bytes is NAME_FIELD_OFFSET; a structure's size in bytes is NAME_SIZE."""

import sys

from lab.interface import description

NOTE = "The hardware interface of pib-hca. lab/interface/constants.py has made this file from hw-interface/*.toml."
LICENCE = "SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB"


def all_of(interface: description.Interface) -> dict[str, int]:
    found = dict(interface.constants())
    for struct in interface.structs.values():
        name = struct.name.upper()
        found[f"{name}_SIZE"] = struct.size
        for field in struct.fields:
            found[f"{name}_{field.name.upper()}_OFFSET"] = field.offset
    return found


def python(constants: dict[str, int]) -> str:
    lines = [f"# {LICENCE}", f'"""{NOTE}"""', ""]
    return "\n".join(lines + [f"{name} = {value:#x}" for name, value in constants.items()]) + "\n"


def rust(constants: dict[str, int]) -> str:
    lines = [f"// {LICENCE}", f"//! {NOTE}", ""]
    return "\n".join(lines + [f"pub const {name}: {'u64' if value >> 32 else 'u32'} = {value:#x};"
                              for name, value in constants.items()]) + "\n"


FORMS = {"python": python, "rust": rust}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in FORMS:
        sys.exit(f"Name a language: {' or '.join(FORMS)}")
    print(FORMS[sys.argv[1]](all_of(description.interface())), end="")
