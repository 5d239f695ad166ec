# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs and modules that the lab and its tests call by name come from packages that ./pib installs.

A developer's machine has more packages than a clean one, so these tests look up the package of each program."""

import functools
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest

import called
import clean_tree
from lab.build import debian, deps

STATUS = pathlib.Path("/") / debian.STATUS

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
        """Yields the first installed alternative of each dependency, as apt takes it."""
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
    # A package may still have a file in /bin that PATH finds in /usr/bin.
    return frozenset(line.removeprefix("/usr") for line in done.stdout.splitlines())


def _is_owned(file: str, owned: frozenset[str]) -> bool:
    """Alternatives, such as cc, are links: no package owns the link, but one owns the file that it leads to."""
    return any(name.removeprefix("/usr") in owned for name in (file, os.path.realpath(file)))


# -- tests --------------------------------------------------------------------

def test_programs_come_from_packages_of_the_lists():
    found = called.names(called.programs)
    assert {"make", "mke2fs", "qemu-img", "dot", "perl", "tshark", "clang-format-19"} <= {name for name, _ in found}
    foreign = [f"{file}: {name}" for name, file in found
               if (place := shutil.which(name, path=called.PATH)) and not _is_owned(place, _owned(*called.lists(file)))]
    assert foreign == [], "write their packages into lab/build/packages.txt or test-packages.txt"


def test_modules_come_from_packages_of_the_lists():
    imported = called.foreign_modules()
    assert {"pytest", "prometheus_client", "yaml"} <= {name for name, _ in imported}
    origins = [(f"{file}: {name}", spec.origin, file) for name, file in imported
               if (spec := importlib.util.find_spec(name)) and spec.origin.startswith("/usr/lib/python3/")]
    assert [what for what, origin, file in origins if not _is_owned(origin, _owned(*called.lists(file)))] == []


def test_a_machine_that_lacks_a_program_is_noticed(monkeypatch, tmp_path):
    """A clean tree is such a machine if its packages do not contain a program."""
    with pytest.raises(SystemExit, match=r"lab/fabric/map\.py: dot"):
        monkeypatch.setattr(called, "PATH", str(tmp_path))
        called.check()


def test_calls_are_found_in_a_source():
    text = """
import subprocess, yaml, os.path
from lab.base import ui
TOOL = "meson"
argv = ["mmdebstrap", "--mode"]
subprocess.run([*before, "mke2fs", "-q"], env={})
ui.run("making a disk", [TOOL, "setup"], "log")
shutil.which("dot")
other(["flex"])
def qemu_argv():
    return ["qemu-img", "--version"]
"""
    assert called.programs(text) == {"mmdebstrap", "mke2fs", "meson", "dot", "qemu-img"}
    assert called.modules(text) == {"yaml", "lab"}


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
