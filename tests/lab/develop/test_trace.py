# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib trace: entries of a device's trace in words, what is new, and devices that record nothing."""

import contextlib
import json

import pytest

from lab import __main__ as command_line
from lab.base import ui
from lab.develop import trace, trace_words
from lab.guests import vm

COMMAND = {"sequence": 0, "time_ns": 3_000_004_000, "kind": "command", "fetched_ns": 3_000_001_000,
           "opcode": 0x40, "id": 7, "object": 0, "status": 0, "result": 3}
REFUSED = {"sequence": 1, "time_ns": 4_123_456_789, "kind": "command", "fetched_ns": 4_123_000_000,
           "opcode": 0x40, "id": 8, "object": 0, "status": 3, "result": 0x060d02, "rule": "6.13.2",
           "reason": "log_depth 31 at byte 24, at most 22"}
SEND = {"sequence": 2, "time_ns": 5_000_000_000, "kind": "send-wqe", "qpn": 0x41, "counter": 9,
        "bytes": "020101" + "00" * 29, "qp_type": 2}
INLINE = {**SEND, "sequence": 3, "qpn": 0x42, "bytes": "0009000000000000" + "28000000" + "00" * 20}
RECEIVE = {"sequence": 4, "time_ns": 5_000_000_000, "kind": "recv-wqe", "qpn": 0x41, "counter": 2,
           "bytes": "02000000" + "00" * 28}
PACKET = {"sequence": 5, "time_ns": 6_000_000_000, "kind": "packet-in", "port": 2, "length": 52, "opcode": 4, "psn": 0,
          "dest_qpn": 0x41, "text": "LRH dlid 2"}
SENT = {**PACKET, "sequence": 6, "kind": "packet-out", "qpn": 0x42, "dest_qpn": 0x41}
END = {"sequence": 7, "time_ns": 7_000_000_000, "kind": "send-done", "qpn": 0x41, "counter": 9, "status": 5, "cqn": 3}
UNSIGNALLED = {"sequence": 8, "time_ns": 7_000_000_000, "kind": "recv-done", "qpn": 0x42, "counter": 1, "status": 0}
MODIFY = {**COMMAND, "sequence": 9, "opcode": 0x51, "object": 0x41, "result": 0}
LOAD = {"sequence": 10, "time_ns": 8_000_000_000, "kind": "load", "bar": 0, "offset": 8, "size": 4, "value": "0x1"}
RUNG = {**LOAD, "sequence": 11, "kind": "store", "bar": 2, "offset": 0x1000, "value": "0x41", "vcpu": 1}
DMA = {"sequence": 12, "time_ns": 8_000_000_000, "kind": "dma-read", "address": "0x1000", "length": 64, "purpose": "QP"}
FAILED = {**DMA, "sequence": 13, "kind": "dma-write", "purpose": "payload", "failed": True}
INTERRUPT = {"sequence": 14, "time_ns": 8_000_000_000, "kind": "interrupt", "vector": 2, "eqn": 3, "event": 0,
             "number": 5}
TESTED = {"sequence": 15, "time_ns": 8_000_000_000, "kind": "interrupt", "vector": 1}
EQE = {"sequence": 16, "time_ns": 8_000_000_000, "kind": "eqe", "eqn": 1, "counter": 9, "event": 9, "number": 0,
       "port": 2, "data": 3}
OF_STORE = {"time_ns": 5_500_000_000, "rule": "8.2.2", "kind": trace.REFUSAL,
            "text": "store to BAR2 at 0x4 refused: value 0x99 must be the number of a QP (manual 8.2 rule 2)"}
OF_WQE = {"time_ns": 9_000_000_000, "qpn": 0x41, "counter": 9, "rule": "12.4.10", "accesses": "BAR2+0x4 = 0x41",
          "text": "send WQE 9 of QP 0x41 refused: num_sge 5 at byte 2, at most 4 (manual 12.4 rule 10)",
          "kind": trace.REFUSAL}
OF_COMMAND = {"time_ns": 4_123_456_789, "command": 0x40, "id": 8, "object": 0, "status": 3, "rule": "6.13.2",
              "text": "CREATE_CQ id 8 refused: log_depth 31 at byte 24, at most 22 (manual 6.13 rule 2)"}
ALL = [COMMAND, REFUSED, SEND, INLINE, RECEIVE, PACKET, SENT, END, UNSIGNALLED, MODIFY, LOAD, RUNG, DMA, FAILED,
       INTERRUPT, TESTED, EQE]


def refusals(*entries, count=0):
    """Refusals as the device reports them, without kinds. count: all since the device's start; 0: as many as these."""
    return {"count": count or len(entries),
            "entries": [{name: value for name, value in entry.items() if name != "kind"} for entry in entries]}


@pytest.fixture(name="device")
def a_device(monkeypatch, tmp_path):
    """The properties of a simulated device by name."""
    properties = {trace.ENTRIES: 16, "trace": ALL, **dict.fromkeys(trace.OPTIONAL.values(), True), "changes": [],
                  "refusals": {"now_ns": 5_600_000_000, "refusals": refusals()},
                  "objects": {"qps": {"count": 1, "entries": [{"qpn": 0x42, "uar": 3}]}}}
    monkeypatch.setattr(trace.cluster.Cluster, "node", lambda _self, name: name)
    monkeypatch.setattr(trace.cluster.Cluster, "monitor", lambda _self, name: name)
    monkeypatch.setattr(trace.cluster.Cluster, "sockets", lambda _self: tmp_path)

    def monitor_command(_monitor, command, **words):
        if command == "qom-set":
            properties[words["property"]] = words["value"]
            properties["changes"].append((words["property"], words["value"]))
        return properties[words["property"]]
    monkeypatch.setattr(vm, "monitor_command", monitor_command)
    monkeypatch.setattr(vm, "device_property", lambda _monitor, name: properties[name])
    return properties


def shown(capsys, *words):
    options = command_line.parser().parse_args(["trace", "vm1", "--once", *words])
    assert options.function(options) == 0
    return capsys.readouterr().out.splitlines()


def test_entries_are_printed_in_words(device, capsys):
    assert shown(capsys) == [
        "3.000004  CREATE_CQ id 7 -> OK, CQN 0x3, 3 us",
        "4.123456  CREATE_CQ id 8 -> BAD_PARAM: log_depth 31 at byte 24, at most 22 (manual 6.13 rule 2), 456 us",
        "5.000000  QP 0x41 send WQE 9: RDMA_WRITE, 1 SGEs",
        "5.000000  QP 0x42 send WQE 9: SEND, 40 bytes inline",
        "5.000000  QP 0x41 receive WQE 2: 2 SGEs",
        "6.000000  port 2 in, 52 bytes: LRH dlid 2",
        "6.000000  port 2 out, 52 bytes: LRH dlid 2",
        "7.000000  QP 0x41 send WQE 9 -> WR_FLUSH_ERR, CQ 3",
        "7.000000  QP 0x42 receive WQE 1 -> SUCCESS, no CQE",
        "3.000004  MODIFY_QP of 0x41 id 7 -> OK, 3 us",
        "8.000000  BAR0 STATUS is 0x1",
        "8.000000  UAR 1 SEND = 0x41, vCPU 1",
        "8.000000  DMA read of 64 bytes at 0x1000 (QP)",
        "8.000000  DMA write of 64 bytes at 0x1000 (payload), which failed",
        "8.000000  interrupt 2: COMPLETION 5 in EQ 3",
        "8.000000  interrupt 1: the register TEST_IRQ",
        "8.000000  EQ 1 EQE 9: PORT 0 port 2, data 0x3"]
    device["trace"] = [{**COMMAND, "opcode": 0x7f, "object": 65, "result": 0}]
    assert shown(capsys) == ["3.000004  0x7f of 0x41 id 7 -> OK, 3 us"]


def test_a_commands_input_is_printed_by_field_names(device, capsys):
    """Fields that are 0 are left out; an input that the trace has cut ends early."""
    given = bytearray(64)
    given[0:8] = (0x12345000).to_bytes(8, "little")         # pages.root
    given[20:28] = (3).to_bytes(4, "little") + (0x20000).to_bytes(4, "little")     # send_cq, recv_cq
    given[48:51] = bytes((2, 1, 6))                         # type, port, log_sq_depth
    create = {**COMMAND, "opcode": 0x50, "id": 12, "result": 0x41, "input": bytes(given).hex()}
    device["trace"] = [create, {**create, "sequence": 1, "input": given[:24].hex()},
                       {**create, "sequence": 2, "input": ""}]
    assert shown(capsys) == [
        "3.000004  CREATE_QP id 12 pages.root 0x12345000 send_cq 3 recv_cq 0x20000 type RC port 1 log_sq_depth 6 "
        "-> OK, QPN 0x41, 3 us",
        "3.000004  CREATE_QP id 12 pages.root 0x12345000 send_cq 3 -> OK, QPN 0x41, 3 us",
        "3.000004  CREATE_QP id 12 -> OK, QPN 0x41, 3 us"]


@pytest.mark.usefixtures("device")
def test_fields_of_wqes_follow_their_line(capsys):
    lines = shown(capsys, "--fields", "--wqes", "--qp", "0x41")
    at = lines.index("5.000000  QP 0x41 send WQE 9: RDMA_WRITE, 1 SGEs")
    assert lines[at + 1:at + 4] == ["      0: pib_hca_wqe_control", "          0: opcode = RDMA_WRITE (0x2)",
                                    "          1: flags = SIGNALED (0x1)"]
    assert "      0: pib_hca_recv_wqe" in lines


@pytest.mark.parametrize("words, sequences", [
    (["--commands"], [0, 1, 9]), (["--wqes"], [2, 3, 4, 7, 8]), (["--packets"], [5, 6]),
    (["--commands", "--packets"], [0, 1, 5, 6, 9]), (["--wqes", "--qp", "0x41"], [2, 4, 7]),
    (["--registers"], [10, 11]), (["--dma"], [12, 13]), (["--interrupts"], [14, 15, 16]),
    (["--qp", "0x41"], [2, 4, 5, 7, 9, 11]), (["--qp", "66"], [3, 6, 8])])
@pytest.mark.usefixtures("device")
def test_kinds_and_qps_are_chosen(capsys, words, sequences):
    told = trace_words.Words()
    assert shown(capsys, *words) == [told.line(ALL[sequence]) for sequence in sequences]


@pytest.mark.parametrize("command", ["trace", "capture"])
@pytest.mark.parametrize("text", ["abc", "-1", "041", "0x1000000"])
def test_a_word_that_is_not_the_number_of_a_qp_is_refused(capsys, command, text):
    with pytest.raises(SystemExit):
        command_line.parser().parse_args([command, "vm1", f"--qp={text}"])
    assert f"{text} is not the number of a QP. Name one" in capsys.readouterr().err


def test_each_entry_is_printed_once_and_lost_ones_are_counted():
    reader = trace.Reader(frozenset({"command"}), trace_words.Words())
    assert list(reader.new([COMMAND, REFUSED], refusals())) == [COMMAND, REFUSED]
    later = {**COMMAND, "sequence": 9}
    assert list(reader.new([REFUSED, {**COMMAND, "sequence": 2}, later], refusals())) == [
        {**COMMAND, "sequence": 2}, 6, later]
    assert not list(reader.new([later], refusals()))


def test_refusals_except_those_of_commands_are_printed_at_their_time(device, capsys):
    device["refusals"]["refusals"] = refusals(OF_COMMAND, OF_STORE, OF_WQE, count=70)
    told = trace_words.Words()
    lines = shown(capsys)
    assert lines[5] == "5.500000  " + OF_STORE["text"] and lines[-1] == "9.000000  " + OF_WQE["text"]
    assert lines[:5] + lines[6:-1] == [told.line(entry) for entry in ALL]
    assert shown(capsys, "--refusals", "--fields", "--qp", "0x41") == [
        "9.000000  " + OF_WQE["text"], "    before that: BAR2+0x4 = 0x41"]
    assert shown(capsys, "--commands") == [told.line(entry) for entry in (COMMAND, REFUSED, MODIFY)]


@pytest.mark.parametrize("rule, text, number", [
    ("8.3.1", "QP 0x41 misused: sq_producer 130 passes the ring; at most 128 (manual 8.3 rule 1)", 0x41),
    ("7.2.4", "CQ 0x1 misused: address 0x41000 of its memory belongs to QP 0x41 (manual 7.2 rule 4)", 0x41),
    ("8.2.2", "store to BAR2 at 0x0 refused: value 0x41 must be the number of a QP (manual 8.2 rule 2)", 0x41),
    ("8.2.3", "store to BAR2 at 0x0 refused: value 0x41 names a QP of another UAR: 0x3 (manual 8.2 rule 3)", 0x41),
    ("8.3.10", "QP 0 misused: sq_producer 1: the device ignores a doorbell (manual 8.3 rule 10)", 0)])
def test_refusals_that_name_a_qp_concern_it(rule, text, number):
    entry = {**OF_STORE, "rule": rule, "text": text}
    assert trace_words.Words().concerns(entry, number)
    assert not trace_words.Words().concerns(entry, 0x1) and not trace_words.Words().concerns(entry, 0x3)
    assert not trace_words.Words().concerns({**entry, "rule": "8.2.5", "text": text.replace("QP", "CQ")}, number)


def test_a_refusal_is_printed_once_and_not_if_it_is_older_than_the_recording(device, capsys):
    reader = trace.Reader(frozenset({trace.REFUSAL}), trace_words.Words())
    assert list(reader.new([], refusals(OF_STORE))) == [OF_STORE]
    assert list(reader.new([], refusals(OF_STORE, OF_WQE))) == [OF_WQE]
    assert not list(reader.new([], refusals(OF_WQE, count=2)))
    device.update({trace.ENTRIES: 0, "refusals": {"now_ns": 5_600_000_000, "refusals": refusals(OF_STORE, OF_WQE)}})
    options = command_line.parser().parse_args(["trace", "vm1", "--refusals", "--seconds", "0"])
    assert options.function(options) == 0
    assert capsys.readouterr().out == f"9.000000  {OF_WQE['text']}\n"


@pytest.mark.parametrize("more", [
    {"opcode": 0x50, "result": 0x41}, {"opcode": 0x58, "object": 0x41}, {"opcode": 0x26, "object": 0x41},
    {"opcode": 0x53, "object": 0x41}, {"opcode": 0x64, "object": 0x41, "input": "0500000000000000"}])
def test_commands_that_name_a_qp_concern_it(more):
    entry = {**COMMAND, "result": 0, **more}
    assert trace_words.Words().concerns(entry, 0x41) and not trace_words.Words().concerns(entry, 0x40)


@pytest.mark.parametrize("entry", [
    {**COMMAND, "object": 0x41}, {**COMMAND, "result": 0x41}, {**COMMAND, "opcode": 0x7f, "object": 0x41},
    {**COMMAND, "opcode": 0x64, "object": 0x41, "input": "0400000000000000"},       # CQ_ERROR
    {**COMMAND, "opcode": 0x50, "status": 3, "result": 0x41}, {**EQE, "event": 0, "number": 0x41}, TESTED,
    {**EQE, "event": 4, "number": 0x41}, DMA])
def test_entries_that_do_not_name_a_qp_do_not_concern_it(entry):
    assert not trace_words.Words().concerns(entry, 0x41)


def test_a_kick_of_its_uar_concerns_a_qp(device, capsys):
    """The UAR is that of the device's QPs, or of the command that creates the QP meanwhile."""
    kick = {**RUNG, "sequence": 1, "offset": 0x3020, "value": "0x0"}
    device["trace"] = [kick, {**kick, "sequence": 2, "offset": 0x4020}]
    assert shown(capsys, "--registers", "--qp", "0x42") == ["8.000000  UAR 3 KICK = 0x0, vCPU 1"]
    given = bytearray(64)
    given[28:32] = (4).to_bytes(4, "little")
    create = {**COMMAND, "opcode": 0x50, "result": 0x42, "input": bytes(given).hex()}
    device["trace"].insert(0, create)
    assert shown(capsys, "--registers", "--qp", "0x42") == ["8.000000  UAR 4 KICK = 0x0, vCPU 1"]
    device["trace"][0] = {**create, "status": 3}
    assert shown(capsys, "--registers", "--qp", "0x42") == ["8.000000  UAR 3 KICK = 0x0, vCPU 1"]
    device["trace"][0] = {**create, "input": ""}
    assert shown(capsys, "--registers", "--qp", "0x42") == ["8.000000  UAR 3 KICK = 0x0, vCPU 1"]


def test_events_of_a_qp_name_it():
    fatal = {**EQE, "event": 5, "number": 0x41}
    assert trace_words.Words().concerns(fatal, 0x41) and not trace_words.Words().concerns(fatal, 0x42)
    assert trace_words.Words().concerns({**INTERRUPT, "event": 0x0e, "number": 0x41}, 0x41)


def test_the_error_for_a_device_without_a_trace_names_the_option(device, capsys):
    device[trace.ENTRIES] = 0
    with pytest.raises(ui.LabError, match="vm1 has recorded nothing.*--hca-options trace-entries="):
        shown(capsys)


def test_a_device_records_while_it_is_traced(device, capsys):
    device.update({trace.ENTRIES: 0, "trace-registers": False})
    options = command_line.parser().parse_args(["trace", "vm1", "--registers", "--seconds", "0"])
    assert options.function(options) == 0 and "BAR0 STATUS" in capsys.readouterr().out
    assert device["changes"] == [("trace-registers", True), (trace.ENTRIES, 65536), (trace.ENTRIES, 0),
                                 ("trace-registers", False)]


def recording(*kinds, once=False):
    return trace.recording(trace.cluster.Cluster(), "vm1", list(kinds), once)


@pytest.mark.parametrize("first_ends", [0, 1])
def test_the_last_of_two_commands_ends_the_recording(device, first_ends):
    device.update({trace.ENTRIES: 0, "trace-registers": False, "trace-interrupts": False})
    commands = [contextlib.ExitStack(), contextlib.ExitStack()]
    assert [command.enter_context(recording(kind)) for command, kind in zip(commands, ("registers", "interrupts"))] == [
        ("vm1", 5_600_000_000), ("vm1", 0)]
    commands.pop(first_ends).close()
    assert device[trace.ENTRIES] == 65536 and device["trace-registers"] and device["trace-interrupts"]
    commands.pop().close()
    assert (device[trace.ENTRIES], device["trace-registers"], device["trace-interrupts"]) == (0, False, False)
    with recording():
        assert device[trace.ENTRIES] == 65536
    assert device[trace.ENTRIES] == 0


def test_the_command_after_a_killed_one_restores_what_that_had_changed(device, tmp_path):
    device.update({trace.ENTRIES: 0, "trace-registers": False})
    with recording("registers"):
        left = (tmp_path / "vm1.trace").read_text()
    device.update({trace.ENTRIES: 65536, "trace-registers": True})
    (tmp_path / "vm1.trace").write_text(left)
    with recording():
        pass
    assert (device[trace.ENTRIES], device["trace-registers"]) == (0, False)


def test_a_refused_recording_changes_nothing(device):
    device.update({trace.ENTRIES: 0, "trace-dma": False})
    for command in (recording(once=True), recording("dma")):
        with pytest.raises(ui.LabError, match="has recorded nothing"), command:
            pass
    assert not device["changes"]


def test_a_device_that_does_not_record_a_chosen_kind_is_named(device, capsys):
    device["trace-dma"] = False
    assert shown(capsys, "--commands", "--registers")
    with pytest.raises(ui.LabError, match="has recorded no dma.*trace-registers=on,trace-dma=on,trace-entries=65536"):
        shown(capsys, "--registers", "--dma")


def test_a_time_line_is_written_and_named(capsys, device, tmp_path):
    device["trace"] = [SEND, {**END, "sequence": 3}]
    file = tmp_path / "trace.json"
    options = command_line.parser().parse_args(["trace", "vm1", "--once", "--output", str(file)])
    assert options.function(options) == 0
    assert f"{file}: 2 entries. Open it at https://ui.perfetto.dev" in capsys.readouterr().err
    written = json.loads(file.read_text())
    assert [event["name"] for event in written["traceEvents"] if event["ph"] == "X"] == ["WR_FLUSH_ERR", "RDMA_WRITE"]


@pytest.mark.usefixtures("device")
def test_a_file_that_cannot_be_written_is_named_before_the_recording(capsys, tmp_path):
    with pytest.raises(ui.LabError, match="cannot write .*absent/trace.json: No such file"):
        shown(capsys, "--output", str(tmp_path / "absent" / "trace.json"))


def test_a_recording_ends_after_its_time_with_a_last_look(monkeypatch, device):
    clock = iter([0, 0.0, 0.3, 0.7, 0.7])
    monkeypatch.setattr(trace.time, "monotonic", lambda: next(clock))
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        device["trace"] = ALL[:len(slept) + 1]

    monkeypatch.setattr(trace.time, "sleep", sleep)
    device["trace"] = ALL[:1]
    seen = []
    trace.follow("vm1", trace.Reader(frozenset(entry["kind"] for entry in ALL), trace_words.Words()), 0.7, seen.append)
    assert seen == ALL[:3]
    assert slept == pytest.approx([0.5, 0.4])


def test_ctrl_c_ends_a_recording_with_a_last_look(monkeypatch, device):
    def interrupted(_seconds):
        device["trace"] = ALL[:2]
        raise KeyboardInterrupt

    monkeypatch.setattr(trace.time, "sleep", interrupted)
    device["trace"] = ALL[:1]
    seen = []
    trace.follow("vm1", trace.Reader(frozenset({"command"}), trace_words.Words()), 60, seen.append)
    assert seen == ALL[:2]


@pytest.mark.parametrize("restarts, said", [(True, "the guest was started anew"), (False, "QEMU does not answer")])
def test_a_guest_that_ends_leaves_the_time_line_so_far(monkeypatch, device, tmp_path, restarts, said):
    """The last entries before a crash are those that matter."""
    def ended(_monitor, _name, _slot=0):
        raise ui.LabError("QEMU does not answer")

    def sleep(_seconds):
        if restarts:
            device.update(trace=[], refusals={"now_ns": 7, "refusals": refusals()})
        else:
            monkeypatch.setattr(trace.vm, "device_property", ended)

    monkeypatch.setattr(trace.time, "sleep", sleep)
    file = tmp_path / "trace.json"
    options = command_line.parser().parse_args(["trace", "vm1", "--seconds", "5", "--output", str(file)])
    with pytest.raises(ui.LabError, match=said):
        options.function(options)
    assert json.loads(file.read_text())["otherData"]["entries"] == len(ALL)


def test_calls_of_a_guest_that_has_ended_are_left_out(monkeypatch, capsys):
    class Recording:
        def __init__(self, *_words):
            pass

        def end(self):
            raise ui.LabError("vm1 does not record its driver")

    monkeypatch.setattr(trace.guest_trace, "Recording", Recording)
    recorded = trace.timeline.Timeline("vm1", trace_words.Words())
    assert trace._record_calls(None, [], lambda: recorded) is recorded     # pylint: disable=protected-access
    assert "lacks the calls of its driver. vm1 does not record" in capsys.readouterr().err
