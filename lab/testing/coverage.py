# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test coverage: lines and branches that the unit tests execute.

Prints the table by folder that CONTRIBUTING.md shows. A condition in a parser of untrusted input that has a branch
without a test needs a reason in tests/unreached-branches.md; one without a reason counts as a failed test."""

import dataclasses
import json
import pathlib
import re

from lab.base import paths, ui
from lab.base.counts import Count, FAILURE
from lab.build import host_build
from lab.testing import runners
from lab.testing.progress import Progress
from lab.testing.reasons import names

# A file belongs to the first of these folders that contains it.
FOLDERS = ("ib/wire", "ib/mgmt", "ib/link", "link-memory", "qemu-hw/core/base", "qemu-hw/core/memory",
           "qemu-hw/core/queues", "qemu-hw/core/port", "qemu-hw/core/qp", "qemu-hw/core/transport",
           "qemu-hw/core/commands", "qemu-hw/core/mmio", "qemu-hw/core/rules", "qemu-hw/core/strict",
           "qemu-hw/core/record", "qemu-hw/core", "qemu-hw/replay", "fabric-switch/base", "fabric-switch/switch",
           "fabric-switch/links", "fabric-switch/fabric", "fabric-switch/control", "fabric-switch/tls", "fabric-switch")
# Parts of the program. The row of a part is the sum of its folders.
PARTS = ("ib", "qemu-hw/core", "fabric-switch")
# Parsers of untrusted input: packets, MADs, frames, WQEs, commands, requests at the control socket.
PARSERS = ("ib/wire/burst.cc", "ib/wire/link_frame.cc", "ib/wire/packet.cc", "ib/wire/packet.h", "ib/wire/utf8.cc",
           "ib/mgmt/smi.cc", "ib/link/handshake.cc", "ib/link/peer_offer.cc", "ib/link/peer_copy_switch.cc",
           "qemu-hw/core/queues/wqe.cc", "qemu-hw/core/commands/command_queue.cc",
           "qemu-hw/core/commands/interface_records.cc", "fabric-switch/control/capture_filter.cc",
           "fabric-switch/control/control_faults.cc")
REASONS = "tests/unreached-branches.md"
# Format of REASONS: "## FILE", then an entry for each condition.
HEADING = re.compile(r"^## (\S+)$", re.MULTILINE)
# The compiler that REASONS names. Another compiler counts other branches for the same condition.
COMPILER = re.compile(r"\bof (gcc)\s+(\d+)\b", re.IGNORECASE)
REPORT = "coverage.json"


@dataclasses.dataclass
class Share:
    covered: int = 0
    total: int = 0

    def add(self, covered: int, total: int) -> None:
        self.covered += covered
        self.total += total

    def __str__(self) -> str:
        return f"{100 * self.covered / self.total:.1f} %" if self.total else "–"


@dataclasses.dataclass(frozen=True)
class Condition:
    """A condition with a branch that no test takes."""
    file: str
    line: int
    text: str


def _argv(directory: pathlib.Path, report: pathlib.Path) -> list:
    filters = [argument for folder in FOLDERS for argument in ("--filter", f"{paths.ROOT / folder}/")]
    return ["gcovr", "--root", paths.ROOT, "--object-directory", directory, "--exclude-throw-branches",
            "--exclude-unreachable-branches", "--json", report, *filters, directory]


def _lines(file: dict) -> list[dict]:
    return [line for line in file["lines"] if not line.get("gcovr/noncode")]


def by_folder(report: dict) -> dict[str, tuple[Share, Share]]:
    """(lines, branches) of each folder, of each part, and of all files. `report`: gcovr's JSON."""
    shares = {name: (Share(), Share()) for name in (*FOLDERS, *(f"{part}, all" for part in PARTS), "all")}
    for file in report["files"]:
        folder = next((name for name in FOLDERS if file["file"].startswith(f"{name}/")), None)
        part = next((f"{name}, all" for name in PARTS if file["file"].startswith(f"{name}/")), None)
        branches = [branch["count"] > 0 for line in _lines(file) for branch in line["branches"]]
        lines = [line["count"] > 0 for line in _lines(file)]
        for name in filter(None, (folder, part, "all")):
            shares[name][0].add(sum(lines), len(lines))
            shares[name][1].add(sum(branches), len(branches))
    return shares


def markdown(shares: dict[str, tuple[Share, Share]]) -> str:
    """The coverage as the table of CONTRIBUTING.md."""
    rows = [f"| {name} | {lines} | {branches} |" for name, (lines, branches) in shares.items() if lines.total]
    return "\n".join(["| folder | lines | branches |", "|---|---|---|", *rows])


def unreached(report: dict) -> list[Condition]:
    """Conditions in parsers with a branch that no test takes."""
    found = []
    for file in report["files"]:
        if file["file"] in PARSERS:
            source = (paths.ROOT / file["file"]).read_text().splitlines()
            found += [Condition(file["file"], line["line_number"], source[line["line_number"] - 1].strip())
                      for line in _lines(file) if any(branch["count"] == 0 for branch in line["branches"])]
    return found


def reasons(text: str) -> dict[str, set[str]]:
    """The conditions that have a reason, by file. `text`: of tests/unreached-branches.md."""
    pieces = HEADING.split(text)
    return {file: set(names(entries)) for file, entries in zip(pieces[1::2], pieces[2::2])}


def _is_compiler(text: str, directory: pathlib.Path) -> bool:
    """Whether the build directory uses the compiler that REASONS names."""
    used = json.loads((directory / "meson-info" / "intro-compilers.json").read_text())["host"]["cpp"]
    named = COMPILER.search(text)
    return named is not None and (used["id"], used["version"].split(".")[0]) == (named[1].lower(), named[2])


def _check_reasons(report: dict) -> Count:
    text = (paths.ROOT / REASONS).read_text()
    given = reasons(text)
    missing = [one for one in unreached(report) if one.text not in given.get(one.file, set())]
    for one in missing:
        print(f"{one.file}:{one.line}: no test takes a branch of: {one.text}")
    if not missing:
        return Count(passed=1)
    if not _is_compiler(text, host_build.COVERAGE):
        ui.say(f"{len(missing)} conditions on untrusted input have a branch without a test. This may be the compiler, "
               f"which is not the one of {REASONS}")
        return Count()
    ui.say(f"{len(missing)} conditions on untrusted input lack a test: write it, or give a reason in {REASONS}")
    return FAILURE


def _forget_earlier_runs() -> None:
    """Removes the counts of earlier runs. gcov adds to existing counts, so counts of removed tests would stay."""
    for counts in host_build.COVERAGE.rglob("*.gcda"):
        counts.unlink()


def coverage(progress: Progress) -> Count:
    _forget_earlier_runs()
    count = runners.meson(progress, host_build.COVERAGE)
    path = paths.RUN / REPORT
    ui.run("adding up the coverage", _argv(host_build.COVERAGE, path), "coverage", cwd=paths.ROOT)
    report = json.loads(path.read_text())
    print(markdown(by_folder(report)))
    return count + _check_reasons(report)
