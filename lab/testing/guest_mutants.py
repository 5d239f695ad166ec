# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests mutants of driver and provider in guests that are booted from the copy of the tree."""

import os
import subprocess

from lab.base import groups, paths, ui
from lab.build import mutant_tree
from lab.build.mutant_tree import LOG, Test, Tree
from lab.testing import mutant, patches
from lab.testing.mutant import Mutant

MOST_S = 1800
PYTEST = ("/usr/bin/python3", "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--nightly")
BUILD = ("/usr/bin/python3", "-B", "-c", "from lab.fabric import up; up.prepare()")


class Hunt:
    """Finds the tests in guests that fail with a mutant. passed: tests that have passed without a mutant."""

    def __init__(self, tree: Tree):
        self.tree = tree
        self.passed: set[str] = set()
        # Build products are beside the copy: bring() would remove them inside.
        self.env = {"PYTHONPATH": str(tree.source), paths.BUILD_VARIABLE: str(tree.source.with_name("products"))}

    def _build(self) -> None:
        ui.run("building what runs in the guests", BUILD, LOG, cwd=self.tree.source, env={**os.environ, **self.env})

    def _failure(self, tests: tuple[str, ...]) -> str:
        """Runs the tests; returns how they fail, or "" if all pass."""
        argv = (*PYTEST, *(str(self.tree.source / name) for name in tests))
        failure = self.tree.run(Test("guest", argv, tuple(self.env.items()), ()), MOST_S)
        if failure.startswith(mutant_tree.NO_END):
            self._end_guests()
        return failure

    def _end_guests(self) -> None:
        subprocess.run([self.tree.source / "pib", "down", "--all"], env={**os.environ, **self.env}, check=False,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        groups.RUNNING.check()

    def _run_unchanged(self, tests: tuple[str, ...]) -> None:
        new = tuple(name for name in tests if name not in self.passed)
        if not new:
            return
        self._build()
        ui.say(f"running {len(new)} tests in guests without a defect")
        if failure := self._failure(new):
            raise mutant.TestsFail(f"one of {', '.join(new)} fails without a mutant ({failure}). Mend that first:  "
                                   "./pib test guest")
        self.passed.update(new)

    def find(self, wanted: Mutant) -> str:
        """Runs the mutant's tests; returns those tests and their failure, or "" if all pass. A mutant that does not
        compile is an error."""
        self._run_unchanged(wanted.guest)
        with patches.applied(self.tree.source, wanted):
            self._build()
            failure = self._failure(wanted.guest)
        return f"{', '.join(wanted.guest)} ({failure})" if failure else ""
