# SPDX-License-Identifier: GPL-2.0-or-later
"""The tutorials in docs/: their commands run as they stand, and print what stands below them."""
import re
import shutil
import subprocess

import pytest

import as_written
from lab.base import paths

# "faults" waits for retries to run out, and "program" makes a disk of packages.
TUTORIALS = {"driver": (), "faults": pytest.mark.nightly, "subnet": (), "program": pytest.mark.nightly}


def steps(document):
    """Pairs of commands and the output that stands below them, or None."""
    found = []
    for kind, body in as_written.blocks(document):
        if kind == "sh":
            found.append((body, None))
        else:
            found[-1] = found[-1][0], body
    return found


@pytest.fixture(name="checkout")
def _checkout(tmp_path):
    """A directory with the files that tutorials use and change, and ./pib."""
    for name in ("examples", "guest-driver", "hw-interface"):
        shutil.copytree(paths.ROOT / name, tmp_path / name)
    program = as_written.make_program(tmp_path, "test-tutorials")
    yield tmp_path
    subprocess.run([program, "down"], check=True, timeout=as_written.LIMIT_S)


def run(checkout, found):
    """The output of each step. A step that ends the shell, with the status 0, too, leaves the others out."""
    script = "".join(f"{commands}printf '\\036'\n" for commands, _ in found)
    *said, _ = as_written.run(checkout, script).split("\036")
    assert found and len(said) == len(found), said
    return said


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks) for name, marks in TUTORIALS.items()])
def test_tutorial(checkout, name):
    found = steps(f"docs/tutorial-{name}.md")
    for (commands, wanted), said in zip(found, run(checkout, found)):
        assert wanted is None or re.search(as_written.pattern(wanted), said, re.S), f"{commands}\n{said}"


def test_each_tutorial_is_tested():
    there = {path.stem.removeprefix("tutorial-") for path in (paths.ROOT / "docs").glob("tutorial-*.md")}
    assert there == set(TUTORIALS)
