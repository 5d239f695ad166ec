#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The include rules: the table of docs/architecture.md, read from the document, and the order of the subfolders in
each folder's README, checked for every #include of the tree and every import of lab/; and that no modules of lab/
import each other in a circle."""
import ast
import pathlib
import re
import sys

# Folders with sources in C or C++ -> patterns of foreign headers that they must not include.
FOREIGN = {
    "hw-interface": (r"^(?!linux/types\.h$)",),
    "ib": (r"^sys/", r"^unistd\.h", r"^pthread", r"^thread$", r"^chrono$", r"^qemu/"),
    "link-memory": (r"^qemu/",),
    "qemu-hw/core": (r"^sys/", r"^unistd\.h", r"^pthread", r"^thread$", r"^chrono$", r"^qemu/", r"^hw/"),
    "qemu-hw/replay": (r"^sys/", r"^unistd\.h", r"^pthread", r"^thread$", r"^qemu/", r"^hw/"),
    "qemu-hw/glue": (),
    "guest-driver": (),
    "guest-provider": (),
    "fabric-switch": (r"^qemu/",),
}
# The headers of C++ folders that C code may include.
SEAM = {("qemu-hw/glue", "pib_hca_core.h"), ("qemu-hw/glue", "pib_link_memory.h"),
        ("qemu-hw/glue", "short_slices.h"), ("qemu-hw/glue", "idle_spin.h")}
# The only folder that includes QEMU.
QEMU_USER = "qemu-hw/glue"

# Folders with subfolders, and the subfolders that each subfolder may include, the lowest first. "Room" is the name of
# such a subfolder in this file. Headers are included by their path from the folder ("memory/mpt.h"; those of ib/ from
# the root). "" is the folder itself, on top.
ROOMS = {
    "ib": {
        "precompiled": (),
        "wire": (),
        "mgmt": ("wire",),
        "link": ("wire",),
    },
    "qemu-hw/core": {
        "base": (),
        "record": ("base",),
        "memory": ("base",),
        "rules": ("base",),
        "strict": ("base", "memory", "rules"),
        "queues": ("base", "memory", "strict"),
        "port": ("base", "memory", "queues"),
        "qp": ("base", "memory", "strict", "queues", "port"),
        "transport": ("base", "memory", "queues", "port", "qp"),
        "mmio": ("base", "memory", "rules", "strict", "queues", "port", "qp", "transport"),
        "commands": ("base", "record", "memory", "rules", "strict", "queues", "port", "qp", "transport", "mmio"),
        "": ("base", "record", "memory", "rules", "strict", "queues", "port", "transport", "mmio", "commands"),
    },
    "fabric-switch": {
        "base": (),
        "switch": ("base",),
        "tls": ("base", "switch"),
        "links": ("base", "switch", "tls"),
        "fabric": ("base", "switch", "links"),
        "control": ("base", "switch", "links", "fabric"),
        "": ("base", "switch", "tls", "links", "fabric", "control"),
    },
}

# The same for lab/: the subfolders that the modules of a subfolder may import. lab/ itself has the commands.
LAB = {
    "base": (),
    "interface": ("base",),
    "build": ("base",),
    "guests": ("base", "build"),
    "hosts": ("base", "guests"),
    "fabric": ("base", "interface", "build", "guests", "hosts"),
    "develop": ("base", "interface", "build", "guests", "fabric"),
    "web": ("base", "interface", "fabric"),
    "wireshark": ("base", "fabric"),
    "bench": ("base", "build", "guests", "fabric", "web"),
    "soak": ("base", "guests", "fabric", "bench"),
    "arm": ("base", "build", "guests"),
    "testing": ("base", "interface", "build", "guests", "fabric", "develop", "bench", "arm"),
    "": ("base", "build", "guests", "hosts", "fabric", "develop", "web", "wireshark", "bench", "soak", "testing"),
}

# Subfolders of the HCA that know nothing of the register interface, so that a second one can stand beside it: no
# #include leads from them to its headers, and they name nothing of it.
CORE = "qemu-hw/core"
NEUTRAL = ("base", "memory", "port", "qp", "transport")
INTERFACE = "hw-interface"
INTERFACE_NAME = re.compile(r"\b(pib_hca_\w+|PIB_HCA_\w+)")

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)


ROW = re.compile(r"^\| (`[^|]+) \|[^|]*\| ([^|]*) \|$", re.M)
NAME = re.compile(r"`([^`]+?)/?`")


def table(text):
    """The table under "Include rules" of docs/architecture.md: folder -> folders that it may use."""
    section = text.partition("## Include rules\n")[2].partition("\n## ")[0]
    return {folder: set(NAME.findall(used)) for names, used in ROW.findall(section) for folder in NAME.findall(names)}


def is_in(folder, others):
    return any(folder == other or folder.startswith(other + "/") for other in others)


def sources(root, folder):
    for path in sorted((root / folder).rglob("*")):
        if path.suffix in (".h", ".c", ".cc"):
            yield path


def our_headers(root):
    """Every name under which a header of ours may be included -> the folder that it is in."""
    names = {}
    for folder in FOREIGN:
        for path in sources(root, folder):
            if path.suffix == ".h":
                place = str(path.parent.relative_to(root))
                names[str(path.relative_to(root))] = place
                names.setdefault(str(path.relative_to(root / folder)), place)
                names.setdefault(path.name, place)
    return names


def faults(root):
    names = our_headers(root)
    may_use = table((root / "docs" / "architecture.md").read_text(encoding="utf-8"))
    for folder in sorted(may_use):
        if not (root / folder).is_dir():
            yield f"docs/architecture.md: {folder} is not a folder"
    for folder, forbidden in FOREIGN.items():
        for path in sources(root, folder):
            place = str(path.parent.relative_to(root))
            row = next((row for row in may_use if is_in(place, (row,))), None)
            for bracket, name in INCLUDE.findall(path.read_text(encoding="utf-8")):
                where = f"{path.relative_to(root)}: #include {name}"
                local = (path.parent / name).exists()
                owner = place if bracket == '"' and local else names.get(name) if bracket == '"' else None
                allowed = (row, *may_use[row]) if row else (folder,)
                if owner and not is_in(owner, allowed) and (folder, name) not in SEAM:
                    yield f"{where}: {row or folder} may not include {owner}"
                if not owner and any(re.search(pattern, name) for pattern in forbidden):
                    yield f"{where}: not allowed in {folder}"


def table_faults():
    """Subfolders that would include or import one above them: the arrows of the pictures point down only."""
    for folder, rooms in (*ROOMS.items(), ("lab", LAB)):
        order = list(rooms)
        for room, below in rooms.items():
            for other in below:
                if other not in order[:order.index(room)]:
                    yield f"{folder}: {room or 'the folder itself'} may not use {other}, which is not below it"


def room_of(path, folder):
    parts = path.relative_to(folder).parts
    return parts[0] if len(parts) > 1 else ""


def room_faults(root):
    for name, rooms in ROOMS.items():
        folder = root / name
        for path in sources(root, name):
            room, where = room_of(path, folder), path.relative_to(root)
            if room not in rooms:
                yield f"{where}: {room} is not one of the rooms of {name}"
                continue
            for bracket, included in INCLUDE.findall(path.read_text(encoding="utf-8")):
                if bracket != '"':
                    continue
                header = folder / included.removeprefix(name + "/")
                if room and (path.parent / included).exists():
                    yield f"{where}: #include {included}: say {room}/{included}"
                elif header.exists():
                    owner = room_of(header, folder)
                    if owner not in (room, *rooms[room]):
                        yield f"{where}: #include {included}: {room or name} may not include {owner or name}"


def resolve(root, name):
    """The file of the core, of ib/ or of hw-interface that a quoted #include names; None for other files."""
    places = (root / CORE / name, root / name, root / INTERFACE / name)
    return next((place for place in places if place.exists()), None)


def reached(root, start):
    """Every header that the #includes of a file lead to -> the file that includes it."""
    found, left = {}, [start]
    while left:
        path = left.pop()
        for bracket, name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            header = resolve(root, name) if bracket == '"' else None
            if header and header not in found:
                found[header] = path
                left.append(header)
    return found


def interface_faults(root):
    for path in sources(root, CORE):
        if room_of(path, root / CORE) not in NEUTRAL:
            continue
        where = path.relative_to(root)
        for name in sorted(set(INTERFACE_NAME.findall(path.read_text(encoding="utf-8")))):
            yield f"{where}: {name} belongs to the register interface, which this room does not know"
        for header, by in reached(root, path).items():
            if header.is_relative_to(root / INTERFACE):
                yield f"{where}: leads to {header.name}, by {by.relative_to(root)}"


def imports(root):
    """The modules of lab/ -> the modules of lab/ that each imports, anywhere in its text."""
    files = {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
             for path in sorted((root / "lab").rglob("*.py"))}
    found = {}
    for name, path in files.items():
        named = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inside = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= inside & files.keys() or {node.module}
        found[name] = (named & files.keys()) - {name}
    return found


def circle_faults(root):
    """Modules of lab/ that import each other in a circle, or from it."""
    left = imports(root)
    while free := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in free}
    for name in sorted(left):
        yield f"{name} leads to a circle: it imports {', '.join(sorted(left[name] & left.keys()))}"


def lab_faults(root):
    """Imports of lab/ that lead from a subfolder to one that is not below it."""
    def room_of_module(name):
        room = name.split(".")[1] if "." in name else ""
        return room if (root / "lab" / room).is_dir() else ""
    for name, others in imports(root).items():
        room = room_of_module(name)
        if room not in LAB:
            yield f"{name}: {room} is not one of the rooms of lab"
            continue
        for other in sorted(others):
            owner = room_of_module(other)
            if owner not in (room, *LAB[room]):
                yield f"{name}: import of {other}: {room or 'lab'} may not import {owner or 'lab'}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = [*table_faults(), *faults(root), *room_faults(root), *interface_faults(root),
             *circle_faults(root), *lab_faults(root)]
    print("\n".join(found) if found else "include rules hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
