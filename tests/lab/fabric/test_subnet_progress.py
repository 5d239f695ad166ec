# SPDX-License-Identifier: GPL-2.0-or-later
"""How far a subnet manager has come, as ./pib up and status tell it for fabrics with a topology."""

import contextlib

import pytest

from lab import paths, process, status, ui
from lab.fabric import subnet_progress, switch_process, topology
from lab.fabric.subnet_progress import Progress
from lab.fabric.wanted import Wanted
from lab.guests import vm

FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"
PATIENCE_S = 60


@pytest.fixture(scope="module", name="switch")
def _switch(tmp_path_factory):
    directory = tmp_path_factory.mktemp("switch")
    running = switch_process.Switch(directory, topology=str(FILE))
    started = process.start(running.argv(), directory / "log", directory=directory, name="switch")
    try:
        process.wait_for("pib-switch", lambda: answers(running), started, directory / "log", PATIENCE_S)
        yield running
    finally:
        started.stop()


def answers(switch):
    """The switch's answer; None while the switch does not listen on its socket yet."""
    with contextlib.suppress(ui.LabError):
        return subnet_progress.look([switch.control])


def test_a_fabric_without_a_subnet_manager_has_links_only(switch):
    wanted = topology.load(FILE)
    ends = sum(len(node.peers) for node in wanted.nodes.values())
    seen = subnet_progress.look([switch.control])
    assert seen == Progress(len(wanted.nodes), 0, ends, 0)
    assert str(seen) == f"0 of {len(wanted.nodes)} nodes have a LID, 0 of {ends} ports are ACTIVE"


def test_status_counts_what_a_large_fabric_has(switch):
    assert status.seen_by(switch).endswith("ports are ACTIVE\n./pib map shows each link")


def test_the_time_left_is_that_of_the_rest(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(subnet_progress.time, "monotonic", lambda: now[0])
    seen = iter([Progress(100, 0, 300, 0), Progress(100, 100, 300, 0), Progress(100, 100, 300, 300)])
    monkeypatch.setattr(subnet_progress, "look", lambda _paths: next(seen))
    watch, said = subnet_progress.Watch([]), []
    for passed in (60, 600, 600):
        now[0] += passed
        watch.look()
        said.append(str(watch).partition("ACTIVE")[2])
    assert said == ["", "; about 33 min left", ""]


def test_a_switch_that_does_not_answer_is_no_progress(tmp_path):
    watch = subnet_progress.Watch([tmp_path / "none"])
    assert watch.look() is None and str(watch) == ""
    with pytest.raises(ui.LabError, match="no switch answers"):
        subnet_progress.look([tmp_path / "none"])


def test_ports_that_go_up_and_down_are_no_progress(monkeypatch):
    seen = iter([Progress(10, 10, 30, active) for active in (5, 4, 5, 6)])
    monkeypatch.setattr(subnet_progress, "look", lambda _paths: next(seen))
    watch = subnet_progress.Watch([])
    assert [watch.best() for _ in range(4)] == [15 / 40, 15 / 40, 15 / 40, 16 / 40]


def test_the_guest_with_the_subnet_manager_has_memory_for_the_fabric():
    wanted = Wanted(2, size=vm.Size(512), fabric_file=paths.ROOT / "examples" / "topologies" / "fat-tree-648.topo")
    assert wanted.size_of(0).memory_mib == 512 + 738 // 16 and wanted.size_of(1).memory_mib == 512
    assert Wanted(2).size_of(0) == vm.Size()
