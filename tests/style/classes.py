# SPDX-License-Identifier: GPL-2.0-or-later
"""Methods of each C++ class or enumeration, and the source files that define them, as universal-ctags finds them."""

import collections
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
    """Constructors, destructors, operators and lambdas do not count."""
    scope = tag.get("scope", "")
    return (tag["kind"] in ("function", "prototype") and scope in classes
            and tag["name"].lstrip("~") != scope.split("::")[-1]
            and not tag["name"].startswith(("operator", "__anon")))


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
    out_of_line: dict[str, set[str]] = collections.defaultdict(set)
    for tag in tags:
        if not _is_method(tag, classes):
            continue
        found = classes[tag["scope"]]
        if tag["path"] == found.path:
            found.methods.add(tag["name"] + "".join(tag.get("signature", "").split()))
        else:
            out_of_line[found.name].add(tag["path"])
    for name, sources in out_of_line.items():
        classes[name].sources |= sources
    return classes
