# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test mutants: the order of its tests, its verdicts, and the copy of the checkout."""

import os
import pathlib
import sys
import time

import pytest

from lab import __main__ as command
from lab.base import paths, ui
from lab.base.counts import Count
from lab.build import checkout, mutant_tree
from lab.testing import guest_mutants, mutant, mutants, parts, patches
from lab.testing.mutant import Mutant
from lab.testing.mutants import Verdict

PATCH = f"""{patches.LICENCE}
The code is wrong.
First: {{first}}
--- a/code
+++ b/code
@@ -1,3 +1,3 @@
 one
-right
+wrong
 three
"""
CODE = "one\nright\nthree\n"


class FakeTree(mutant_tree.Tree):
    """A tree whose tests are shell scripts that record their names and arguments."""

    def __init__(self, directory: pathlib.Path, **scripts: str):
        super().__init__(directory)
        self.scripts = {"simulate": "true", **scripts}
        self.compiled: list[list[str]] = []
        self.source.mkdir(parents=True)
        self.build.mkdir()
        (self.source / "code").write_text(CODE)

    def tests(self) -> list[mutant_tree.Test]:
        return [self._test(name, script) for name, script in self.scripts.items()]

    def _test(self, name: str, script: str) -> mutant_tree.Test:
        program = self.build / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >> "$RAN"\n{script}\n')
        program.chmod(0o755)
        return mutant_tree.Test(name, (str(program),), (("RAN", str(self.build / "ran")),), (name,))

    def compile(self, tests: list[mutant_tree.Test]) -> None:
        self.compiled.append([test.name for test in tests])

    def ran(self) -> list[str]:
        return (self.build / "ran").read_text().splitlines()


READS = "grep -q right ../source/code"


def patch(folder: pathlib.Path, first: str = "good", text: str = PATCH) -> Mutant:
    path = folder / "group-what.patch"
    path.write_text(text.format(first=first))
    return mutant.parse(path)


def hunt_in(tree: FakeTree) -> mutants.Hunt:
    hunt = mutants.Hunt(tree)
    hunt.seconds = {name: float(number) for number, name in enumerate([*tree.scripts, mutants.SIMULATION])}
    return hunt


def test_a_mutant_is_found_by_the_first_test_that_fails(tmp_path):
    tree = FakeTree(tmp_path, quick="true", reads=READS, slow="true", good="true")
    verdict = mutants.verdict(hunt_in(tree), patch(tmp_path))
    assert verdict.line() == "group-what: found by reads (status 1)"
    others = ["simulate", "quick", "reads", "slow", mutants.SIMULATION]
    assert tree.ran() == ["good", "simulate", "quick", "reads"]
    assert tree.compiled == [["good"], others]
    assert (tree.source / "code").read_text() == CODE


def test_tests_that_are_not_needed_are_neither_linked_nor_run(tmp_path):
    tree = FakeTree(tmp_path, reads=READS, slow="true")
    hunt = mutants.Hunt(tree)
    for _ in range(2):
        assert "found by reads" in mutants.verdict(hunt, patch(tmp_path, first="reads")).line()
    assert tree.compiled == [["reads"]] * 3
    assert tree.ran() == ["reads"] * 3


def test_the_quickest_of_the_likely_tests_runs_first(tmp_path):
    tree = FakeTree(tmp_path, slow="sleep 0.5", quick="true")
    mutants.verdict(mutants.Hunt(tree), patch(tmp_path, first="slow, quick"))
    assert tree.ran()[:4] == ["slow", "quick", "quick", "slow"]


def test_a_mutant_that_no_test_finds_survives(tmp_path):
    tree = FakeTree(tmp_path, good="true")
    verdict = mutants.verdict(hunt_in(tree), patch(tmp_path))
    assert not verdict.is_good() and "SURVIVES" in verdict.line() and "Write a test" in verdict.line()
    assert tree.ran() == ["good", "simulate", "simulate --seed 1000 --seeds 200"]


def test_a_test_without_end_is_ended_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "LEAST_S", 0.1)
    tree = FakeTree(tmp_path, hangs="sleep 1000 & echo $! > child; wait")
    hunt = hunt_in(tree)
    hunt.seconds["hangs"] = 0
    # The shell may need longer than the limit to start its child.
    end = time.monotonic() + 120
    while not (tree.build / "child").exists() or not (tree.build / "child").read_text():
        assert time.monotonic() < end
        assert "hangs (no end after" in mutants.verdict(hunt, patch(tmp_path, first="hangs")).line()
    child = int((tree.build / "child").read_text())
    while os.path.exists(f"/proc/{child}") and "Z" not in pathlib.Path(f"/proc/{child}/stat").read_text().split()[2]:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_all_tests_must_pass_without_a_mutant(tmp_path):
    tree = FakeTree(tmp_path, bad="exit 3")
    with pytest.raises(mutant.TestsFail, match=r"bad fails without a mutant \(status 3\).*test unit"):
        mutants.verdict(mutants.Hunt(tree), patch(tmp_path, first="bad"))
    hunt = mutants.Hunt(FakeTree(tmp_path / "other", good="true"))
    mutants.verdict(hunt, patch(tmp_path))
    assert set(hunt.seconds) == {"good", "simulate", mutants.SIMULATION}


@pytest.mark.parametrize("first, text, expected", [
    ("none", PATCH, "no test none"), ("good", PATCH.replace("-right", "-left"), "does not apply")])
def test_a_mutant_that_cannot_be_tried_is_an_error(tmp_path, first, text, expected):
    tree = FakeTree(tmp_path, good="true")
    verdict = mutants.verdict(hunt_in(tree), patch(tmp_path, first, text))
    assert expected in verdict.line() and not verdict.is_good()
    assert (tree.source / "code").read_text() == CODE


def test_a_mutant_that_does_not_compile_is_an_error(tmp_path, monkeypatch):
    tree = FakeTree(tmp_path, good="true")

    def fail(_tests):
        raise ui.LabError("compiling: failed (status 1)")
    monkeypatch.setattr(tree, "compile", fail)
    verdict = mutants.verdict(hunt_in(tree), patch(tmp_path))
    assert "ERROR: compiling" in verdict.line() and "README.md" in verdict.line() and not verdict.is_good()


def in_guest(folder: pathlib.Path) -> Mutant:
    return patch(folder, text=PATCH.replace("First: {first}", "Guest: tests/guest/test_x.py::test_y"))


class FakeGuests(guest_mutants.Hunt):
    """A hunt whose test passes if the code is right, and otherwise ends with status 1."""

    def __init__(self, tree: mutant_tree.Tree, monkeypatch, compiles: str = ""):
        super().__init__(tree)
        self.compiles, self.runs = compiles, 0
        monkeypatch.setattr(tree, "run", self._run)

    def _build(self) -> None:
        if self.compiles and "right" not in (self.tree.source / "code").read_text():
            raise ui.LabError(self.compiles)

    def _run(self, test: mutant_tree.Test, _limit: float) -> str:
        assert test.argv[-1] == str(self.tree.source / "tests/guest/test_x.py::test_y")
        assert dict(test.env)["PYTHONPATH"] == str(self.tree.source)
        self.runs += 1
        return "" if "right" in (self.tree.source / "code").read_text() else "status 1"


def test_a_defect_of_the_driver_is_found_in_a_guest(tmp_path, monkeypatch):
    hunt = FakeGuests(FakeTree(tmp_path), monkeypatch)
    for _ in range(2):
        assert mutants.verdict(hunt, in_guest(tmp_path)).line() == \
            "group-what: found by tests/guest/test_x.py::test_y (status 1)"
    assert hunt.runs == 3       # once without the defect
    assert (hunt.tree.source / "code").read_text() == CODE


def test_a_driver_that_does_not_compile_is_not_a_find(tmp_path, monkeypatch):
    hunt = FakeGuests(FakeTree(tmp_path), monkeypatch, compiles="compiling: failed")
    verdict = mutants.verdict(hunt, in_guest(tmp_path))
    assert "ERROR: compiling" in verdict.line() and not verdict.is_good()


def test_a_test_in_a_guest_must_pass_without_a_defect(tmp_path, monkeypatch):
    tree = FakeTree(tmp_path)
    (tree.source / "code").write_text("wrong")
    with pytest.raises(mutant.TestsFail, match="test_y fails without a mutant.*test guest"):
        mutants.verdict(FakeGuests(tree, monkeypatch), in_guest(tmp_path))


def verdicts(tmp_path: pathlib.Path, found: int, survivors: int, explained: int = 0, errors: int = 0) -> list[Verdict]:
    one = patch(tmp_path)
    known = Mutant(one.path, one.title, one.first, "it changes speed only")
    return [*[Verdict(one, found="x")] * found, *[Verdict(one)] * survivors, *[Verdict(known)] * explained,
            *[Verdict(one, error="x")] * errors]


@pytest.mark.parametrize("numbers, expected", [
    ((20, 0), Count(20, 0)), ((19, 1), Count(19, 1)), ((19, 0, 1), Count(19, 0)), ((18, 0, 2), Count(18, 1)),
    ((20, 0, 0, 1), Count(20, 1)), ((0, 1), Count(0, 2))])
def test_too_many_survivors_fail_even_with_reasons(tmp_path, numbers, expected, capsys):
    assert mutants.count(verdicts(tmp_path, *numbers)) == expected
    assert f"{numbers[0]} of {sum(numbers[:3])} mutants found" in capsys.readouterr().out


def test_a_reason_that_is_no_longer_true_is_reported(tmp_path):
    one = patch(tmp_path, text=PATCH.replace("--- a", "Survives: it changes speed only\n--- a"))
    assert "SURVIVES: it changes speed only" in Verdict(one).line()
    assert "remove its line" in Verdict(one, found="ib").line()


def test_a_pattern_chooses_mutants(monkeypatch):
    every = {one.name for one in mutant.load()}
    assert {one.name for one in mutant.load("switch-")} == {name for name in every if "switch-" in name}
    assert {one.name for one in mutant.load("switch-*-top")} < {one.name for one in mutant.load("switch-")}
    with pytest.raises(ui.LabError, match="no mutant is named nothing"):
        mutant.load("nothing")
    seen = []
    monkeypatch.setattr(parts, "test", lambda *arguments: seen.append(arguments[::2]) or 0)
    monkeypatch.setattr(sys, "argv", ["pib", "test", "mutants", "switch-"])
    assert command.main() == 0 and seen == [("mutants", "switch-")]


def test_a_pattern_of_another_part_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(parts, "test", lambda *_arguments: pytest.fail("a part runs"))
    monkeypatch.setattr(sys, "argv", ["pib", "test", "unit", "switch-"])
    assert command.main() != 0
    assert "./pib test mutants PATTERN" in capsys.readouterr().err


def test_the_copy_follows_the_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path / "checkout")
    names = {"a/one": "1", "two": "2"}
    monkeypatch.setattr(checkout, "files", lambda: [pathlib.Path(name) for name in names])
    tree = mutant_tree.Tree(tmp_path / "copy")

    def bring() -> dict[str, str]:
        for name, text in names.items():
            (paths.ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (paths.ROOT / name).write_text(text)
        tree.bring()
        return {str(path.relative_to(tree.source)): path.read_text() for path in tree.source.rglob("*")
                if path.is_file()}
    assert bring() == names
    (tree.source / "two").write_text("a mutant that an interrupt has left")
    del names["a/one"]
    names["three"] = "3"
    assert bring() == names
