# SPDX-License-Identifier: GPL-2.0-or-later
"""The tutorials in docs/: their commands run as they stand, and print what stands below them."""
import os
import re
import shutil
import subprocess

import pytest

from lab import paths

# "program" makes a disk of packages.
TUTORIALS = {"driver": (), "faults": (), "subnet": (), "program": pytest.mark.nightly}
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.M | re.S)
LIMIT_S = 900
# ./pib for a lab beside that of the user.
PIB = """#!/usr/bin/env -S /usr/bin/python3 -B
import pathlib
import sys
sys.path.insert(0, {root!r})
from lab import paths
paths.RUN, paths.PROGRAM = paths.RUN / "test-tutorials", __file__
from lab import __main__
sys.exit(__main__.main())
"""


def steps(text):
    """Pairs of commands and the output that stands below them, or None."""
    found = []
    for kind, body in BLOCK.findall(text):
        if kind == "sh":
            found.append((body, None))
        else:
            found[-1] = found[-1][0], body
    return found


def pattern(wanted):
    """… stands for any text."""
    return ".*".join(re.escape(part) for part in re.split(r"…\n?", wanted.rstrip("\n")))


@pytest.fixture(name="checkout")
def _checkout(tmp_path):
    """A directory with the files that tutorials use and change, and ./pib."""
    for name in ("examples", "guest-driver", "hw-interface"):
        shutil.copytree(paths.ROOT / name, tmp_path / name)
    program = tmp_path / "pib"
    program.write_text(PIB.format(root=str(paths.ROOT)))
    program.chmod(0o755)
    yield tmp_path
    subprocess.run([program, "down"], check=True, timeout=LIMIT_S)


def run(checkout, found):
    """The output of each step."""
    script = "".join(f"{commands}printf '\\036'\n" for commands, _ in found)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=checkout, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False,
                          env={**os.environ, "PIB_DEPS": "skip"})
    said = done.stdout.decode(errors="replace")
    assert done.returncode == 0, said
    return said.split("\036")


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks) for name, marks in TUTORIALS.items()])
def test_tutorial(checkout, name):
    found = steps((paths.ROOT / "docs" / f"tutorial-{name}.md").read_text())
    for (commands, wanted), said in zip(found, run(checkout, found)):
        assert wanted is None or re.search(pattern(wanted), said, re.S), f"{commands}\n{said}"


def test_each_tutorial_is_tested():
    there = {path.stem.removeprefix("tutorial-") for path in (paths.ROOT / "docs").glob("tutorial-*.md")}
    assert there == set(TUTORIALS)
