# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs and modules that the lab and its tests call by name come from packages that ./pib installs.

A machine of a developer has more packages than a clean one. These tests judge by the packages from which a program here
comes, so that they need no clean machine."""

import ast
import functools
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

import clean_tree
from lab import environment, paths
from lab.build import debian, deps

PATH = ":".join(name for name in environment.SYSTEM if "local" not in name)
STATUS = pathlib.Path("/") / debian.STATUS
# Calls whose argument is a program, or a list that begins with one.
CALLS = re.compile(r"(subprocess\.(run|Popen|check_output)|ui\.run|child\.Program|process\.start|"
                   r"groups\.RUNNING\.start|shutil\.which|(debian\.)?output)$")
WORDS = re.compile(r"\b(which|output)$")
COMMAND = re.compile(r"argv$|command$")
PROGRAM = re.compile(r"[a-z][\w.+-]*$")
# Folders whose commands and tests bring packages of their own.
MORE = {"lab/develop": deps.DEBUGGER_LIST, "tests/debug": deps.DEBUGGER_LIST, "tests/browser": deps.BROWSER_LIST,
        "tests/packages": deps.CONTAINER_LIST}
# Programs and modules without which the caller says what is missing, or does less.
OPTIONAL = {"ccache", "sudo", "sshd", "virsh", "libvirtd", "libvirt"}
# A file of the lab that only developers need, or that names the package of a missing program, has it from the tests'.
DEVELOPMENT = re.compile(r"lab/(testing|arm|bench)/|lab/build/(checkpatch|sparse|kernel_tree)\.py|lab/wireshark/")
# Python modules of guests, and of debuggers.
INSIDE = {"pyverbs", "gdb", "drgn", "perf_trace_context"}

pytestmark = pytest.mark.skipif(not STATUS.exists(), reason="no packages of Debian here")


# -- packages -----------------------------------------------------------------

def _field(entry: str, name: str) -> str:
    found = re.search(rf"^{name}: (.*)$", entry, re.MULTILINE)
    return found[1] if found else ""


class Packages:
    """The installed packages, from a status file of dpkg."""

    def __init__(self, status: str):
        self.entries = {_field(entry, "Package"): entry for entry in status.split("\n\n")
                        if _field(entry, "Status").endswith(" installed")}
        self.providers: dict[str, list[str]] = {}
        for package, entry in self.entries.items():
            for name in re.findall(r"(?:^|, )([\w.+-]+)", _field(entry, "Provides")):
                self.providers.setdefault(name, []).append(package)

    def minimal(self) -> set[str]:
        """The packages of the smallest Debian."""
        return {package for package, entry in self.entries.items()
                if _field(entry, "Essential") == "yes" or _field(entry, "Priority") == "required"}

    def _needed(self, package: str) -> Iterator[str]:
        """apt takes the first alternative, unless another one is there already."""
        entry = self.entries[package]
        for clause in f"{_field(entry, 'Pre-Depends')},{_field(entry, 'Depends')}".split(","):
            names = [word.split(":")[0] for word in re.findall(r"(?:^|\|)\s*([\w.+-]+)", clause)]
            yield from next(filter(None, (self._installed(name) for name in names)), ())

    def _installed(self, name: str) -> list[str]:
        return [name] if name in self.entries else self.providers.get(name, [])

    def with_needed(self, roots: set[str]) -> set[str]:
        """These packages, and all that they depend on."""
        found: set[str] = set()
        to_do = [package for name in roots for package in self._installed(name)]
        while to_do:
            package = to_do.pop()
            if package not in found:
                found.add(package)
                to_do += self._needed(package)
        return found


@functools.cache
def _owned(*lists: pathlib.Path) -> frozenset[str]:
    """Files of the packages in a clean machine after ./pib deps with these lists."""
    here = Packages(STATUS.read_text())
    wanted = {need.package for file in lists for need in deps.needs(file.read_text())}
    packages = here.with_needed(here.minimal() | {"apt", *clean_tree.MINIMAL} | wanted)
    done = subprocess.run(["dpkg-query", "-L", *sorted(packages)], check=True, capture_output=True, text=True)
    # Until all of Debian is merged, a package may name /bin what PATH finds in /usr/bin.
    return frozenset(line.removeprefix("/usr") for line in done.stdout.splitlines())


def _is_owned(file: str, owned: frozenset[str]) -> bool:
    """Alternatives, such as cc, are links that no package owns to a file that one does."""
    return any(name.removeprefix("/usr") in owned for name in (file, os.path.realpath(file)))


# -- sources ------------------------------------------------------------------

def _head(node: ast.AST, constants: dict[str, str]) -> str:
    """The program that a list, or a word, names."""
    if isinstance(node, (ast.List, ast.Tuple)):
        node = next((one for one in node.elts if not isinstance(one, ast.Starred)), node)
    if isinstance(node, ast.Name):
        return constants.get(node.id, "")
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _commands(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and CALLS.match(ast.unparse(node.func)):
            yield from (one for one in node.args if isinstance(one, (ast.List, ast.Tuple)))
            if WORDS.search(ast.unparse(node.func)):
                yield node.args[0]
        if isinstance(node, ast.Assign) and COMMAND.search(ast.unparse(node.targets[0])):
            yield node.value
        if isinstance(node, ast.FunctionDef) and COMMAND.search(node.name):
            yield from (one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value)


def programs(text: str) -> set[str]:
    """Names of programs in a Python file's calls."""
    tree = ast.parse(text)
    constants = {node.targets[0].id: node.value.value for node in ast.walk(tree)
                 if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
                 and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)}
    return {name for node in _commands(tree) if PROGRAM.match(name := _head(node, constants))}


def modules(text: str) -> set[str]:
    """Names of modules that a Python file imports, without Python's own."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names)


def _files() -> dict[str, pathlib.Path]:
    found = [path for folder in ("lab", "tests") for path in (paths.ROOT / folder).rglob("*.py")]
    return {str(path.relative_to(paths.ROOT)): path for path in found}


def _lists(name: str) -> tuple[pathlib.Path, ...]:
    """Lists of the packages that are there when a file's commands run."""
    more = [file for folder, file in MORE.items() if name.startswith(f"{folder}/")]
    tests = name.startswith("tests/") or DEVELOPMENT.match(name)
    return (deps.LIST, *([deps.TEST_LIST] if tests else []), *more)


def _found(wanted) -> list[tuple[str, str]]:
    """Names that files have, by the function `wanted`, with the file's."""
    return sorted((name, file) for file, path in _files().items() for name in wanted(path.read_text()) - OPTIONAL)


# -- tests --------------------------------------------------------------------

def test_programs_come_from_packages_of_the_lists():
    called = _found(programs)
    assert {"make", "mke2fs", "qemu-img", "dot", "perl", "tshark", "clang-format-19"} <= {name for name, _ in called}
    foreign = [f"{file}: {name}" for name, file in called
               if (place := shutil.which(name, path=PATH)) and not _is_owned(place, _owned(*_lists(file)))]
    assert foreign == []


def test_modules_come_from_packages_of_the_lists():
    files = _files()
    own = {part for file in files for part in pathlib.Path(file).with_suffix("").parts}
    imported = [(name, file) for name, file in _found(modules) if name not in own | INSIDE]
    assert {"pytest", "prometheus_client", "yaml"} <= {name for name, _ in imported}
    origins = [(f"{file}: {name}", spec.origin, file) for name, file in imported
               if (spec := importlib.util.find_spec(name)) and spec.origin.startswith("/usr/lib/python3/")]
    assert [what for what, origin, file in origins if not _is_owned(origin, _owned(*_lists(file)))] == []


def test_calls_are_found_in_a_source():
    text = """
import subprocess, yaml, os.path
from lab import ui
TOOL = "meson"
argv = ["mmdebstrap", "--mode"]
subprocess.run([*before, "mke2fs", "-q"], env={})
ui.run("making a disk", [TOOL, "setup"], "log")
shutil.which("dot")
other(["flex"])
def qemu_argv():
    return ["qemu-img", "--version"]
"""
    assert programs(text) == {"mmdebstrap", "mke2fs", "meson", "dot", "qemu-img"}
    assert modules(text) == {"yaml", "lab"}


def test_packages_bring_what_they_depend_on():
    def entry(name: str, more: str = "", state: str = "install ok installed") -> str:
        return f"Package: {name}\nStatus: {state}\n{more}"
    here = Packages("\n\n".join([
        entry("base", "Essential: yes\n"), entry("mount", "Priority: required\n"),
        entry("awk", "Provides: any-awk (= 1), other\n"), entry("second"),
        entry("a", "Pre-Depends: base (>= 2)\nDepends: gone | b:any (>= 1), any-awk, b | second\n"), entry("b"),
        entry("c", state="deinstall ok config-files")]))
    assert here.minimal() == {"base", "mount"} and here.with_needed({"c"}) == set()
    assert here.with_needed({"a"}) == {"a", "b", "base", "awk"}
