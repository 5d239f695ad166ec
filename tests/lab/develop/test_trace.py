# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib trace: entries of a device's trace in words, what is new, and devices that record nothing."""

import json

import pytest

from lab import __main__ as command_line, ui
from lab.develop import timeline, trace, trace_words
from lab.guests import vm

COMMAND = {"sequence": 0, "time_ns": 3_000_004_000, "kind": "command", "opcode": 0x40, "id": 7, "object": 0,
           "status": 0, "result": 3}
REFUSED = {"sequence": 1, "time_ns": 4_123_456_789, "kind": "command", "opcode": 0x40, "id": 8, "object": 0,
           "status": 3, "result": 0x060d02, "rule": "6.13.2", "reason": "log_depth 31 at byte 24, at most 22"}
SEND = {"sequence": 2, "time_ns": 5_000_000_000, "kind": "send-wqe", "qpn": 0x41, "counter": 9,
        "bytes": "020101" + "00" * 29}
INLINE = {**SEND, "sequence": 3, "qpn": 0x42, "bytes": "0009000000000000" + "28000000" + "00" * 20}
RECEIVE = {"sequence": 4, "time_ns": 5_000_000_000, "kind": "recv-wqe", "qpn": 0x41, "counter": 2,
           "bytes": "02000000" + "00" * 28}
CQES = {"cqs": {"entries": [{"cqn": 3, "cqes": [
    {"time_ns": 5_000_001_000, "qpn": 0x41, "counter": 9, "opcode": "RDMA_WRITE", "bytes": 0,
     "status": "IBV_WC_SUCCESS"},
    {"time_ns": 5_000_002_000, "qpn": 0x42, "counter": 9, "opcode": "SEND", "bytes": 0, "status": "IBV_WC_SUCCESS"}]}]}}
PACKET = {"sequence": 5, "time_ns": 6_000_000_000, "kind": "packet-in", "port": 2, "length": 52, "text": "LRH dlid 2"}
ALL = [COMMAND, REFUSED, SEND, INLINE, RECEIVE, PACKET]


@pytest.fixture(name="device")
def a_device(monkeypatch):
    """Its properties, by name."""
    properties = {trace.ENTRIES: 16, "trace": ALL, "objects": CQES}
    monkeypatch.setattr(trace.cluster.Cluster, "node", lambda _self, name: name)
    monkeypatch.setattr(trace.cluster.Cluster, "monitor", lambda _self, name: name)
    monkeypatch.setattr(vm, "monitor_command", lambda _monitor, _command, **words: properties[words["property"]])
    monkeypatch.setattr(vm, "device_property", lambda _monitor, name: properties[name])
    return properties


def shown(capsys, *words):
    options = command_line.parser().parse_args(["trace", "vm1", "--once", *words])
    assert options.function(options) == 0
    return capsys.readouterr().out.splitlines()


def test_entries_are_told_in_words(device, capsys):
    assert shown(capsys) == [
        "3.000004  CREATE_CQ id 7 -> OK, 0x3",
        "4.123456  CREATE_CQ id 8 refused: log_depth 31 at byte 24, at most 22 (manual 6.13 rule 2) -> BAD_PARAM",
        "5.000000  QP 0x41 send WQE 9: RDMA_WRITE, 1 SGEs",
        "5.000000  QP 0x42 send WQE 9: SEND, 40 bytes inline",
        "5.000000  QP 0x41 receive WQE 2: 2 SGEs",
        "6.000000  port 2 in, 52 bytes: LRH dlid 2"]
    device["trace"] = [{**COMMAND, "opcode": 0x7f, "object": 65, "result": 0}]
    assert shown(capsys) == ["3.000004  0x7f of 65 id 7 -> OK"]


@pytest.mark.parametrize("words, sequences", [
    (["--commands"], [0, 1]), (["--wqes"], [2, 3, 4]), (["--packets"], [5]), (["--wqes", "--qp", "0x41"], [2, 4]),
    (["--commands", "--packets"], [0, 1, 5])])
@pytest.mark.usefixtures("device")
def test_kinds_and_qps_are_chosen(capsys, words, sequences):
    told = trace_words.Words()
    assert shown(capsys, *words) == [told.line(ALL[sequence]) for sequence in sequences]


def test_each_entry_is_told_once_and_lost_ones_are_counted():
    reader = trace.Reader(frozenset({"command"}))
    assert list(reader.new([COMMAND, REFUSED])) == [COMMAND, REFUSED]
    later = {**COMMAND, "sequence": 9}
    assert list(reader.new([REFUSED, {**COMMAND, "sequence": 2}, later])) == [{**COMMAND, "sequence": 2}, 6, later]
    assert not list(reader.new([later]))


def test_a_device_without_a_trace_is_named(device, capsys):
    device[trace.ENTRIES] = 0
    with pytest.raises(ui.LabError, match="vm1 records no trace.*--hca-options trace-entries="):
        shown(capsys)


def slices(words, file):
    """The names of the slices that are written."""
    options = command_line.parser().parse_args(["trace", "vm1", "--once", "--output", str(file), *words])
    assert options.function(options) == 0
    return [event["name"] for event in json.loads(file.read_text())["traceEvents"] if event["ph"] == "X"]


@pytest.mark.usefixtures("device")
def test_a_time_line_is_written_and_named(capsys, tmp_path):
    file = tmp_path / "trace.json"
    assert slices([], file) == ["CREATE_CQ", "CREATE_CQ refused", "IBV_WC_SUCCESS", "IBV_WC_SUCCESS", "RECEIVE",
                                "RDMA_WRITE", "SEND", "LRH dlid 2"]
    assert f"{file}: 6 entries. Open it at https://ui.perfetto.dev" in capsys.readouterr().err


@pytest.mark.parametrize("words, names", [
    (["--commands"], ["CREATE_CQ", "CREATE_CQ refused"]), (["--packets"], ["LRH dlid 2"]),
    (["--wqes", "--qp", "0x41"], ["IBV_WC_SUCCESS", "RECEIVE", "RDMA_WRITE"])])
@pytest.mark.usefixtures("device")
def test_kinds_and_qps_are_chosen_for_a_time_line(tmp_path, words, names):
    assert slices(words, tmp_path / "trace.json") == names


@pytest.mark.usefixtures("device")
def test_a_file_that_cannot_be_written_is_named_before_the_recording(tmp_path):
    with pytest.raises(ui.LabError, match="cannot write .*absent/trace.json: No such file"):
        slices([], tmp_path / "absent" / "trace.json")


def test_overwritten_entries_are_told(device, capsys, tmp_path):
    device["trace"] = [COMMAND, {**REFUSED, "sequence": 8}]
    slices([], tmp_path / "trace.json")
    assert "2 entries; 7 entries were overwritten. Open" in capsys.readouterr().err


def test_looks_end_after_their_time_with_a_last_one(monkeypatch):
    clock = iter([0, 0.0, 0.3, 0.7])
    monkeypatch.setattr(trace.time, "monotonic", lambda: next(clock))
    seen = []
    monkeypatch.setattr(trace.time, "sleep", seen.append)
    trace.repeat(lambda: seen.append("look"), 0.7)
    assert seen == ["look", trace.INTERVAL_S, "look", pytest.approx(0.4), "look"]


def test_ctrl_c_ends_with_a_last_look(monkeypatch):
    def interrupted(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(trace.time, "sleep", interrupted)
    seen = []
    trace.repeat(lambda: seen.append("look"), 60)
    assert seen == ["look", "look"]


def test_completions_are_read_before_the_wqes_that_they_end(monkeypatch):
    asked = []

    def answered(_monitor, name):
        asked.append(name)
        return CQES if name == "objects" else ALL

    monkeypatch.setattr(vm, "device_property", answered)
    trace.record("vm1", trace.Reader(frozenset({"send-wqe"})), timeline.Timeline("vm1", trace_words.Words()), 0)
    assert asked == ["objects", "trace"]
