# SPDX-License-Identifier: GPL-2.0-or-later
"""Methods of each C++ class or enumeration, and the source files that define them, as universal-ctags finds them."""

import dataclasses
import json
import pathlib
import subprocess

CTAGS = "ctags"
ARGUMENTS = ("--options=NONE", "--languages=C++", "--langmap=C++:.h.cc", "--output-format=json", "--fields=+Sne",
             "--kinds-C++=fgpcs", "-f", "-")


@dataclasses.dataclass
class Class:
    name: str                   # with its namespaces
    path: str                   # file with the definition
    others: set[str] = dataclasses.field(default_factory=set)       # further files that define the name
    methods: set[str] = dataclasses.field(default_factory=set)
    sources: set[str] = dataclasses.field(default_factory=set)


def _is_method(tag: dict, classes: dict) -> bool:
    """Constructors, destructors and operators count, also defaulted and deleted ones; lambdas do not."""
    return (tag["kind"] in ("function", "prototype") and tag.get("scope", "") in classes
            and not tag["name"].startswith("__anon"))


def _method(tag: dict) -> str:
    return tag["name"] + "".join(tag.get("signature", "").split())


def read(root: pathlib.Path, files: list[pathlib.Path]) -> dict[str, Class]:
    names = [str(path.relative_to(root)) for path in files]
    listed = subprocess.run([CTAGS, *ARGUMENTS, *names], cwd=root, capture_output=True, text=True, check=True).stdout
    tags = [tag for tag in map(json.loads, listed.splitlines()) if tag["_type"] == "tag"]
    classes = {}
    for tag in tags:
        if tag["kind"] in ("class", "struct", "enum"):
            name = "::".join(filter(None, (tag.get("scope"), tag["name"])))
            found = classes.setdefault(name, Class(name, tag["path"]))
            found.others |= {tag["path"]} - {found.path}
    methods = [tag for tag in tags if _is_method(tag, classes)]
    for tag in methods:
        found = classes[tag["scope"]]
        if tag["path"] == found.path:
            found.methods.add(_method(tag))
        else:
            found.sources.add(tag["path"])
    return classes
