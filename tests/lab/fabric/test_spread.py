# SPDX-License-Identifier: GPL-2.0-or-later
"""A lab over several hosts. Stand-ins replace its processes, so no libvirtd is needed."""

import shlex
import sys
import types

import pytest

from lab import __main__ as command_line
from lab import status
from lab.base import ui
from lab.fabric import cluster, host_switches, source, spread
from lab.fabric.wanted import Wanted
from lab.guests import vm
from lab.hosts import connection, place, program

HOSTS = place.hosts(["qemu+ssh://a/system", "qemu+ssh://b/system"])
# Each stand-in notes its end. One of a host writes that its files are there; one of a guest, its port and that it has
# booted.
STAND_IN = """
import pathlib, signal, sys
module, uri, lab, *rest = sys.argv[2:]
name, directory = rest if module == "lab.hosts.guest" else (rest[0].rpartition("/")[2], rest[0])
directory, noted = pathlib.Path(directory), pathlib.Path(sys.argv[1])
if module == "lab.hosts.host":
    (directory / "ready").write_text("")
else:
    (directory / f"{name}.console").write_text("lab: ready")
    (directory / f"{name}.port").write_text("2222")
def end(*_):
    with open(noted, "a") as out:
        out.write(f"{name} of {uri}\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
while True:
    signal.pause()
"""


@pytest.fixture(name="noted")
def _noted(tmp_path, monkeypatch):
    """The file in which stand-ins note their ends."""
    noted, script = tmp_path / "noted", tmp_path / "stand-in"
    noted.write_text("")
    script.write_text(STAND_IN)
    monkeypatch.setattr(program, "PYTHON", [sys.executable, str(script), str(noted)])
    monkeypatch.setattr(spread, "URI", 4)
    monkeypatch.setattr(connection, "accelerator", lambda _uris: "tcg")
    monkeypatch.setattr(host_switches, "make_ca", lambda directory: directory.mkdir())
    monkeypatch.setattr(host_switches, "certify", lambda directory, *_: [])
    return noted


def test_guests_are_processes_of_this_machine(lab, noted):
    lab.up(Wanted(3, hosts=HOSTS), [])
    assert list(lab.running()) == ["host0", "host1", "vm0", "vm1", "vm2"] and lab.switches() == []
    assert spread.placed(lab, lab.nodes()) == {0: ["vm0", "vm2"], 1: ["vm1"]}
    assert lab.node("vm1").port == 2222
    where = lab.sockets() / "host1"
    assert (where / "switch" / "options").read_text() == \
        "PLACED=--tls . --guid 0x670696200030001 --name host1 --connect tls:a:7471\n"
    assert sorted(file.name for file in (where / "guests").iterdir()) == ["initramfs.cpio", "root.ext4", "vmlinuz"]
    assert spread.names(lab).domain("vm1") in (lab.sockets() / "vm1.xml").read_text()
    lab.down()
    assert noted.read_text().splitlines() == [
        f"{name} of {HOSTS[number].uri}" for name, number in (("vm2", 0), ("vm1", 1), ("vm0", 0), ("host1", 1),
                                                              ("host0", 0))]


def test_running_guests_stay_unless_a_host_has_gone(lab, noted):
    lab.up(Wanted(2, hosts=HOSTS), [])
    lab.up(Wanted(4, hosts=HOSTS), [])
    assert noted.read_text() == "" and len(lab.nodes()) == 4
    lab.end("vm3")
    lab.state.processes["host0"].stop()
    noted.write_text("")
    lab.up(Wanted(4, hosts=HOSTS), [])
    assert noted.read_text().split()[::3] == ["vm2", "vm1", "vm0", "host1"]
    assert len(lab.nodes()) == 4 and not spread.lost(lab)


def test_errors_name_the_places_of_processes_on_other_hosts(lab, noted):
    del noted
    lab.up(Wanted(2, hosts=HOSTS), [])
    with pytest.raises(ui.LabError, match=f"on other hosts.*/run/pib-switch/{spread.names(lab).lab}/control COMMAND"):
        lab.running_switches()
    with pytest.raises(ui.LabError, match="QEMU of vm0 runs on another host"):
        lab.monitor("vm0")
    with pytest.raises(ui.LabError, match=f"run --fabric unix:/run/pib-switch/{spread.names(lab).lab}/fabric$"):
        status.run(lab, 40, "", [])


def test_views_of_switches_on_other_hosts_say_how_to_reach_them(lab, noted, monkeypatch):
    del noted
    lab.up(Wanted(2, hosts=HOSTS), [])
    monkeypatch.setattr(cluster, "Cluster", lambda: lab)
    control, here = spread.names(lab).control, lab.sockets()
    for command in ("web", "why", "map", "metrics"):
        options = command_line.parser().parse_args([command])
        with pytest.raises(ui.LabError) as raised:
            options.function(options)
        sockets = here / "host0.control", here / "host1.control"
        assert str(raised.value).splitlines()[1:] == [
            f"  ssh -fN -L {sockets[0]}:{control} root@a", f"  ssh -fN -L {sockets[1]}:{control} root@b",
            "Then:", f"  ./pib {command} --control {sockets[0]} --control {sockets[1]}"]
    assert source.reached("web", [here / "one", here / "two"]).controls() == [here / "one", here / "two"]
    with pytest.raises(ui.LabError, match=f"\n  ./pib wireshark --control {here}/host0.control$"):
        spread.refuse(lab, "wireshark")         # wireshark shows one process
    lab.state.hosts[0] = "qemu+ssh://me@a:2222/system"
    with pytest.raises(ui.LabError, match=f"-L {here}/host0.control:{control} -p 2222 root@a\n"):
        spread.refuse(lab, "wireshark")
    with pytest.raises(ui.LabError, match="top: QEMU and the switches run on other hosts"):
        spread.refuse(lab, "top")


@pytest.mark.parametrize("program_, good, said", [
    ("seq 41", 0, "switches that vm0 finds:\n1\n2\n" + "".join(f"{one}\n" for one in range(3, 41)) + "… and 1 more\n"),
    ("echo a switch", 0, "switches that vm0 finds:\na switch\n\nlogs"),
    ("echo no port >&2; exit 1", 1, "vm0 finds no switches: no port. Look at its port:  ./pib exec vm0 -- ibstat\n"),
    ("sleep 60", 1, "vm0 finds no switches: ssh did not end within 2 s")])
def test_status_names_the_hosts(lab, noted, capsys, monkeypatch, program_, good, said):
    del noted
    monkeypatch.setattr(status, "SWITCHES", program_)
    monkeypatch.setattr(status, "DISCOVER_S", 2)
    lab.up(Wanted(2, hosts=HOSTS), [])
    assert status.status(lab) == good
    shown = capsys.readouterr().out
    assert "host1: qemu+ssh://b/system\n  vm1\n" in shown and f"pib-switch@{spread.names(lab).lab}" in shown
    assert said in shown


def test_status_of_a_lab_whose_guests_boot_on_other_hosts_is_whole(lab, noted, capsys):
    del noted
    lab.up(Wanted(2, hosts=HOSTS), [])
    lab.state.ssh_ports.clear()
    assert status.status(lab) == 1
    shown = capsys.readouterr().out
    assert "vm0 finds no switches: vm0 has not booted. Let" in shown and "logs and sockets" in shown


def test_emulated_guests_on_other_hosts_have_one_processor(lab, noted):
    with pytest.raises(ui.LabError, match="--cpus 1, or take a host with KVM"):
        lab.up(Wanted(1, size=vm.Size(cpus=2), hosts=HOSTS), [])
    assert not lab.state and not noted.read_text()


def test_an_error_names_the_package_of_a_missing_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "libvirt", None)
    with pytest.raises(ui.LabError, match="apt-get install python3-libvirt"):
        connection.accelerator(["qemu:///system"])


def test_commands_that_an_error_advises_name_the_uri_as_one_word(monkeypatch):
    class Failure(Exception):
        pass

    def refuse(_uri):
        raise Failure("no such socket")
    library = types.SimpleNamespace(libvirtError=Failure, open=refuse, registerErrorHandler=lambda *_: None)
    monkeypatch.setitem(sys.modules, "libvirt", library)
    uri = "qemu+unix:///system?socket=/it's here&x=1"
    with pytest.raises(ui.LabError) as raised, connection.opened(uri):
        pass
    assert shlex.split(str(raised.value).partition("Try:")[2]) == ["virsh", "-c", uri, "version"]
    library.open = lambda _uri: types.SimpleNamespace(close=lambda: None)
    with pytest.raises(ui.LabError) as raised, connection.opened(uri):
        raise Failure("the host has gone")
    assert shlex.split(str(raised.value).partition("there:")[2]) == ["virsh", "-c", uri, "list", "--all"]


def test_an_error_of_a_process_is_one_sentence(monkeypatch, capsys):
    def fail():
        raise ui.LabError("there is no such host")
    monkeypatch.setattr(program.signals, "raise_on_end", lambda: None)
    assert program.run(fail) == 1 and capsys.readouterr().err == "pib: there is no such host\n"
