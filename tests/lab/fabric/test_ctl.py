# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib ctl with a switch process that runs without guests: phantoms have the guests' names."""

import re
import types

import pytest

from lab import __main__ as command_line
from lab.base import process, ui
from lab.fabric import cluster, ctl, switch_process

ONE = """
Switch 3 "leaf"
[1] "vm0"[1]
[2] "vm1"[1]
[3] "vm1"[2]

Ca 1 "vm0"
[1] "leaf"[1]

Ca 2 "vm1"
[1] "leaf"[2]
[2] "leaf"[3]
"""
TWO = """
Switch 2 "leaf"
[1] "vm0"[1]
[2] "spine"[2]

Switch 3 "spine"
[1] "vm1"[1]
[2] "leaf"[2]

Ca 1 "vm0"
[1] "leaf"[1]

Ca 1 "vm1"
[1] "spine"[1]
"""
PATIENCE_S = 60


@pytest.fixture(name="run")
def _run(tmp_path, capfd):
    """Yields a function that starts a fabric and returns another function, which runs ctl and returns its status and
    output."""
    started = []

    def start(topology: str):
        file = tmp_path / "file.topo"
        file.write_text(topology)
        switch = switch_process.Switch(tmp_path, topology=str(file))
        started.append(process.start(switch.argv(), tmp_path / "log", directory=tmp_path, name="switch"))
        process.wait_for("pib-switch", switch.answers, started[0], tmp_path / "log", PATIENCE_S)
        lab = types.SimpleNamespace(running_switches=lambda: [switch])
        return lambda *words, number=0: (ctl.ctl(lab, number, list(words)), capfd.readouterr().out)
    yield start
    for one in started:
        one.stop()


def test_a_guest_is_a_port_of_the_only_switch(run):
    pib_ctl = run(ONE)
    assert pib_ctl("link", "vm1[2]", "down") == (0, "")
    assert pib_ctl("link", "vm1", "up") == (0, "")
    status = pib_ctl("status")[1]
    assert re.search(r"^ *3 +Down", status, re.M) and re.search(r"^ *2 +Initialize", status, re.M), status


def test_a_guest_is_a_port_of_its_switch_in_a_topology(run):
    pib_ctl = run(TWO)
    assert pib_ctl("link", "vm1", "down") == (0, "")
    assert re.search(r"^ *1 +Down", pib_ctl("--switch", "spine", "status")[1], re.M)
    assert re.search(r"^ *1 +Initialize", pib_ctl("--switch", "leaf", "status")[1], re.M)


def test_the_status_is_passed_on(run):
    pib_ctl = run(ONE)
    assert pib_ctl("link", "vm7", "down")[0] != 0
    assert pib_ctl("nonsense")[0] != 0


@pytest.mark.parametrize("words, wanted", [
    (["--switch", "leaf", "lft"], ["--switch", "leaf", "lft"]), (["--json", "status"], ["--json", "status"]),
    (["--process", "1", "--json", "link", "vm1", "down"], ["--json", "link", "vm1", "down"]),
    (["lft", "--switch", "leaf"], ["lft", "--switch", "leaf"])])
def test_options_stand_before_the_command_or_behind_it(monkeypatch, words, wanted):
    passed = []
    monkeypatch.setattr(ctl, "ctl", lambda _lab, number, given: passed.append((number, given)) or 0)
    options = command_line.parser().parse_args(["ctl", *words])
    assert options.function(options) == 0 and passed == [(options.process, wanted)]


def test_a_process_that_does_not_run_is_an_error(run, tmp_path):
    pib_ctl = run(ONE)
    with pytest.raises(ui.LabError, match="--process 2: the fabric has processes 0"):
        pib_ctl("status", number=2)
    with pytest.raises(ui.LabError, match="./pib up"):
        ctl.ctl(cluster.Cluster(tmp_path / "nothing"), 0, ["status"])
