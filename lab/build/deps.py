# SPDX-License-Identifier: GPL-2.0-or-later
"""Installs what packages.txt asks for and the machine lacks."""

import dataclasses
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

from lab import ui
from lab.build import debian

LIST = pathlib.Path(__file__).with_name("packages.txt")
BACKPORTS_FILE = "/etc/apt/sources.list.d/pib-hca-backports.sources"
RELEASES = ("bookworm", "trixie")


@dataclasses.dataclass(frozen=True)
class Need:
    package: str
    minimum: str

    def met_by(self, version: str) -> bool:
        return bool(version) and (not self.minimum or debian.at_least(version, self.minimum))


def needs(text: str) -> list[Need]:
    """Reads packages.txt: "package [>= version]  # comment"."""
    found = []
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) not in (1, 3) or len(words) == 3 and words[1] != ">=":
            raise ui.LabError(f"{LIST.name}: not understood: {line}")
        found.append(Need(words[0], words[2] if len(words) == 3 else ""))
    return found


def missing() -> list[Need]:
    return [need for need in needs(LIST.read_text())
            if not need.met_by(debian.installed(need.package))]


def candidates(package: str) -> list[tuple[str, str]]:
    """(version, suite) pairs apt could install, in no particular order."""
    found = []
    for line in debian.output("apt-cache", "madison", package).splitlines():
        columns = [column.strip() for column in line.split("|")]
        if len(columns) == 3 and columns[2].endswith("Packages"):
            suite = columns[2].split()[1].split("/")[0]
            found.append((columns[1], suite))
    return found


@dataclasses.dataclass(frozen=True)
class Selection:
    """A package, and the suite that apt must be told to take it from ("": the one it prefers anyway)."""
    package: str
    suite: str = ""


def selection(need: Need) -> Selection | None:
    """How apt gets a version that is new enough; None when no suite that it knows has one."""
    default = debian.output("apt-cache", "policy", need.package)
    candidate = next((line.split(":", 1)[1].strip() for line in default.splitlines()
                      if line.strip().startswith("Candidate:")), "")
    if candidate != "(none)" and need.met_by(candidate):
        return Selection(need.package)
    return next((Selection(need.package, suite) for version, suite in candidates(need.package)
                 if need.met_by(version)), None)


def backports_source() -> str:
    """A sources file for the backports of this release, on this machine's own mirror."""
    return ("Types: deb\n"
            f"URIs: {debian.mirror()}\n"
            f"Suites: {debian.codename()}-backports\n"
            "Components: main\n"
            f"Signed-By: {debian.KEYRING}\n")


def as_root(script: str, title: str) -> None:
    """Runs a shell script as root, or says how to."""
    argv = ["sh", "-ec", script]
    if os.geteuid() != 0:
        sudo = shutil.which("sudo")
        usable = sudo and (sys.stdin.isatty() or subprocess.run(
            [sudo, "-n", "true"], capture_output=True).returncode == 0)
        if not usable:
            raise ui.LabError(f"{title} needs root, and there is no sudo here. Run as root:\n\n"
                              f"{script}\n")
        argv = [sudo, *argv]
    ui.run(title, argv, "deps", stdin=sys.stdin if sys.stdin.isatty() else None)


def _apt(arguments: str) -> str:
    return ("DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "
            "-o Acquire::Retries=3 -o Dpkg::Use-Pty=0 -q " + arguments)


def install_script(selections: list[Selection]) -> str:
    """One apt-get for each suite. --target-release covers a package's dependencies as well, which
    "package/suite" does not: QEMU of a backports suite depends on that suite's qemu-system-common."""
    lines = []
    for suite in sorted({selected.suite for selected in selections}):
        target = f"--target-release={shlex.quote(suite)} " if suite else ""
        packages = shlex.join(selected.package for selected in selections if selected.suite == suite)
        lines.append(_apt(f"install -y --no-install-recommends {target}{packages}") + "\n")
    return "".join(lines)


def _backports_script() -> str:
    return (f"cat > {BACKPORTS_FILE} <<'EOF'\n{backports_source()}EOF\n" + _apt("update") + "\n")


def _select(lacking: list[Need]) -> tuple[list[Selection], list[Need]]:
    chosen = [(need, selection(need)) for need in lacking]
    return ([found for _, found in chosen if found], [need for need, found in chosen if not found])


def install() -> None:
    """Brings the machine to what packages.txt asks for; nothing to do is quick and silent."""
    if debian.codename() not in RELEASES:
        raise ui.LabError("the lab installs its packages on Debian 12 (bookworm) and 13 (trixie); "
                          f"this is '{debian.codename()}'. lab/build/packages.txt says what it needs.")
    lacking = missing()
    if not lacking:
        return
    ui.say("missing packages: " + " ".join(need.package for need in lacking))
    chosen, unknown = _select(lacking)
    if unknown:
        as_root(_apt("update") + "\n", "updating the package lists")
        chosen, unknown = _select(lacking)
    if unknown and not any(s.name.endswith("-backports") for s in debian.suites()):
        as_root(_backports_script(), f"adding {debian.codename()}-backports ({BACKPORTS_FILE})")
        chosen, unknown = _select(lacking)
    if unknown:
        raise ui.LabError("no suite that apt knows has: " + ", ".join(
            f"{need.package} {'>= ' + need.minimum if need.minimum else ''}".strip()
            for need in unknown))
    as_root(install_script(chosen), f"installing {len(chosen)} packages")
    still = missing()
    if still:
        raise ui.LabError("still missing after the installation: "
                          + " ".join(need.package for need in still))
