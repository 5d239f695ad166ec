# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib soak: the rule of its verdict, its samples, and rounds on a simulated fabric."""

import csv
import json
import os
import subprocess
import xml.etree.ElementTree

import pytest

import simulated_fabric
from lab import __main__ as command
from lab.base import paths, ui
from lab.fabric import evidence, topology
from lab.guests import vm
from lab.soak import curve, loads, rule, samples, soak
from lab.soak.loads import Load
from lab.soak.samples import QUIET, Sample

FILE = paths.ROOT / "examples" / "topologies" / "redundant-pair.topo"
MIB = rule.MIB


def flat(name, values):
    return rule.judge(name, values).flat


def test_a_curve_that_does_not_grow_is_flat():
    assert flat("memory vm0", [100 * MIB] * 40)
    assert flat("descriptors switch", [12, 30, 12, 12, 13, 12, 12, 12, 14, 12, 12, 12])
    assert flat("objects vm1", [7] * 12)


def test_the_warm_up_does_not_count():
    assert flat("memory vm0", [50 * MIB, 80 * MIB, 99 * MIB, *[100 * MIB] * 9])


@pytest.mark.parametrize("name, step", [("memory vm0", MIB), ("descriptors switch", 1), ("objects vm1", 1),
                                        ("errors fabric", 1), ("threads vm0", 1)])
def test_a_curve_that_grows_in_each_round_is_not_flat(name, step):
    verdict = rule.judge(name, [1000.0 + step * number for number in range(40)])
    assert verdict.flat is False
    assert "GROWS" in verdict.line() and name in verdict.line()


def test_a_leak_that_is_small_beside_the_process_is_seen():
    """The process grows by 64 KiB in each of 400 rounds."""
    assert flat("memory vm0", [200 * MIB + 64 * number for number in range(400)]) is False


def test_memory_may_grow_by_little():
    assert flat("memory vm0", [100 * MIB] * 20 + [102 * MIB] * 20)
    assert flat("memory vm0", [100 * MIB] * 20 + [107 * MIB] * 20) is False


def test_one_object_that_stays_is_seen_between_others_that_come_and_go():
    assert flat("objects vm0", [9, 12, 9, 14, 9, 13, 9, 12, 9, 15, 9, 12])
    assert flat("objects vm0", [9, 12, 9, 14, 9, 13, 9, 12, 10, 15, 10, 12]) is False


def test_few_samples_are_not_a_verdict():
    verdict = rule.judge("objects vm0", [1, 2, 3])
    assert verdict.flat is None and "too few" in verdict.line()


SMAPS = """55d0-55d1 r-xp 00000000 08:01 1 /usr/bin/qemu
Size:                100 kB
Rss:                  60 kB
7f00-7f40 rw-p 00000000 00:00 0
Size:            1048576 kB
Rss:              700000 kB
7f50-7f51 rw-p 00000000 00:00 0
Size:                 40 kB
Rss:                  40 kB
"""


def test_memory_of_a_guest_does_not_count_for_qemu():
    assert samples.memory_kib(SMAPS) == 100


JIT = "Translation buffer state:\r\ngen code size       1000/2000\r\nTB count            2048\r\nTB flush count 0\r\n"


def test_blocks_of_translated_code_are_no_growth_of_qemu():
    assert samples.blocks_kib(JIT) == 112
    assert samples.blocks_kib("JIT information is only available with accel=tcg") == 0


def test_a_process_has_memory_descriptors_and_threads():
    mine = samples.process(os.getpid())
    assert mine["memory"] > 1000 and mine["descriptors"] >= 3 and mine["threads"] >= 1
    with pytest.raises(ui.LabError, match="pib status"):
        samples.process(2 ** 22 + 1)


def test_objects_of_all_hcas_are_counted():
    hca = {"objects": {"now_ns": 5, "qps": {"count": 2, "entries": []}, "cqs": {"count": 3, "entries": []}}}
    assert samples.objects([hca, hca]) == 10


@pytest.fixture(name="simulated")
def a_simulated_fabric(tmp_path):
    running = simulated_fabric.Process(tmp_path / "control", simulated_fabric.Fabric(topology.load(FILE)))
    yield running.fabric, running.path
    running.end()


def test_errors_of_a_fabric_are_counted(simulated):
    fabric, path = simulated
    name = fabric.net.switches()[0].name
    assert samples.errors([path]) == 0
    fabric.counters[name, 1].update({"PortRcvErrors": 3, "PortXmitData": 100})
    assert samples.errors([path]) == 3


class Process:
    pid = os.getpid()


class Record:
    processes = {"switch": Process(), "vm0": Process(), "vm1": Process()}


class Switch:
    name = "switch"

    def __init__(self, control):
        self.control = control


class Lab:
    """A lab with the process of this test in place of each of its processes."""
    record = Record()

    def __init__(self, control):
        self.control, self.gone = control, False

    def switches(self):
        return [Switch(self.control)]

    def nodes(self):
        return ["vm0", "vm1"]

    def monitor(self, name):
        return self.control.with_name(name)

    def check(self):
        if self.gone:
            raise ui.LabError("vm0 has ended")


@pytest.fixture(name="lab")
def a_lab(simulated, monkeypatch):
    """A lab. objects: the number of QPs of each guest."""
    made = Lab(simulated[1])
    made.objects = 4
    monkeypatch.setattr(vm, "monitor_line", lambda monitor, line: JIT if line == "info jit" else "")
    monkeypatch.setattr(evidence, "guests", lambda lab: {
        name: {"hcas": [{"objects": {"qps": {"count": lab.objects}}}]} for name in lab.nodes()})
    return made


def rounds(count):
    """A load that counts down the rounds, and the rounds that are left, from which the soak's time is computed."""
    left = [count]

    def work(_lab):
        left[0] -= 1
    return work, left


@pytest.fixture(name="soaked")
def run_rounds(tmp_path, monkeypatch):
    """Runs this many rounds of loads on a lab."""
    def run(lab, count, *more):
        work, left = rounds(count)
        monkeypatch.setattr(soak.Recorder, "seconds", lambda recorder: 3600.0 * (count - left[0]) / count)
        job = soak.Job(hours=1, guests=2, folder=tmp_path / "results", sample_s=0.001, settle_s=0)
        status = soak.run(lab, job, [Load("work", work), *more])
        return status, json.loads((tmp_path / "results" / "soak.json").read_text())
    return run


def test_rounds_are_sampled_and_written(lab, soaked, tmp_path, capsys):
    status, results = soaked(lab, 12)
    assert status == 0 and results["rounds"] == 12 and results["failures"] == []
    quiet = [sample for sample in results["samples"] if sample["phase"] == QUIET]
    assert len(quiet) == 12
    assert set(quiet[0]["values"]) == {f"{kind} {name}" for kind in ("memory", "descriptors", "threads")
                                       for name in ("switch", "vm0", "vm1")} | {"objects vm0", "objects vm1",
                                                                               "errors fabric"}
    with open(tmp_path / "results" / "samples.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(results["samples"]) and rows[-1]["objects vm0"] == "4"
    assert "objects vm0: flat" in capsys.readouterr().out


def test_a_curve_that_grows_is_reported(lab, soaked, capsys):
    def leak(_lab):
        lab.objects += 1
    status, results = soaked(lab, 12, Load("leak", leak))
    assert status == 1
    assert "objects vm0: GROWS" in capsys.readouterr().out
    assert {one["name"] for one in results["verdicts"] if one["flat"] is False} >= {"objects vm0", "objects vm1"}


@pytest.mark.parametrize("failure, said", [
    (ui.LabError("no answer"), "no answer"),
    (subprocess.TimeoutExpired(["ssh"], 150), "ssh did not end within 150 s. What runs:  ./pib status")])
def test_a_load_that_fails_is_reported_and_the_others_go_on(lab, soaked, failure, said):
    def fail(_lab):
        raise failure
    status, results = soaked(lab, 8, Load("bad", fail))
    assert status == 1 and results["rounds"] == 8
    assert results["failures"][0] == f"round 1, bad: {said}"


def test_a_lab_that_is_gone_ends_the_soak(lab, soaked):
    def fail(_lab):
        lab.gone = True
        raise ui.LabError("no answer")
    with pytest.raises(ui.LabError, match="vm0 has ended"):
        soaked(lab, 8, Load("bad", fail))


def test_a_second_soak_waits_for_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUN", tmp_path)
    lock_is_free = ["flock", "--nonblock", tmp_path / "soak.lock", "true"]

    def boot(_lab, _wanted):
        assert subprocess.run(lock_is_free, check=False).returncode
        raise ui.LabError("no guest boots here")
    monkeypatch.setattr(soak.up, "boot", boot)
    with pytest.raises(ui.LabError, match="no guest boots here"):
        soak.soak(soak.Job(hours=1))
    subprocess.run(lock_is_free, check=True)


def test_the_image_has_a_line_for_each_curve():
    taken = [Sample(60.0 * number, QUIET if number % 2 else "ip", {"memory vm0": 100.0 + number, "objects vm0": 4.0})
             for number in range(6)]
    image = xml.etree.ElementTree.fromstring(curve.svg(taken, "title <1>"))
    lines = image.findall(".//{http://www.w3.org/2000/svg}polyline")
    dots = image.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(lines) == 2 and len(dots) == 6


def test_a_round_has_each_kind_of_load_and_each_transport():
    assert [load.name for load in loads.LOADS] == ["traffic", "ip", "disk", "manager", "flaps", "reload", "hot-plug"]
    assert {transport for _, transport in loads.TRAFFIC} == {"RC", "UC", "UD", "XRC"}


@pytest.mark.parametrize("words", [["--hours", "0"], ["--hours", "nan"], ["--hours", "1", "--guests", "1"]])
def test_invalid_options_are_refused(monkeypatch, capsys, words):
    monkeypatch.setattr("sys.argv", ["pib", "soak", *words])
    assert command.main() != 0
    assert "--hours" in capsys.readouterr().err
