# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib wireshark: capture filters, interfaces and their choices, names, and all of it in the distribution's tshark."""

import argparse
import os
import pathlib
import subprocess
import time

import pytest

import simulated_fabric
from lab.base import paths, ui
from lab.fabric import topology
from lab.wireshark import extcap, filters, install, names, ports

FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"
PATIENCE_S = 300
FOLDERS_4_0 = "Personal configuration:\t/h/.config/wireshark\nPersonal Lua Plugins:\t/h/.local/lib/wireshark/plugins\n"
FOLDERS_4_4 = FOLDERS_4_0 + "Personal Extcap path:\t/h/.local/lib/wireshark/extcap\n"


class Shown:
    """A simulated fabric with a connection from vm0 to vm1, whose two packets each capture has."""

    def __init__(self, directory: pathlib.Path):
        net = topology.load(FILE)
        near, far = [host.name for host in net.hosts()][::15]
        self.fabric = simulated_fabric.Fabric(net, {near: "vm0", far: "vm1"})
        self.near, self.far = self.fabric.lids[near], self.fabric.lids[far]
        self.fabric.packets = [
            (time.time(), simulated_fabric.packet(self.near, self.far, 0x51, 4, 7, bytes(range(64)))),
            (time.time(), simulated_fabric.packet(self.far, self.near, 0x41, 17, 7, b"\x1f\0\0\1"))]
        self.process = simulated_fabric.Process(directory / "control", self.fabric)
        self.source = simulated_fabric.Source(self.process, {
            "vm0": simulated_fabric.guest(net, self.fabric, near, [simulated_fabric.qp(0x41, self.far, 0x51)]),
            "vm1": simulated_fabric.guest(net, self.fabric, far, [simulated_fabric.qp(0x51, self.near, 0x41)])})

    def found(self) -> ports.Found:
        return ports.now(self.source)


@pytest.fixture(name="shown")
def shown_fabric(tmp_path):
    shown = Shown(tmp_path)
    yield shown
    shown.process.end()


# -- capture filters --------------------------------------------------------------

def test_a_capture_filter_is_rules_of_the_switch():
    assert filters.rules("") == []
    assert filters.rules("qp 0x40 or slid 4 and dlid 7") == [{"qp": 0x40}, {"slid": 4, "dlid": 7}]
    assert filters.rules("lid 4 and qp 5") == [{"slid": 4, "qp": 5}, {"dlid": 4, "qp": 5}]


@pytest.mark.parametrize("text", ["tcp", "qp", "qp x", "qp 1 or", "and qp 1", "lid 1 lid 2", "qp 1 and",
                                  "lid 65536", "qp 0x1000000", "slid -1"])
def test_a_wrong_capture_filter_is_refused(text):
    with pytest.raises(ui.LabError, match="capture filter: .* An example:"):
        filters.rules(text)


def test_a_filter_narrows_the_rules_of_a_port():
    port = [{"slid": 4}, {"dlid": 4}]
    assert filters.both(port, []) == port and filters.both([], port) == port
    assert filters.both(port, [{"slid": 4, "dlid": 7}]) == [{"slid": 4, "dlid": 7}, {"dlid": 4, "slid": 4}][:1]
    with pytest.raises(ui.LabError, match="no packet can match"):
        filters.both([{"slid": 4}], [{"slid": 5}])


# -- the interface ------------------------------------------------------------------

def test_ports_of_the_fabric_are_interfaces(shown):
    assert list(extcap.interfaces(shown.found())) == [
        "interface {value=pib}{display=pib-hca fabric: all packets}",
        f"interface {{value=pib-vm0-1}}{{display=pib-hca fabric: vm0[1] at leaf1[1], LID {shown.near}}}",
        f"interface {{value=pib-vm1-1}}{{display=pib-hca fabric: vm1[1] at leaf4[4], LID {shown.far}}}"]


def test_a_host_that_is_not_a_guest_is_named_by_its_switch_port(shown):
    shown.source.found = {}
    assert [port.interface for port in shown.found().ports] == ["pib-at-leaf1-1", "pib-at-leaf4-4"]


def test_a_port_offers_its_qps(shown):
    lines = list(extcap.choices(shown.found(), "pib-vm0-1"))
    assert lines[0].startswith("arg {number=0}{call=--qp}") and "{value=all}" in lines[1]
    assert lines[2:] == ["value {arg=0}{value=0x41}{display=QP 0x41: RC, RTS, to QP 0x51}{default=false}"]
    assert not list(extcap.choices(shown.found(), "pib"))


def test_a_choice_becomes_rules_of_the_switch(shown):
    found, control = shown.found(), shown.process.path
    assert extcap.chosen(found, "pib", "all") == (control, [])
    assert extcap.chosen(found, "pib-vm0-1", "all") == (control, [{"slid": shown.near}, {"dlid": shown.near}])
    assert extcap.chosen(found, "pib-vm0-1", "0x41") == (
        control, [{"dlid": shown.near, "qp": 0x41}, {"slid": shown.near, "dlid": shown.far, "qp": 0x51}])
    for name, qp, said in (("pib-vm7-1", "all", "no port"), ("pib-vm0-1", "0x99", "no QP 0x99"),
                           ("pib-vm0-1", "one", "expected a number")):
        with pytest.raises(ui.LabError, match=said):
            extcap.chosen(found, name, qp)


def test_a_fabric_that_does_not_run_has_no_interfaces(shown, capsys, tmp_path):
    shown.source.controls = lambda: []
    extcap.answer(argparse.Namespace(extcap_interfaces=True, names=tmp_path / "names"), shown.source)
    assert capsys.readouterr().out.splitlines()[1:] == []


def test_a_host_without_a_description_is_named_by_its_guid(shown):
    shown.source.found = {}
    switch, port = shown.fabric.net.nodes["node1"].peers[1]
    real = shown.fabric.status

    def nameless(request):
        found = real(request)
        for one in found["ports"] if request["switch"] == switch else []:
            if one["port"] == port:
                one["neighbour"] |= {"description": ""}
        return found
    shown.fabric.status = nameless
    guid = simulated_fabric.guid(shown.fabric.net.nodes["node1"])
    assert f"{guid}[1]" in [port.name for port in shown.found().ports]


def test_a_description_cannot_add_lines_to_the_interfaces(shown):
    shown.source.found = {}
    shown.fabric.net.nodes["node1"].description = "x\ninterface {value=evil}{display=evil} y"
    lines = list(extcap.interfaces(shown.found()))
    assert [line for line in lines if "\n" in line or "evil" in line] == [] and "x[1] at leaf1[1]" in lines[1]
    assert f"lid {shown.near} x[1]" in names.text(shown.found()).splitlines()


# -- names --------------------------------------------------------------------------

def test_the_names_file_has_lids_and_both_ends_of_connections(shown):
    lines = names.text(shown.found()).splitlines()
    assert f"lid {shown.near} vm0[1]" in lines and f"lid {shown.fabric.lids['spine1']} spine1" in lines
    assert f"qp {shown.near} 0x41 vm0:0x41" in lines
    assert f"from {shown.near} {shown.far} 0x51 vm0:0x41" in lines


def test_the_command_prints_the_names(shown, tmp_path):
    """The names lack the lab's guests, because the control socket of a switch does not know them."""
    said = User(tmp_path).run(str(paths.ROOT / "pib"), "wireshark", "names", "--control", str(shown.process.path))
    shown.source.found = {}
    assert said == names.text(shown.found()) and f"lid {shown.near} node1[1]\n" in said


def test_a_changed_fabric_has_its_names_written_again(tmp_path):
    old, new = (f"{names.HEAD}lid {lid} vm0[1]\n" for lid in (1, 2))
    contents = iter([old, new] + [new] * 1000)
    file = tmp_path / "names"
    with names.kept_fresh(file, lambda: next(contents)):
        assert file.read_text() in (old, new)
        end = time.monotonic() + PATIENCE_S
        while file.read_text() != new:
            assert time.monotonic() < end
            time.sleep(0.05)
    assert [path.name for path in tmp_path.iterdir()] == ["names"]


def test_a_users_own_names_file_stays(shown, tmp_path):
    file = tmp_path / "names"
    file.write_bytes(b"# M\xfcller's names\nlid 1 left\n")
    names.write(file, names.text(shown.found()))
    assert file.read_bytes() == b"# M\xfcller's names\nlid 1 left\n" and not names.made_here(file)
    file.write_text("")
    names.write(file, names.text(shown.found()))
    assert names.made_here(file) and "vm0" in file.read_text()


def test_a_folder_that_cannot_be_written_does_not_stop_a_capture(tmp_path):
    with names.kept_fresh(tmp_path / "nothing" / "names", lambda: names.HEAD):
        pass


def test_the_fifo_is_open_until_a_failure_has_been_reported(shown, tmp_path, monkeypatch):
    options = argparse.Namespace(extcap_interfaces=False, extcap_dlts=False, extcap_config=False, capture=True,
                                 fifo=tmp_path / "fifo", names=tmp_path / "names", qp=extcap.ALL_QPS,
                                 extcap_interface=ports.WHOLE, extcap_capture_filter="tcp port 80")
    open_then: list[bool] = []

    def status(error: Exception) -> int:
        assert "expected one of lid, slid" in str(error)
        files = [os.path.realpath(file) for file in pathlib.Path("/proc/self/fd").iterdir()]
        open_then.append(str(options.fifo) in files)
        return 3

    monkeypatch.setattr(extcap.errors, "status", status)
    assert extcap.answer(options, shown.source) == 3 and open_then == [True]


# -- the distribution's tshark ----------------------------------------------------------

def test_wiresharks_folders_are_those_of_its_version():
    assert str(install.places(FOLDERS_4_0).program) == "/h/.config/wireshark/extcap/pib-hca"
    assert str(install.places(FOLDERS_4_4).program) == "/h/.local/lib/wireshark/extcap/pib-hca"
    with pytest.raises(ui.LabError, match="names no plugin folder"):
        install.places("")


class User:
    """A user with a home directory of its own."""

    def __init__(self, home: pathlib.Path):
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "WIRESHARK_"))}
        self.env |= {"HOME": str(home), "TZ": "UTC"}

    def run(self, *argv: str, fails: bool = False) -> str:
        done = subprocess.run(argv, env=self.env, text=True, capture_output=True, timeout=PATIENCE_S, check=False,
                              stdin=subprocess.DEVNULL)
        assert bool(done.returncode) == fails, done.stdout + done.stderr
        return done.stdout + (done.stderr if fails else "")

    def fields(self, *words: str) -> list[list[str]]:
        asked = ("infiniband.lrh.slid", "pib.src", "pib.dst", "pib.icrc.good", "pib.vcrc.good", "_ws.malformed")
        said = self.run("tshark", *words, "-T", "fields", *(word for name in asked for word in ("-e", name)))
        truth = {"1": "True", "0": "False"}         # as tshark before 4.2
        return [[slid, *names_of, truth.get(icrc, icrc), truth.get(vcrc, vcrc), malformed]
                for slid, *names_of, icrc, vcrc, malformed in (line.split("\t") for line in said.splitlines())]


@pytest.fixture(name="user")
def user_with_tshark(shown, tmp_path):
    user = User(tmp_path / "home")
    user.run(str(paths.ROOT / "pib"), "wireshark", "install", "--control", str(shown.process.path))
    return user


def test_tshark_captures_at_a_port_with_a_filter_in_the_switch(shown, user):
    listed = user.run("tshark", "-D")
    assert "pib (pib-hca fabric: all packets)" in listed and "pib-at-leaf1-1 (" in listed
    packets = user.fields("-i", "pib-at-leaf1-1", "-f", "qp 0x51 or qp 0x41", "-c", "2")
    assert packets == [[str(slid), one, other, "True", "True", ""] for slid, one, other in (
        (shown.near, "node1[1]", "node16[1]"), (shown.far, "node16[1]", "node1[1]"))]
    captured = [request["rules"] for request in shown.fabric.requests if request["command"] == "capture"]
    assert captured == [[{end: shown.near, "qp": qp} for end in ("slid", "dlid") for qp in (0x51, 0x41)]]


def test_tshark_refuses_a_capture_filter_of_another_language(shown, user):
    assert "expected one of lid, slid" in user.run("tshark", "-i", "pib", "-f", "tcp port 80", "-c", "1", fails=True)
    assert not [request for request in shown.fabric.requests if request["command"] == "capture"]


def test_the_plugin_names_qps_and_marks_a_wrong_checksum(shown, user, tmp_path):
    install.places(user.run("tshark", "-G", "folders")).names.write_text(names.text(shown.found()))
    blocks = simulated_fabric.pcapng(shown.fabric.packets)
    file = tmp_path / "packets.pcapng"
    file.write_bytes(blocks.replace(bytes(range(64)), bytes(range(1, 65))))
    assert user.fields("-r", str(file)) == [
        [str(shown.near), "vm0:0x41", "vm1:0x51", "False", "False", ""],
        [str(shown.far), "vm1:0x51", "vm0:0x41", "True", "True", ""]]
    assert "vm0:0x41 → vm1:0x51" in user.run("tshark", "-r", str(file))
    kept = tmp_path / "names of another day"
    kept.write_text(names.text(shown.found()).replace("vm0:", "left:"))
    assert "left:0x41 → vm1:0x51" in user.run("tshark", "-o", f"pib.names:{kept}", "-r", str(file))


def test_the_plugin_reads_names_with_spaces(shown, user, tmp_path):
    file, kept = tmp_path / "packets.pcapng", tmp_path / "names"
    file.write_bytes(simulated_fabric.pcapng(shown.fabric.packets))
    kept.write_text(f"lid {shown.near} left rack 1\nqp {shown.far} 0x51 the 2nd program\nlid\nlid x\nqp 1 name\n")
    assert "left rack 1 → the 2nd program" in user.run("tshark", "-o", f"pib.names:{kept}", "-r", str(file))
    said = user.run("tshark", "-o", f"pib.names:{tmp_path}", "-r", str(file), "-V")     # a directory
    assert "pib-hca fabric" in said and "Lua" not in said


def test_the_plugin_shows_arrival_and_credits(shown, user, tmp_path):
    install.places(user.run("tshark", "-G", "folders")).names.write_text(names.text(shown.found()))
    file = tmp_path / "packets.pcapng"
    file.write_bytes(simulated_fabric.pcapng(shown.fabric.packets))
    said = user.run("tshark", "-r", str(file), "-T", "fields", *(word for name in (
        "pib.switch", "pib.port", "pib.credits", "erf.lctr") for word in ("-e", name)))
    assert said.splitlines() == ["\t".join(map(str, (
        "leaf1", simulated_fabric.PORT, simulated_fabric.CREDITS, simulated_fabric.LOST)))] * 2


def test_an_installation_can_be_removed(user):
    user.run(str(paths.ROOT / "pib"), "wireshark", "remove")
    assert "pib-hca fabric" not in user.run("tshark", "-D")
    assert not list(pathlib.Path(user.env["HOME"]).rglob("pib-hca*"))
