# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test coverage: lines and branches that the unit tests execute, by folder."""

import dataclasses
import json
import pathlib

from lab import paths, table, ui
from lab.build import host_build
from lab.testing import runners
from lab.testing.counts import Count
from lab.testing.progress import Progress

# A file counts to the first folder that contains it.
FOLDERS = ("ib/wire", "ib/mgmt", "ib/link", "link-memory", "qemu-hw/core/base", "qemu-hw/core/memory",
           "qemu-hw/core/queues", "qemu-hw/core/port", "qemu-hw/core/qp", "qemu-hw/core/transport",
           "qemu-hw/core/commands", "qemu-hw/core/mmio", "qemu-hw/core", "fabric-switch")
SUMMARY = "coverage.json"


@dataclasses.dataclass
class Share:
    covered: int = 0
    total: int = 0

    def add(self, covered: int, total: int) -> None:
        self.covered += covered
        self.total += total

    def __str__(self) -> str:
        return f"{100 * self.covered / self.total:.1f} %" if self.total else "–"


def _argv(directory: pathlib.Path, summary: pathlib.Path) -> list:
    filters = [argument for folder in FOLDERS for argument in ("--filter", f"{paths.ROOT / folder}/")]
    return ["gcovr", "--root", paths.ROOT, "--object-directory", directory, "--exclude-throw-branches",
            "--exclude-unreachable-branches", "--json-summary", summary, *filters, directory]


def by_folder(summary: dict) -> dict[str, tuple[Share, Share]]:
    """Lines and branches of each folder, and of all files. `summary`: gcovr's."""
    shares = {name: (Share(), Share()) for name in (*FOLDERS, "all")}
    for file in summary["files"]:
        folder = next((name for name in FOLDERS if file["filename"].startswith(f"{name}/")), None)
        for name in filter(None, (folder, "all")):
            lines, branches = shares[name]
            lines.add(file["line_covered"], file["line_total"])
            branches.add(file["branch_covered"], file["branch_total"])
    return shares


def coverage(progress: Progress) -> Count:
    count = runners.meson(progress, host_build.COVERAGE)
    summary = paths.RUN / SUMMARY
    ui.run("adding up the coverage", _argv(host_build.COVERAGE, summary), "coverage", cwd=paths.ROOT)
    rows = [[name, str(lines), str(branches)]
            for name, (lines, branches) in by_folder(json.loads(summary.read_text())).items() if lines.total]
    print(table.table(["folder", "lines", "branches"], rows))
    return count
