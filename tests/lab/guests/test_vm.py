# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest's command line and its monitor."""

import dataclasses
import pathlib
import shlex
import socket
import threading

import pytest

from lab import status
from lab.base import ui
from lab.fabric import rundir
from lab.fabric.wanted import Wanted
from lab.guests import vm
from lab.hosts import place


def machine(directory, disk=pathlib.Path("/cache/root.ext4")):
    return vm.Machine(0, vm.Boot(pathlib.Path("/k"), pathlib.Path("/i"), disk), directory, "tcg", directory / "hub",
                      [vm.default_hca(0, f"unix:{directory}/fabric")])


def test_commas_in_paths_are_doubled_for_qemu():
    words = machine(pathlib.Path("/tmp/x"), pathlib.Path("/a,b/root.ext4")).argv()
    assert "file=/a,,b/root.ext4,format=raw,if=none,id=root,snapshot=on" in words


@pytest.mark.parametrize("accel, kind", [("tcg", "q35"), ("kvm", "q35,kernel-irqchip=split")])
def test_an_iommu_is_there_before_the_devices_behind_it(accel, kind):
    guest = machine(pathlib.Path("/tmp/x"))
    assert not any("iommu" in word for word in guest.argv())
    words = dataclasses.replace(guest, accel=accel, size=vm.Size(iommu=True)).argv()
    devices = [words[place + 1] for place, word in enumerate(words) if word == "-device"]
    assert devices[0] == "intel-iommu,intremap=on" and kind in words


@pytest.mark.parametrize("extra, shared", [
    ("peer-copy=on", True), ("ports=2,peer-copy=yes", True), ("peer-copy=true,vls=1", True), ("", False),
    ("peer-copy=off", False), ("peer-copy=on,peer-copy=off", False), ("node-description=a,,peer-copy=on", False)])
def test_the_switch_can_map_the_memory_of_a_guest_with_peer_copy(extra, shared):
    """Without it peer copy has no effect, whichever of QEMU's words turns it on."""
    guest = machine(pathlib.Path("/tmp/x"))
    words = dataclasses.replace(guest, hcas=[vm.default_hca(0, "unix:/fabric", extra)]).argv()
    assert ("memory-backend-memfd,id=ram,share=on,size=1024M" in words) == shared


@pytest.mark.parametrize("extra, strict", [
    ("strict=on", True), ("ports=2,strict=fatal", True), ("strict=FATAL", True), ("", False), ("strict=off", False),
    ("strict=on,strict=off", False), ("node-description=a,,strict=on", False)])
def test_memory_that_a_driver_frees_is_zeroed_and_unmapped_if_the_device_is_strict(extra, strict):
    guest = machine(pathlib.Path("/tmp/x"))
    line = dataclasses.replace(guest, hcas=[vm.default_hca(0, "unix:/fabric", extra)]).line()
    assert ("init_on_free=1" in line.split() and "iommu.strict=1" in line.split()) == strict


def test_guids_of_guests_are_locally_administered_and_no_assigned_service_ids():
    hca = vm.default_hca(3, "unix:/fabric")
    assert {guid >> 56 for guid in (hca.node_guid, hca.port_guid)} == {0x06}


def test_the_device_is_loaded_from_the_labs_directory(monkeypatch):
    monkeypatch.setattr(vm, "MODULE", pathlib.Path("/home/a b:c/build/libpib-hca.so"))
    assert machine(pathlib.Path("/tmp/pib-x")).environment() == {"LD_PRELOAD": "/tmp/pib-x/glue/libpib-hca.so"}


def test_the_users_own_vm_loads_the_device_likewise(lab, monkeypatch, capsys):
    monkeypatch.setattr(vm, "MODULE", pathlib.Path("/home/a b:c/build/libpib-hca.so"))
    with pytest.raises(ui.LabError, match="pib up"):
        status.run(lab, 0, "unix:/x", [])
    lab.up(Wanted(1), [])
    status.run(lab, 0, "unix:/x", [])
    link = lab.sockets() / vm.LINK
    assert capsys.readouterr().out.startswith(f"LD_PRELOAD={link}/libpib-hca.so ")
    assert str(link.readlink()) == "/home/a b:c/build" and rundir.fit(str(link))


def test_the_users_own_vm_joins_the_labs_switch(fabric, monkeypatch, capsys):
    monkeypatch.setattr(vm, "MODULE", pathlib.Path("/build/libpib-hca.so"))
    fabric.up(Wanted(1), [])
    status.run(fabric, 7, "", ["a disk"])
    hca = vm.default_hca(7, fabric.switch().address)
    assert shlex.split(capsys.readouterr().out) == [
        f"LD_PRELOAD={vm.MODULE}", vm.QEMU, "-machine", "q35", *hca.argv(0), "a disk"]


@pytest.mark.parametrize("number", [-1, vm.NUMBERS, 1 << 64])
def test_a_number_whose_guids_would_be_those_of_other_nodes_is_refused(lab, number):
    with pytest.raises(ui.LabError, match="--number -?[0-9]+: expected 0 to 4095"):
        status.run(lab, number, "unix:/x", [])
    last = vm.default_hca(vm.NUMBERS - 1, "unix:/x")
    assert last.node_guid < vm.PORT_GUID <= last.port_guid < place.SWITCH_GUID - vm.PORTS_PER_NODE + 1


def test_qemu_chooses_the_port_of_the_loopback_address():
    assert any("hostfwd=tcp:127.0.0.1:0-" in word for word in machine(pathlib.Path("/tmp/x")).argv())


@pytest.mark.parametrize("said", [b"", b'{"QMP": {}}\n', b'{"QMP": {}}\n{"return": {}}\n'])
def test_a_qemu_that_ends_during_a_request_is_an_error(tmp_path, said):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "qmp"))
    server.listen()

    def answer():
        one, _ = server.accept()
        one.sendall(said)
        one.shutdown(socket.SHUT_WR)
        while one.recv(1000):
            pass
    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(ui.LabError, match="QEMU does not answer query-status"):
        vm.monitor_command(tmp_path / "qmp", "query-status")
    thread.join()


@pytest.mark.parametrize("ran, last", [(True, "cont"), (False, "stop")])
def test_a_guest_resumes_only_if_it_was_running(monkeypatch, ran, last):
    commands = []

    def command(_monitor, name):
        commands.append(name)
        return {"running": ran}
    monkeypatch.setattr(vm, "monitor_command", command)
    with pytest.raises(ui.LabError), vm.standing(pathlib.Path("qmp")):
        assert commands[-1] == "stop"
        raise ui.LabError("no")
    assert commands[-1] == last
