# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test mutants: applies each patch of tests/mutants to a copy of the tree, and runs the tests that probably find
the mutant, then the other unit tests, then the simulation, until one fails. Mutants of driver and provider have tests
in guests instead. A mutant that no test finds survives."""

import dataclasses
import pathlib
import time
from collections.abc import Iterator

from lab.base import paths, ui
from lab.base.counts import Count, FAILURE
from lab.build import mutant_tree
from lab.build.mutant_tree import Test, Tree
from lab.testing import guest_mutants, mutant, patches, simulate
from lab.testing.mutant import Mutant
from lab.testing.progress import Progress, Stage

STAGE = "mutants"
LEAST_SHARE = 0.95
# Time limit of a test: SLOWER times its duration without a mutant, at least LEAST_S.
SLOWER, LEAST_S = 20, 60
UNCHANGED_S = 900
# Fixed seeds, so that each run finds the same mutants; the unit test has other seeds.
SEEDS = simulate.Wanted(seed=1000, seeds=200)
SIMULATION = "simulation"


@dataclasses.dataclass
class Verdict:
    """found: the test that has found the mutant, and how it failed; "": none. error: why the mutant could not be tried.
    """
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


class Hunt:
    """Finds the tests that fail with a mutant of host programs. seconds: durations of tests that have run without a
    mutant."""

    def __init__(self, tree: Tree):
        self.tree = tree
        unit = tree.tests()
        program = next(test for test in unit if test.name == "simulate")
        self.unit = {test.name: test for test in unit}
        self.simulation = dataclasses.replace(program, name=SIMULATION, argv=(program.argv[0], *SEEDS.arguments()))
        self.seconds: dict[str, float] = {}

    def run_unchanged(self, tests: list[Test]) -> None:
        """Runs tests without a mutant, which must pass. Skips tests that have passed before."""
        new = [test for test in tests if test.name not in self.seconds]
        if not new:
            return
        self.tree.compile(new)
        ui.say(f"running {len(new)} tests without a defect")
        for test in new:
            began = time.monotonic()
            if failure := self.tree.run(test, UNCHANGED_S):
                raise mutant.TestsFail(f"{test.name} fails without a mutant ({failure}). Mend that first:  "
                                       "./pib test unit")
            self.seconds[test.name] = time.monotonic() - began

    def _first_failure(self, tests: list[Test]) -> str:
        self.tree.compile(tests)
        for test in tests:
            if failure := self.tree.run(test, max(LEAST_S, SLOWER * self.seconds[test.name])):
                return f"{test.name} ({failure})"
        return ""

    def _find_among(self, wanted: Mutant, tests: list[Test]) -> str:
        self.run_unchanged(tests)
        with patches.applied(self.tree.source, wanted):
            return self._first_failure(sorted(tests, key=lambda test: self.seconds[test.name]))

    def find(self, wanted: Mutant) -> str:
        """Returns the test that finds the mutant, and its failure. Runs the likely tests first, because then the others
        usually need not be linked."""
        if unknown := [name for name in wanted.first if name not in self.unit]:
            raise ui.LabError(f"meson has no test {', '.join(unknown)}: correct the line 'First:' of "
                              f"{wanted.path.name}. Its tests:  meson test -C {self.tree.build} --list")
        first = [self.unit[name] for name in wanted.first]
        others = [test for test in self.unit.values() if test not in first]
        return self._find_among(wanted, first) or self._find_among(wanted, [*others, self.simulation])


def verdict(hunt: Hunt | guest_mutants.Hunt, wanted: Mutant) -> Verdict:
    try:
        return Verdict(wanted, found=hunt.find(wanted))
    except mutant.TestsFail:
        raise
    except ui.LabError as error:
        return Verdict(wanted, error=f"{error}\nA mutant must apply and compile: make it anew, see "
                                     f"{mutant.README.name} beside it")


def count(verdicts: list[Verdict]) -> Count:
    """Counts a mutant as a test, and the share of found mutants as one more. A survivor with a reason counts as neither
    passed nor failed."""
    found = sum(bool(verdict.found) for verdict in verdicts)
    tried = sum(not verdict.error for verdict in verdicts)
    total = Count(passed=found, failed=sum(not verdict.is_good() for verdict in verdicts))
    print(f"{found} of {tried} mutants found, {100 * found / max(tried, 1):.1f} %; at least "
          f"{100 * LEAST_SHARE:.0f} % must be", flush=True)
    return total if found >= LEAST_SHARE * tried else total + FAILURE


def _hunts(chosen: list[Mutant], directory: pathlib.Path) -> Iterator[tuple[Hunt | guest_mutants.Hunt, list[Mutant]]]:
    """Yields (hunt, its mutants) for the host and for guests. Mutants of the same file follow each other, so that each
    costs one compilation of the file."""
    ordered = sorted(chosen, key=lambda one: (one.files(), one.name))
    host = [one for one in ordered if not one.guest]
    tree = Tree(directory)
    tree.bring()
    if host:
        tree.configure()
        yield Hunt(tree), host
    if in_guests := [one for one in ordered if one.guest]:
        yield guest_mutants.Hunt(tree), in_guests


def _try(progress: Progress, stage: Stage, chosen: list[Mutant]) -> list[Verdict]:
    verdicts = []
    with mutant_tree.opened() as directory:
        for hunt, mutants in _hunts(chosen, directory):
            for wanted in mutants:
                began = time.monotonic()
                verdicts.append(verdict(hunt, wanted))
                print(f"{verdicts[-1].line()} ({time.monotonic() - began:.0f} s)", flush=True)
                stage.count(len(verdicts), len(chosen))
                progress.show(stage)
    return verdicts


def check(progress: Progress, pattern: str | None) -> Count:
    """Tries the mutants; returns their count. pattern: which mutants, by name; None: all."""
    chosen = mutant.load(pattern)
    patches.apply(paths.ROOT, chosen, "--check")
    stage = progress.begin(STAGE)
    total = count(_try(progress, stage, chosen))
    stage.end(total)
    return total
