# SPDX-License-Identifier: GPL-2.0-or-later
"""A copy of the checkout in the cache, built without sanitizers, whose code may be changed.

Only programs that the tests need are built, so that a change of one file costs one compilation and some links."""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess

from lab.base import groups, paths, ui
from lab.build import builder, cache, checkout, host_build

LOG = "mutants"
LINKER = "lld"                  # links a test several times as fast as the default linker
NO_END = "no end"
MOST_BYTES = 8 << 30            # limit of a test's data: a mutant may allocate without end
OPTIONS = ("-Doptimization=1", "-Ddebug=false", "-Dmanuals=disabled")


@dataclasses.dataclass(frozen=True)
class Test:
    """A unit test. targets: files that ninja builds for it."""
    name: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    targets: tuple[str, ...]


def opened() -> contextlib.AbstractContextManager[pathlib.Path]:
    """The cache directory of this checkout's tree. It keeps the last build, so the next one is incremental."""
    return cache.changing(f"mutants-{paths.recipe_hash(str(paths.ROOT))}")


class Tree:
    def __init__(self, directory: pathlib.Path):
        self.source, self.build = directory / "source", directory / "build"

    def bring(self) -> None:
        """Makes the copy equal to the checkout. Unchanged files keep their times, so ninja compiles only the others."""
        wanted = {str(name) for name in checkout.files()}
        self.build.mkdir(parents=True, exist_ok=True)
        there = {str(path.relative_to(self.source)) for path in self.source.rglob("*") if not path.is_dir()}
        for gone in {name for name in there - wanted if not name.startswith(f"{paths.RUN.name}/")}:
            (self.source / gone).unlink()
        for name in sorted(wanted):
            builder.copy_if_changed(paths.ROOT / name, self.source / name)

    def configure(self) -> None:
        # ccache keeps no object that was compiled with precompiled headers.
        quicker = () if shutil.which("ccache") else (host_build.PRECOMPILED, host_build.NO_WERROR)
        again = ["--reconfigure"] if (self.build / "build.ninja").exists() else []
        linker = {"CC_LD": LINKER, "CXX_LD": LINKER} if shutil.which(f"ld.{LINKER}") else {}
        ui.run("configuring the tree of the mutants",
               ["meson", "setup", self.build, self.source, *again, *OPTIONS, *quicker], LOG,
               env={**os.environ, **linker})

    def _introspect(self, what: str) -> list[dict]:
        return json.loads(subprocess.run(["meson", "introspect", self.build, f"--{what}"], check=True,
                                         capture_output=True, text=True).stdout)

    def tests(self) -> list[Test]:
        """Meson's tests that are programs of the build; not the tests of source texts."""
        files = {target["id"]: [os.path.relpath(name, self.build) for name in target["filename"]]
                 for target in self._introspect("targets")}
        return [Test(entry["name"], tuple(entry["cmd"]), tuple(entry["env"].items()),
                     tuple(name for target in entry["depends"] for name in files[target]))
                for entry in self._introspect("tests") if pathlib.Path(entry["cmd"][0]).is_relative_to(self.build)]

    def compile(self, tests: list[Test]) -> None:
        targets = sorted({target for test in tests for target in test.targets})
        ui.run(f"compiling {len(tests)} tests", ["ninja", "-C", self.build, *targets], LOG)

    def run(self, test: Test, limit_s: float) -> str:
        """Runs a test; returns how it fails, or "" if it passes."""
        process = groups.RUNNING.start(["prlimit", f"--data={MOST_BYTES}", "--core=0", *test.argv], cwd=self.build,
                                       env={**os.environ, **dict(test.env)}, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"{NO_END} after {limit_s:.0f} s"
        finally:
            groups.stop(process)            # ends its child processes too
            groups.RUNNING.forget(process)
            groups.RUNNING.check()
        return f"status {status}" if status else ""
