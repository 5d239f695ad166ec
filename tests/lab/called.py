# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs and modules that the lab and its tests call by name, found in their sources.

    PYTHONPATH=.:tests/lab /usr/bin/python3 -B -c 'import called; called.check()'

fails on a machine that lacks one of them after ./pib deps."""

import ast
import importlib.util
import pathlib
import re
import shutil
import sys
from collections.abc import Callable, Iterator

from lab.base import environment, paths
from lab.build import deps

PATH = ":".join(name for name in environment.SYSTEM if "local" not in name)
# Calls whose argument is a program, or a list that begins with one.
CALLS = re.compile(r"(subprocess\.(run|Popen|check_output)|ui\.run|child\.Program|process\.start|"
                   r"groups\.RUNNING\.start|shutil\.which|(debian\.)?output)$")
WORDS = re.compile(r"\b(which|output)$")
COMMAND = re.compile(r"argv$|command$")
PROGRAM = re.compile(r"[a-z][\w.+-]*$")
# Folders whose commands and tests bring packages of their own.
MORE = {"lab/develop": deps.DEBUGGER_LIST, "tests/lab/develop": deps.DEBUGGER_LIST, "tests/debug": deps.DEBUGGER_LIST,
        "tests/browser": deps.BROWSER_LIST, "tests/packages": deps.PACKAGING_LIST}
# Programs and modules that may be missing: their caller then names the package, or does less.
OPTIONAL = {"ccache", "sudo", "sshd", "virsh", "libvirtd", "libvirt", "virt-xml-validate", "no-such-program"}
# Files of the lab that only developers need, or that name the package of a missing program. The tests' list of packages
# may have their programs.
DEVELOPMENT = re.compile(r"lab/(testing|arm|bench)/|lab/build/(checkpatch|sparse|kernel_tree)\.py|lab/wireshark/")
# Python modules of guests, and of debuggers.
INSIDE = {"pyverbs", "gdb", "drgn", "perf_trace_context"}


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


def lists(name: str) -> tuple[pathlib.Path, ...]:
    """Lists of the packages that are there when a file's commands run."""
    more = [file for folder, file in MORE.items() if name.startswith(f"{folder}/")]
    tests = name.startswith("tests/") or DEVELOPMENT.match(name)
    return (deps.LIST, *([deps.TEST_LIST] if tests else []), *more)


def names(wanted: Callable[[str], set[str]]) -> list[tuple[str, str]]:
    """Names that the function `wanted` finds in each file, with the name of the file."""
    return sorted((name, file) for file, path in _files().items() for name in wanted(path.read_text()) - OPTIONAL)


def foreign_modules() -> list[tuple[str, str]]:
    """Modules that are neither ours nor Python's, with the files that import them."""
    own = {part for file in _files() for part in pathlib.Path(file).with_suffix("").parts}
    own |= {path.stem for path in (paths.ROOT / "packaging").glob("*.py")}
    return [(name, file) for name, file in names(modules) if name not in own | INSIDE]


def check() -> None:
    lacking = [f"{file}: {name}" for name, file in names(programs) if not shutil.which(name, path=PATH)]
    lacking += [f"{file}: {name}" for name, file in foreign_modules() if not importlib.util.find_spec(name)]
    if lacking := [what for what in lacking if not what.startswith(tuple(MORE))]:
        sys.exit(f"called, but not installed: {', '.join(lacking)}")
