# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of a guest's ftrace: the text of the kernel, its times on the device's clock, and the program in the
guest, with files in place of the kernel's."""

import contextlib
import fcntl
import json
import re
import types

import pytest

from lab import __main__ as command_line
from lab.base import lock, ui
from lab.develop import guest_trace, in_guest_trace, trace

# The text of a trace, as Linux 6.12 writes it.
TEXT = """\
# tracer: function_graph
#
#     TIME        CPU  TASK/PID         DURATION                  FUNCTION CALLS
#      |          |     |    |           |   |                     |   |   |   |
  100.000005 |   0)  ibv_rc_-412  |   0.400 us    |  } /* pib_hca_before */
  100.000010 |   0)  ibv_rc_-412  |               |  pib_hca_create_cq [pib_hca]() {
  100.000010 |   0)  ibv_rc_-412  |   1.250 us    |    pib_hca_buf_alloc [pib_hca]();
  100.000012 |   0)  ibv_rc_-412  |               |    pib_hca_cmd() {
  100.000020 |   1)    <idle>-0   |               |  /* irq_handler_entry: irq=27 name=pib_hca-1 */
  100.000021 |   1)    <idle>-0   |   3.100 us    |  pib_hca_eq_irq();
 ------------------------------------------
 0)  ibv_rc_-412   =>   kworker-9
 ------------------------------------------

  100.000022 |   0)  kworker-9    |               |  pib_hca_health() {
  100.000030 |   0)  ibv_rc_-412  | + 18.000 us   |    }
  100.000030 |   0)  ibv_rc_-412  |   20.500 us   |  } /* pib_hca_create_cq [pib_hca] */
"""
NEAR = guest_trace.Clock([[99_999_999_000, 7_000_000_000, 100_000_001_000]])  # the guest's 100 s are the device's 7 s


def named(calls):
    return {call.name: call for call in calls}


def test_calls_have_their_tasks_depths_and_times():
    calls = named(guest_trace.calls(TEXT, NEAR))
    assert {name: (call.task, call.depth, call.begin_ns - 7_000_000_000, call.end_ns and call.end_ns - 7_000_000_000)
            for name, call in calls.items()} == {
        "pib_hca_create_cq": ("ibv_rc_-412", 0, 10_000, 30_001),
        "pib_hca_buf_alloc": ("ibv_rc_-412", 1, 10_001, 11_250),
        "pib_hca_cmd": ("ibv_rc_-412", 1, 12_000, 30_000),
        "irq_handler_entry": ("<idle>-1", 0, 20_000, 20_001),
        "pib_hca_eq_irq": ("<idle>-1", 0, 21_000, 24_100),
        "pib_hca_health": ("kworker-9", 0, 22_000, None)}
    assert calls["irq_handler_entry"].args == {"cpu": 1, "fields": "irq=27 name=pib_hca-1"}


def test_the_clocks_may_drift_between_two_readings():
    clock = guest_trace.Clock([[0, 500, 20], [1_000_000, 2_000_500, 1_000_020]])
    assert [clock.device_ns(ns) for ns in (10, 1_000_010, 500_010)] == [500, 2_000_500, 1_000_500]
    assert clock.uncertainty_ns == 10
    assert guest_trace.Clock([[0, 500, 21]]).device_ns(40) == 530
    assert guest_trace.Clock([[0, 500, 21]]).uncertainty_ns == 11


class FakeGuest:
    """Answers as the program in the guest does."""
    name = "vm1"

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def run(self, command, *, stdin, timeout_s):
        assert stdin == guest_trace.SCRIPT.read_bytes() and timeout_s
        self.asked.append(command)
        status, out, err = self.answers[command[2]]
        return types.SimpleNamespace(returncode=status, stdout=out.encode(), stderr=err.encode())


BEGUN = (0, json.dumps({"clock": NEAR.readings[0], "module": "pib_hca"}) + "\n", "")
LAST = [101_000_000_000, 8_000_000_100, 101_000_000_200]
ENDED = (0, json.dumps({"clock": LAST, "overwritten": 4}) + "\n" + TEXT, "")


def test_a_recording_is_begun_and_ended_in_the_guest():
    guest = FakeGuest(begin=BEGUN, end=ENDED)
    recording = guest_trace.Recording(guest, ["irq:*"])
    calls, clock = recording.end()
    assert guest.asked == [["python3", "-", "begin", "irq:*"], ["python3", "-", "end"]]
    assert (recording.module, recording.overwritten, len(calls)) == ("pib_hca", 4, 6)
    assert clock.uncertainty_ns == 1000
    assert calls[0].begin_ns == 7_000_010_000


def test_a_guest_that_refuses_says_why():
    guest = FakeGuest(begin=(1, "", "Traceback\nthe guest has no HCA\n"))
    with pytest.raises(ui.LabError, match="vm1 does not record its driver: the guest has no HCA"):
        guest_trace.Recording(guest, [])


# -- the command ------------------------------------------------------------------

def traced(monkeypatch, tmp_path, guest, *words):
    monkeypatch.setattr(trace.cluster.Cluster, "node", lambda _self, _name: guest)
    monkeypatch.setattr(trace.cluster.Cluster, "sockets", lambda _self: tmp_path)
    monkeypatch.setattr(trace, "recording", lambda _lab, name, _kinds, _once: contextlib.nullcontext((name, 0)))
    done = {"sequence": 0, "time_ns": 7_000_015_000, "kind": "command", "fetched_ns": 7_000_014_000, "opcode": 0x40,
            "id": 7, "object": 0, "status": 0, "result": 3}
    properties = {"objects": {}, "trace": [done], "refusals": {"now_ns": 0, "refusals": trace.NO_REFUSALS}}
    monkeypatch.setattr(trace.vm, "device_property", lambda _monitor, name: properties[name])
    file = tmp_path / "trace.json"
    options = command_line.parser().parse_args(["trace", "vm1", "--output", str(file), "--seconds", "0", *words])
    assert options.function(options) == 0
    return json.loads(file.read_text())["traceEvents"]


def test_calls_are_on_the_time_line_of_the_device(monkeypatch, tmp_path, capsys):
    events = traced(monkeypatch, tmp_path, FakeGuest(begin=BEGUN, end=ENDED), "--calls")
    slices = {event["name"]: event for event in events if event["ph"] == "X"}
    command, call, caller = (slices[name] for name in ("CREATE_CQ", "pib_hca_cmd", "pib_hca_create_cq"))
    assert caller["ts"] <= call["ts"] <= command["ts"] <= command["ts"] + command["dur"] <= call["ts"] + call["dur"]
    assert (caller["pid"], caller["tid"]) == (call["pid"], call["tid"]) != (command["pid"], command["tid"])
    threads = {event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
    assert threads == {"commands", "ibv_rc_-412", "<idle>-1", "kworker-9"}
    said = capsys.readouterr().err
    assert "6 calls and events of pib_hca, 4 older ones were overwritten; their times are right within 2 us" in said
    assert ": 7 entries." in said


def test_an_event_alone_records_the_calls_too(monkeypatch, tmp_path):
    guest = FakeGuest(begin=BEGUN, end=ENDED)
    traced(monkeypatch, tmp_path, guest, "--event", "irq:*", "--event", "sched:sched_switch")
    assert guest.asked[0][2:] == ["begin", "irq:*", "sched:sched_switch"]


def test_a_second_recording_of_calls_is_refused(monkeypatch, tmp_path):
    guest = FakeGuest(begin=BEGUN, end=ENDED)
    (tmp_path / "trace.json").write_text("of the other command")
    with open(tmp_path / "vm1.calls", "a+", encoding="utf-8") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        lock.sign(other)
        with pytest.raises(ui.LabError, match="for only one command at a time. Wait for .*: +process [0-9]+, "):
            traced(monkeypatch, tmp_path, guest, "--calls")
    assert not guest.asked and (tmp_path / "trace.json").read_text() == "of the other command"
    traced(monkeypatch, tmp_path, guest, "--calls")
    assert guest.asked


@pytest.mark.parametrize("words", [["--calls"], ["--event", "irq:*", "--once", "--output", "x"]])
def test_calls_need_a_file_and_exclude_once(words):
    options = command_line.parser().parse_args(["trace", "vm1", *words])
    with pytest.raises(ui.LabError, match="add --output FILE, without --once"):
        options.function(options)


def test_the_recording_ends_in_the_guest_if_the_device_goes(monkeypatch, tmp_path):
    def gone(_monitor, _name):
        raise ui.LabError("vm1 has ended")

    guest = FakeGuest(begin=BEGUN, end=ENDED)
    monkeypatch.setattr(trace, "follow", lambda monitor, _reader, _seconds, _tell: gone(monitor, "trace"))
    with pytest.raises(ui.LabError, match="vm1 has ended"):
        traced(monkeypatch, tmp_path, guest, "--calls")
    assert [command[2] for command in guest.asked] == ["begin", "end"]


# -- the program in the guest -----------------------------------------------------

@pytest.fixture(name="kernel")
def a_kernel(monkeypatch, tmp_path):
    """The kernel's files for tracing."""
    tracing, device = tmp_path / "tracing", tmp_path / "devices" / "0000:01:00.0"
    for folder in (tracing / "options", tracing / "per_cpu" / "cpu0", device / "driver", tmp_path / "pib_hca"):
        folder.mkdir(parents=True)
    (device / "vendor").write_text("0x1234\n")
    (device / "device").write_text("0x1b0c\n")
    registers = bytearray(4096)
    registers[0x40:0x48] = (1234567890123).to_bytes(8, "little")
    (device / "resource0").write_bytes(registers)
    (device / "driver" / "module").symlink_to(tmp_path / "pib_hca")
    (tracing / "per_cpu" / "cpu0" / "stats").write_text("entries: 9\noverrun: 3\nbytes: 4\n")
    monkeypatch.setattr(in_guest_trace, "TRACING", tracing)
    monkeypatch.setattr(in_guest_trace, "DEVICES", device.parent)
    return tracing


def settings(kernel):
    return {file.name: file.read_text().strip() for file in kernel.iterdir() if file.is_file()}


def test_the_driver_is_recorded_with_the_clock_that_programs_have(kernel, capsys):
    in_guest_trace.begin(["irq:*", "sched:sched_switch"])
    begun = json.loads(capsys.readouterr().out)
    before, device, after = begun["clock"]
    assert (begun["module"], device) == ("pib_hca", 1234567890123) and before <= after
    assert settings(kernel) == {
        "tracing_on": "1", "current_tracer": "function_graph", "set_ftrace_filter": "*:mod:pib_hca", "trace": "",
        "set_event": "irq:* sched:sched_switch", "trace_clock": "mono", "buffer_size_kb": "8192"}
    assert (kernel / "options" / "funcgraph-abstime").read_text() == "1\n"


def test_end_prints_the_trace_and_restores_ftraces_settings(kernel, capsys):
    in_guest_trace.begin([])
    capsys.readouterr()
    (kernel / "trace").write_text(TEXT)
    in_guest_trace.end()
    first, _, text = capsys.readouterr().out.partition("\n")
    assert json.loads(first)["overwritten"] == 3
    assert text == TEXT
    assert settings(kernel) == {"tracing_on": "1", "current_tracer": "nop", "set_ftrace_filter": "", "trace": "",
                                "set_event": "", "trace_clock": "local", "buffer_size_kb": "1408"}
    assert (kernel / "options" / "funcgraph-abstime").read_text() == "0\n"


@pytest.mark.usefixtures("kernel")
def test_a_kernel_that_protects_the_registers_is_reported(monkeypatch):
    def refused(_file, _bytes):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(in_guest_trace.mmap, "mmap", refused)
    with pytest.raises(SystemExit, match="Boot it with iomem=relaxed"):
        in_guest_trace.begin([])


def test_a_guest_without_a_driver_or_an_hca_says_so(kernel, tmp_path):
    (tmp_path / "devices" / "0000:01:00.0" / "driver" / "module").unlink()
    with pytest.raises(SystemExit, match="no driver is bound"):
        in_guest_trace.begin([])
    (tmp_path / "devices" / "0000:01:00.0" / "device").write_text("0x1000\n")
    with pytest.raises(SystemExit, match="no HCA"):
        in_guest_trace.begin([])
    assert not (kernel / "trace").exists()


def test_an_event_that_the_kernel_does_not_have_is_named(kernel):
    (kernel / "set_event").mkdir()
    with pytest.raises(SystemExit, match=re.escape(f"refuses  for {kernel / 'set_event'}")):
        in_guest_trace.begin(["no:such"])
