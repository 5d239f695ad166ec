# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands of the README run as they stand there."""
import re
import subprocess

import pytest

import as_written
from lab.fabric import cluster

README = "README.md"
LAB = "test-readme"
# Each block has two commands; the second one prints the text. The table's head is there before the first message.
TERMINALS = {"./pib exec vm0 -- ib_write_bw": r"^ 65536 +5000 +\d",
             "./pib exec vm0 -- rping": "ping data: rdma-ping-9: "}


@pytest.fixture(name="home")
def _home(tmp_path):
    """A directory with ./pib, whose lab ends with the test."""
    program = as_written.make_program(tmp_path, LAB)
    yield tmp_path
    subprocess.run([program, "down"], check=True, timeout=as_written.LIMIT_S)


@pytest.mark.parametrize("begin", TERMINALS)
def test_programs_in_two_terminals(lab, tmp_path, begin):
    as_written.make_program(tmp_path, lab.directory.name)
    said = as_written.in_two_terminals(tmp_path, as_written.block(README, begin))
    assert re.search(TERMINALS[begin], said, re.MULTILINE), said


def form(table):
    """The lines of a table, with 9 for each number and one space for several."""
    return [" ".join(re.sub(r"[\d.]+", "9", line).split()) for line in table.splitlines()]


@pytest.mark.nightly
def test_up_prints_what_the_readme_shows(home):
    command = as_written.block(README, "./pib up  ").splitlines()[0]
    shown = form(as_written.block(README, "node  HCA"))
    assert form(as_written.run(home, f"{command} 2>/dev/null")) == shown


@pytest.mark.nightly
def test_the_first_steps(home):
    script = as_written.block(README, "./pib up -n 4")
    said = as_written.run(home, script.replace("./pib down", "./pib status\n./pib down"))
    assert said.count("ACTIVE") == 8 and all(f'"vm{number} ' in said for number in range(4)), said
    assert not cluster.Cluster(home / LAB).running()
