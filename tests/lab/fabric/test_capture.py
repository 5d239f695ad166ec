# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib capture: rules for guests and QPs, and the stream from the switch."""

import contextlib
import io
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import types

import pytest

import simulated_fabric
from lab.base import paths, process, ui
from lab.fabric import capture, control, switch_process, topology

PATIENCE_S = 60
SECTION = struct.pack("=IIIIiiI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, -1, -1, 28)
PACKET = struct.pack("=IIIIIIII", 6, 36, 0, 0, 0, 4, 4, 0xAABBCCDD) + struct.pack("=I", 36)
QP = {"qpn": 0x40, "port": 1}
RC = {**QP, "dest_qpn": 0x41, "path": {"port": 1, "dlid": 7}, "alt_path": {"port": 0, "dlid": 0}}


def lost(number: int) -> bytes:
    return struct.pack("=IIIIIIQII", 5, 40, 0, 0, 0, 5 | 8 << 16, number, 0, 40)


def objects(*qps: dict, lid: int = 4, lmc: int = 0) -> list[dict]:
    port = {"port": 1, "guid": "0xa1", "lid": lid, "lmc": lmc}
    return [{"ports": {"entries": [port]}, "qps": {"entries": list(qps)}}]


def test_rules_of_a_guest_have_all_of_its_lids():
    assert capture.rules("vm0", objects(lmc=1), None) == [{"slid": 4}, {"dlid": 4}, {"slid": 5}, {"dlid": 5}]


def test_rules_of_a_connection_have_both_directions():
    assert capture.rules("vm0", objects(RC), 0x40) == [{"dlid": 4, "qp": 0x40}, {"slid": 4, "dlid": 7, "qp": 0x41}]


def test_rules_of_a_datagram_qp_have_its_number_as_source():
    assert capture.rules("vm0", objects(QP), 0x40) == [{"dlid": 4, "qp": 0x40}, {"slid": 4, "source_qp": 0x40}]


def test_a_qp_that_does_not_exist_and_a_port_without_a_lid_are_refused():
    with pytest.raises(ui.LabError, match="vm0 has no QP 0x99"):
        capture.rules("vm0", objects(RC), 0x99)
    with pytest.raises(ui.LabError, match="no port has a LID"):
        capture.rules("vm0", objects(lid=0), None)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_blocks_pass_whole_and_are_counted(size):
    data = SECTION + PACKET + lost(3) + PACKET + lost(9)
    seen, passed = capture.Losses(), b""
    for at in range(0, len(data), size):
        passed += seen.pass_on(data[at:at + size], None)
    assert (passed, seen.taken, seen.lost) == (data, 2, 9)


def test_a_number_of_packets_ends_the_capture():
    seen = capture.Losses()
    assert seen.pass_on(SECTION + PACKET * 3, 2) == SECTION + PACKET * 2 and seen.enough(2)


def test_garbage_is_refused():
    for kind, length in ((6, 0), (6, 7), (6, 1 << 30), (5, 12)):
        with pytest.raises(ui.LabError, match="another version"):
            capture.Losses().pass_on(struct.pack("=III", kind, length, length), None)


def served(path, *parts: bytes) -> tuple[threading.Thread, list[bytes]]:
    """A switch that answers one request with these parts."""
    listener, asked = socket.socket(socket.AF_UNIX), []
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        with listener, listener.accept()[0] as client:
            asked.append(client.makefile("rb").readline())
            for part in parts:
                client.sendall(part)
    thread = threading.Thread(target=serve)
    thread.start()
    return thread, asked


def test_a_capture_is_relayed_until_the_switch_ends(tmp_path):
    thread, asked = served(tmp_path / "s", b'{"ok":true}\n' + SECTION[:5], SECTION[5:] + PACKET, lost(2))
    out = io.BytesIO()
    seen = capture.relay(tmp_path / "s", [{"slid": 1}], out, None)
    thread.join()
    assert out.getvalue() == SECTION + PACKET + lost(2) and (seen.taken, seen.lost) == (1, 2)
    assert json.loads(asked[0]) == {"command": "capture", "rules": [{"slid": 1}]}


def test_a_refusal_is_reported(tmp_path):
    thread, _ = served(tmp_path / "s", b'{"ok":false,"error":"4 captures run: end one of them"}\n')
    with pytest.raises(ui.LabError, match="4 captures run"):
        capture.relay(tmp_path / "s", [], io.BytesIO(), None)
    thread.join()
    with pytest.raises(ui.LabError, match="no switch answers"):
        capture.relay(tmp_path / "nothing", [], io.BytesIO(), None)


@pytest.mark.parametrize("answer", [b"", b"{", b"[]\n", b"no JSON\n", b"[" * 100000 + b"\n",
                                    b"x" * (2 * capture.MOST_BLOCK)], ids=lambda answer: str(answer[:10]))
def test_an_answer_that_is_not_of_a_switch_is_reported(tmp_path, answer):
    """The last answer has no newline before the limit of its length."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def serve() -> None:
            for _ in range(2):
                with contextlib.suppress(OSError), listener.accept()[0] as client:      # the client goes early
                    client.recv(1000)
                    client.sendall(answer)
        switch = threading.Thread(target=serve, daemon=True)
        switch.start()
        with pytest.raises(ui.LabError, match="the switch has ended, or "):
            capture.relay(tmp_path / "s", [], io.BytesIO(), None)
        with pytest.raises(ui.LabError, match="the switch has ended, or "), control.Control(tmp_path / "s") as asked:
            asked.ask("status")
        switch.join()


class Gone(io.BytesIO):
    """A pipe whose reader has ended."""
    def flush(self) -> None:
        raise BrokenPipeError


def test_a_switch_that_does_not_answer_is_reported(tmp_path, monkeypatch):
    """A debugger may have stopped the switch. The limit holds for the answer, not for the packets."""
    monkeypatch.setattr(capture.control, "TIMEOUT_S", 0.1)
    late = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "control"))
        listener.listen()

        def hang_up():
            with listener.accept()[0]:
                late.wait(PATIENCE_S)
        switch = threading.Thread(target=hang_up)
        switch.start()
        with pytest.raises(ui.LabError, match="has not answered capture within 0.1 s. Look whether it is stopped"):
            with capture.opened(tmp_path / "control", []):
                pass
        late.set()
        switch.join()


def test_a_reader_that_ends_ends_the_capture(tmp_path):
    thread, _ = served(tmp_path / "s", b'{"ok":true}\n' + SECTION + PACKET)
    assert capture.relay(tmp_path / "s", [], Gone(), None).lost == 0
    thread.join()


def test_a_reader_that_ends_between_packets_ends_the_capture(tmp_path):
    """The reader ends while no packet comes, as on an idle fabric."""
    there, here = os.pipe()
    ended = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def serve():
            with listener.accept()[0] as client:
                client.sendall(b'{"ok":true}\n' + SECTION)
                os.read(there, len(SECTION))
                os.close(there)
                if not ended.wait(PATIENCE_S):
                    client.sendall(PACKET)
        switch = threading.Thread(target=serve, daemon=True)
        switch.start()
        with open(here, "wb") as out:
            seen = capture.relay(tmp_path / "s", [], out, None)
        ended.set()
        switch.join()
    assert seen.taken == 0


@pytest.mark.parametrize("most, read", [("1", True), ("None", False)])
def test_the_command_ends_without_an_error(tmp_path, most, read):
    """The command ends after a number of packets, or because its reader has gone."""
    thread, _ = served(tmp_path / "s", b'{"ok":true}\n' + SECTION + PACKET)
    program = (
        "import pathlib, sys, types; from lab import __main__ as pib; from lab.fabric import capture\n"
        "process = types.SimpleNamespace(control=pathlib.Path(sys.argv[1]))\n"
        "lab = types.SimpleNamespace(nodes=list, running_switches=lambda: [process])\n"
        f"pib._command = lambda: capture.capture(lab, '', None, {most})\n"
        "sys.exit(pib.main())")
    there, here = os.pipe()
    if not read:
        os.close(there)
    done = subprocess.run([sys.executable, "-B", "-c", program, tmp_path / "s"], cwd=paths.ROOT, stdout=here, text=True,
                          stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False)
    os.close(here)
    if read:
        os.close(there)
    thread.join()
    assert "pib:" not in done.stderr and "packets captured, none lost" in done.stderr, done.stderr
    assert done.returncode == 0


def test_a_running_switch_captures_for_four_clients_and_goes_on(tmp_path):
    running = switch_process.Switch(tmp_path)
    started = process.start(running.argv(), tmp_path / "log", directory=tmp_path, name="switch")
    try:
        process.wait_for("pib-switch", running.answers, started, tmp_path / "log", PATIENCE_S)
        with pytest.raises(ui.LabError, match="slid is 0 to 65535"):
            capture.relay(running.control, [{"slid": 1 << 16}], io.BytesIO(), None)
        for _ in range(3):          # a capture that has ended makes room
            clients = [socket.socket(socket.AF_UNIX) for _ in range(4)]
            for client in clients:
                client.settimeout(PATIENCE_S)
                client.connect(str(running.control))
                client.sendall(b'{"command":"capture"}\n')
                reader = client.makefile("rb")
                assert json.loads(reader.readline()) == {"format": "pcapng", "ok": True}
                assert reader.read(len(SECTION)) == SECTION
            with pytest.raises(ui.LabError, match="4 captures run"):
                capture.relay(running.control, [], io.BytesIO(), None)
            for client in clients:
                client.shutdown(socket.SHUT_WR)     # ends the capture; the switch then closes the connection
                while client.recv(4096):
                    pass
                client.close()
        assert "pib-switch" in running.ctl("status")
    finally:
        started.stop()


def test_a_capture_is_of_the_process_that_has_the_port(tmp_path):
    """An HCA has a port at each of two switch processes."""
    net = topology.load(paths.ROOT / "examples" / "topologies" / "redundant-pair.topo")
    running = [simulated_fabric.Process(tmp_path / switch.name, simulated_fabric.Fabric(
        net, {"node1": "vm0"}, only=switch.name)) for switch in net.switches()]
    lab = types.SimpleNamespace(running_switches=lambda: [types.SimpleNamespace(control=one.path) for one in running])
    ports = [{"port": number, "guid": f"{net.nodes['node1'].port_guid(number):#x}", "lid": number, "lmc": 0}
             for number in (1, 2)]
    found = [{"ports": {"entries": ports}, "qps": {"entries": [{"qpn": 0x40, "port": 1}, {"qpn": 0x41, "port": 2}]}}]
    process_of = capture._process               # pylint: disable=protected-access
    try:
        assert [process_of(lab, "vm0", found, qpn) for qpn in (0x40, 0x41)] == [one.path for one in running]
        with pytest.raises(ui.LabError, match=r"at 2 switch processes \(vm0\[1\]; vm0\[2\]\)"):
            process_of(lab, "vm0", found, None)
        with pytest.raises(ui.LabError, match="2 switch processes. Name a guest"):
            process_of(lab, "", [], None)
    finally:
        for one in running:
            one.end()
