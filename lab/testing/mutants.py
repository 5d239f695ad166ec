# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test mutants: puts each deliberate defect of tests/mutants into a copy of the tree, and runs the unit tests and
then the simulation until one fails. A defect that none notices survives."""

import dataclasses
import os
import subprocess
import time

from lab import groups, paths, ui
from lab.build import mutant_tree
from lab.build.mutant_tree import Test, Tree
from lab.testing import mutant, simulate
from lab.testing.counts import FAILURE, Count
from lab.testing.mutant import Mutant
from lab.testing.progress import Progress, Stage

STAGE = "mutants"
LEAST_SHARE = 0.95
# A test that hangs is ended: after this multiple of its time without a defect, but not earlier than the least.
SLOWER, LEAST_S = 20, 60
UNCHANGED_S = 900
MOST_BYTES = 8 << 30            # data of a test; a defect may allocate without end
# Always the same ones, so that a mutant is found in each run or in none; other ones than those of the unit test.
SEEDS = simulate.Wanted(seed=1000, seeds=200)
SIMULATION = "simulation"


@dataclasses.dataclass
class Verdict:
    """found: the test that has found the mutant, and how; "": none. error: why it could not be tried."""
    mutant: Mutant
    found: str = ""
    error: str = ""

    def line(self) -> str:
        if self.error:
            return f"{self.mutant.name}: ERROR: {self.error}"
        if self.found:
            said = f"; remove its line 'Survives: {self.mutant.survives}'" if self.mutant.survives else ""
            return f"{self.mutant.name}: found by {self.found}{said}"
        why = self.mutant.survives or f"{self.mutant.title} Write a test that fails with it, or say why none can " \
                                      f"in a line 'Survives: …' of its patch"
        return f"{self.mutant.name}: SURVIVES: {why}"

    def is_good(self) -> bool:
        return not self.error and bool(self.found or self.mutant.survives)


def run_test(test: Test, tree: Tree, limit_s: float) -> str:
    """How the test fails; "": it passes."""
    process = groups.RUNNING.start(["prlimit", f"--data={MOST_BYTES}", "--core=0", *test.argv], cwd=tree.build,
                                   env={**os.environ, **dict(test.env)}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        status = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return f"no end after {limit_s:.0f} s"
    finally:
        groups.stop(process)            # with the programs that it has started
        groups.RUNNING.forget(process)
        groups.RUNNING.check()
    return f"status {status}" if status else ""


class Hunt:
    """The tests of a tree, and the time that each may take."""

    def __init__(self, tree: Tree):
        self.tree = tree
        unit = tree.tests()
        program = next(test for test in unit if test.name == "simulate")
        self.unit = {test.name: test for test in unit}
        self.simulation = dataclasses.replace(program, name=SIMULATION, argv=(program.argv[0], *SEEDS.arguments()))
        self.seconds: dict[str, float] = {}

    def run_unchanged(self) -> None:
        """Without a defect all tests must pass."""
        self.tree.compile(list(self.unit.values()))
        ui.say("running the tests without a defect")
        for test in [*self.unit.values(), self.simulation]:
            began = time.monotonic()
            if failure := run_test(test, self.tree, UNCHANGED_S):
                raise ui.LabError(f"{test.name} fails without a mutant ({failure}). Mend that first:  ./pib test unit")
            self.seconds[test.name] = time.monotonic() - began

    def _first_failure(self, tests: list[Test]) -> str:
        self.tree.compile(tests)
        for test in tests:
            if failure := run_test(test, self.tree, max(LEAST_S, SLOWER * self.seconds[test.name])):
                return f"{test.name} ({failure})"
        return ""

    def find(self, wanted: Mutant) -> str:
        """The test that finds the mutant: the likely ones run first, then the quick ones."""
        if unknown := [name for name in wanted.first if name not in self.unit]:
            raise ui.LabError(f"meson has no test {', '.join(unknown)}: correct the line 'First:' of "
                              f"{wanted.path.name}. Its tests:  meson test -C {self.tree.build} --list")
        first = [self.unit[name] for name in wanted.first]
        others = sorted((test for test in self.unit.values() if test not in first),
                        key=lambda test: self.seconds[test.name])
        before = self.tree.contents(wanted.files())
        try:
            mutant.apply(self.tree.source, [wanted])
            return self._first_failure(first) or self._first_failure([*others, self.simulation])
        finally:
            self.tree.restore(before)

    def verdict(self, wanted: Mutant) -> Verdict:
        try:
            return Verdict(wanted, found=self.find(wanted))
        except ui.LabError as error:
            return Verdict(wanted, error=f"{error}\nA mutant must apply and compile: make it anew, see "
                                         f"{mutant.README.name} beside it")


def count(verdicts: list[Verdict]) -> Count:
    """Each mutant is a test, and so is their share. A survivor with a reason is neither passed nor failed."""
    found = sum(bool(verdict.found) for verdict in verdicts)
    tried = sum(not verdict.error for verdict in verdicts)
    total = Count(passed=found, failed=sum(not verdict.is_good() for verdict in verdicts))
    print(f"{found} of {tried} mutants found, {100 * found / max(tried, 1):.1f} %; at least "
          f"{100 * LEAST_SHARE:.0f} % must be", flush=True)
    return total if found >= LEAST_SHARE * tried else total + FAILURE


def _try(progress: Progress, stage: Stage, chosen: list[Mutant]) -> list[Verdict]:
    verdicts = []
    with mutant_tree.opened() as directory:
        tree = Tree(directory)
        tree.bring()
        tree.configure()
        hunt = Hunt(tree)
        hunt.run_unchanged()
        for number, wanted in enumerate(chosen, 1):
            verdicts.append(hunt.verdict(wanted))
            print(verdicts[-1].line(), flush=True)
            stage.count(number, len(chosen))
            progress.show(stage)
    return verdicts


def check(progress: Progress, pattern: str | None) -> Count:
    """pattern: of names; None: all mutants."""
    chosen = mutant.load(pattern)
    mutant.apply(paths.ROOT, chosen, "--check")
    stage = progress.begin(STAGE)
    total = count(_try(progress, stage, chosen))
    stage.end(total)
    return total
