# SPDX-License-Identifier: GPL-2.0-or-later
"""The patches of tests/mutants apply to the tree, and their headers are complete."""

import pathlib
import re

import pytest

from lab.base import paths, ui
from lab.testing import mutant, patches

LEAST = 80
MOST_LINES = 5
GROUP = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
# Prefixes and suffixes that meson.build adds to names of tests.
VARIANT = re.compile(r"^fuzz-|(-bursts|-peer-copy|-shared-single|-shared|-mixed)$")


def test_there_are_enough_mutants():
    assert len(mutant.load()) >= LEAST


def test_each_applies_to_the_tree():
    patches.apply(paths.ROOT, mutant.load(), "--check")


def test_each_patch_changes_few_lines_of_one_file():
    found = mutant.load()
    assert [one.name for one in found if not one.title[0].isupper() or not one.title.endswith(".")] == []
    assert {one.name: one.files() for one in found if len(one.files()) != 1} == {}
    assert {one.name: one.changed_lines() for one in found if not 1 <= one.changed_lines() <= MOST_LINES} == {}


def test_no_two_patches_make_the_same_change():
    changes: dict[str, list[str]] = {}
    for one in mutant.load():
        lines = one.path.read_text().splitlines()
        change = "\n".join(line for line in lines if line.startswith(("+", "-", "@@")))
        changes.setdefault(change, []).append(one.name)
    assert [names for names in changes.values() if len(names) > 1] == []


def test_each_group_is_in_the_readme():
    assert set(GROUP.findall(mutant.README.read_text())) == {one.name.split("-")[0] for one in mutant.load()}


def test_first_names_tests_of_meson():
    declared = "\n".join(path.read_text() for path in (paths.ROOT / "tests").rglob("meson.build"))
    wrong = {one.name: name for one in mutant.load() for name in one.first
             if f"'{name}'" not in declared and f"'{VARIANT.sub('', name)}'" not in declared}
    assert wrong == {}


def test_guest_names_tests_of_guests():
    missing = {}
    for one in mutant.load():
        for name in one.guest:
            file, _, test = name.partition("::")
            path = paths.ROOT / file
            if not path.is_file() or f"\ndef {test.partition('[')[0]}(" not in path.read_text():
                missing[one.name] = name
    assert missing == {}


@pytest.mark.parametrize("text", [
    "", "The code is wrong.\nFirst: ib\n", f"{patches.LICENCE}\nThe code is wrong.\n",
    f"{patches.LICENCE}\nThe code is wrong.\nFirst: ib\nSurvive: never\n", f"{patches.LICENCE}\nFirst: ib\n",
    f"{patches.LICENCE}\nThe code is wrong.\nFirst: ib\nGuest: tests/guest/test_lab.py::test_the_release\n"])
def test_an_incomplete_header_is_noticed(tmp_path, text):
    path = tmp_path / "x.patch"
    path.write_text(text + "\n--- a/x\n+++ b/x\n")
    with pytest.raises(ui.LabError, match="x.patch.*README.md"):
        mutant.parse(path)


def test_a_stale_patch_is_noticed(tmp_path):
    """The patch is checked in a folder outside of a repository, and in one within."""
    one = mutant.load()[0]
    for folder in (tmp_path / "plain", paths.ROOT / ".lab" / "mutant-of-no-tree"):
        file = folder / one.files()[0]
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            file.write_text((paths.ROOT / one.files()[0]).read_text())
            patches.apply(folder, [one], "--check")
            file.write_text("int x;\n")
            with pytest.raises(ui.LabError, match="does not apply"):
                patches.apply(folder, [one], "--check")
        finally:
            remove(folder)


def remove(folder: pathlib.Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
