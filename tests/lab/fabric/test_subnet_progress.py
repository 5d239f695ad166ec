# SPDX-License-Identifier: GPL-2.0-or-later
"""The progress of a subnet manager, as ./pib up and status print it for fabrics with a topology."""

import contextlib
import pathlib

import pytest

from lab import status
from lab.base import paths, process, ui
from lab.fabric import subnet_progress, switch_process, topology
from lab.fabric.sm_steps import Step
from lab.fabric.subnet_progress import Progress
from lab.fabric.wanted import Wanted
from lab.guests import vm

FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"
PATIENCE_S = 60
SOCKET = [pathlib.Path("control")]


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
    assert seen == Progress(len(wanted.nodes), 0, 0, len(wanted.switches()), 0, ends, 0)  # a block for each switch
    assert str(seen) == f"0 of {len(wanted.nodes)} nodes have a LID, 0 of {ends} ports are ACTIVE"


def test_status_counts_what_a_large_fabric_has(switch):
    assert status.seen_by(switch).endswith("ports are ACTIVE\n./pib map shows each link")


class Opensm:
    """A manager whose log has these steps, one at each look."""

    def __init__(self, *steps, error=""):
        self.step, self._steps, self.error = Step.UNKNOWN, list(steps), error

    def look(self):
        self.step = self._steps.pop(0) if self._steps else self.step


@pytest.fixture(name="switch_sees")
def _switch_sees(monkeypatch):
    """Sets the results of the next looks at the switch."""
    def sees(*found):
        seen = iter(found)
        monkeypatch.setattr(subnet_progress, "look", lambda _paths: next(seen))
    return sees


@pytest.mark.parametrize("top, used, blocks", [(0, 0, (3, 0)), (0, 5, (3, 0)), (191, 0, (3, 0)), (191, 64, (3, 1)),
                                               (191, 65, (3, 2)), (191, 190, (3, 3)), (191, 192, (3, 3)),
                                               (192, 192, (4, 3)), (60, 192, (1, 1))])
def test_a_forwarding_table_is_written_by_blocks_of_64(monkeypatch, top, used, blocks):
    class Control(contextlib.nullcontext):
        def ask(self, _command):
            nodes = [{"type": "phantom", "lid": 0, "smps_answered": 0, "ports_up": 1, "ports_active": 0}] * 149
            return {"nodes": [*nodes, {**nodes[0], "type": "switch", "lft_top": top, "lft_used": used}]}

        def __enter__(self):
            return self
    monkeypatch.setattr(subnet_progress.control, "Control", Control)
    seen = subnet_progress.look(SOCKET)
    assert (seen.blocks, seen.written) == blocks and (seen.nodes, seen.found, seen.up) == (150, 0, 150)


def told(watch: subnet_progress.Watch) -> str:
    watch.look()
    return str(watch)


@pytest.mark.parametrize("step, seen, said", [
    (Step.DISCOVERS, Progress(13282, 0, 0, 336960, 0, 81000, 0), "opensm discovers: 0 of 13,282 nodes found"),
    (Step.CONFIGURES, Progress(13282, 13282, 400, 336960, 0, 81000, 0),
     "opensm assigns LIDs: 400 of 13,282 nodes have one"),
    (Step.CONFIGURES, Progress(13282, 13282, 13282, 336960, 0, 81000, 0),
     "opensm computes routes: 13,282 of 13,282 nodes have a LID"),
    (Step.CONFIGURES, Progress(13282, 13282, 13282, 336960, 336960, 81000, 81000),      # a second sweep
     "opensm computes routes: 13,282 of 13,282 nodes have a LID"),
    (Step.CONFIGURES, Progress(13282, 13000, 13000, 336960, 7, 81000, 0),
     "opensm writes forwarding tables: 7 of 336,960 blocks"),
    (Step.ACTIVATES, Progress(13282, 13282, 13280, 336960, 7000, 81000, 0),
     "opensm writes forwarding tables: 7,000 of 336,960 blocks"),
    (Step.ACTIVATES, Progress(13282, 13282, 13282, 336960, 336960, 81000, 5),
     "opensm activates ports: 5 of 81,000 are ACTIVE"),
    (Step.UP, Progress(22, 22, 22, 6, 6, 48, 48),
     "opensm has said SUBNET UP: 22 of 22 nodes have a LID, 48 of 48 ports are ACTIVE"),
    (Step.STANDBY, Progress(22, 22, 0, 6, 0, 48, 0),
     "opensm is in standby: 0 of 22 nodes have a LID, 0 of 48 ports are ACTIVE"),
    (Step.UNKNOWN, Progress(22, 22, 0, 6, 0, 48, 0), "0 of 22 nodes have a LID, 0 of 48 ports are ACTIVE")])
def test_a_wait_reports_what_opensm_does(switch_sees, step, seen, said):
    switch_sees(seen)
    assert told(subnet_progress.Watch(SOCKET, Opensm(step))).partition("; about")[0] == said


@pytest.mark.parametrize("step, said", [(Step.UNKNOWN, ""), (Step.DISCOVERS, "opensm discovers the fabric"),
                                        (Step.UP, "opensm has said SUBNET UP")])
def test_opensms_log_alone_is_reported_if_the_switches_run_elsewhere(step, said):
    assert told(subnet_progress.Watch([], Opensm(step))) == said


def test_an_error_of_opensm_is_reported(switch_sees):
    switch_sees(Progress(100, 0, 0, 6, 0, 48, 0))
    opensm = Opensm(Step.DISCOVERS, error="ERR 3113: MAD completed in error (IB_TIMEOUT)")
    assert told(subnet_progress.Watch(SOCKET, opensm)) == (
        "opensm discovers: 0 of 100 nodes found; opensm says: ERR 3113: MAD completed in error (IB_TIMEOUT)")
    assert told(subnet_progress.Watch([], Opensm(error="ERR 1"))) == "opensm says: ERR 1"


def test_the_time_left_is_that_of_the_rest(monkeypatch, switch_sees):
    now = [100.0]
    monkeypatch.setattr(subnet_progress.time, "monotonic", lambda: now[0])
    switch_sees(Progress(100, 4, 0, 10, 0, 300, 0), Progress(100, 50, 0, 10, 0, 300, 0),
                Progress(100, 100, 100, 10, 5, 300, 0), Progress(100, 100, 100, 10, 10, 300, 297),
                Progress(100, 100, 100, 10, 10, 300, 300))
    watch, said = subnet_progress.Watch(SOCKET), []
    for passed in (60, 240, 300, 0, 10):
        now[0] += passed
        said.append(told(watch).partition("ACTIVE")[2])
    assert said == ["", "; about 35 min left", "; about 6 min left", "; about 2 s left", ""]


def test_a_switch_that_does_not_answer_is_not_progress(tmp_path):
    watch = subnet_progress.Watch([tmp_path / "none"])
    assert watch.look() is None and str(watch) == ""
    with pytest.raises(ui.LabError, match="no switch answers"):
        subnet_progress.look([tmp_path / "none"])


def test_ports_that_go_up_and_down_are_not_progress(switch_sees):
    switch_sees(*[Progress(10, 10, 10, 2, 2, 4, active) for active in (2, 1, 2, 3)])
    watch = subnet_progress.Watch(SOCKET)
    assert [watch.best()[1] * 16 for _ in range(4)] == [14, 14, 14, 15]


def test_a_new_step_of_opensm_is_progress_and_a_step_back_is_none():
    watch = subnet_progress.Watch([], Opensm(Step.DISCOVERS, Step.CONFIGURES, Step.DISCOVERS, Step.ACTIVATES))
    assert [watch.best()[0] for _ in range(4)] == [Step.DISCOVERS, Step.CONFIGURES, Step.CONFIGURES, Step.ACTIVATES]


def test_the_guest_with_the_subnet_manager_has_memory_for_the_fabric():
    wanted = Wanted(2, size=vm.Size(512), fabric_file=paths.ROOT / "examples" / "topologies" / "fat-tree-648.topo")
    assert wanted.size_of(0).memory_mib == 512 + 738 // 16 and wanted.size_of(1).memory_mib == 512
    assert Wanted(2).size_of(0) == vm.Size()
