# SPDX-License-Identifier: GPL-2.0-or-later
"""Scripted sessions of ./pib gdb and ./pib crash with running guests, which work afterwards."""

import contextlib
import pathlib
import re
import subprocess

import pytest

from conftest import ADDRESSES
from lab.base import ui
from lab.develop import crash, debug_commands, dump, gdb
from lab.fabric import evidence
from lab.guests import vm
from rdma import sh, wait_until

pytestmark = pytest.mark.usefixtures("works")
POST_SEND = ("-ex", "break pib_hca_post_send", "-ex", "continue")
NODE = "vm1"


@contextlib.contextmanager
def traffic(lab):
    """Endless IPoIB datagrams, which the guest's kernel posts."""
    running = lab.node(NODE).start([f"exec ping -i 0.2 {ADDRESSES['vm0']}"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        running.end()


def kernel(lab, capfd, *words):
    """Status and output of gdb at the guest's kernel."""
    status = gdb.kernel(lab, NODE, debug_commands.image_of(lab), ["-batch", *words])
    said = capfd.readouterr()
    print(said.out, said.err)       # pytest shows it if the test fails
    return status, said.out


def device(lab, capfd, *words):
    status = gdb.device(lab, NODE, ["-batch", *words])
    said = capfd.readouterr()
    print(said.out, said.err)
    return status, said.out


def objects(lab):
    return evidence.objects(lab.monitor(NODE))[0]


# -- the kernel ---------------------------------------------------------------------

def test_gdb_stops_in_the_drivers_post_send_and_prints_the_wqe(lab, capfd):
    with traffic(lab):
        status, said = kernel(lab, capfd, *POST_SEND, "-ex", "bt 3", "-ex", "set $qp = ibqp", "-ex", "delete", "-ex",
                              "finish", "-ex", "pib-wqe $qp")
    assert status == 0
    assert re.search(r"Breakpoint 1, pib_hca_post_send \(ibqp=0x[0-9a-f]+", said)
    assert "guest-driver/wr.c:" in said, "the place in our source"
    assert re.search(r"^QP 0x[0-9a-f]+ send WQE \d+ of \d+ posted", said, re.MULTILINE)
    assert "opcode: PIB_HCA_WQE_SEND" in said and re.search(r"^ud: \{av = \{", said, re.MULTILINE)
    assert {int(number, 16) for number in re.findall(r"^QP (0x[0-9a-f]+) ", said, re.MULTILINE)} <= {
        qp["qpn"] for qp in objects(lab)["qps"]["entries"]}


def test_gdb_shows_callers_of_the_driver_and_runs_the_kernels_scripts(lab, capfd):
    with traffic(lab):
        status, said = kernel(lab, capfd, *POST_SEND, "-ex", "bt", "-ex", "delete", "-ex", "lx-ps")
    assert status == 0
    assert re.search(r"^symbols of modules: .*ib_core.*pib_hca", said, re.MULTILINE)
    assert re.search(r"^#[1-9]\d* .* in (ipoib|ib)_\w+ \(", said, re.MULTILINE), "functions of InfiniBand's modules"
    assert re.search(r"^0x[0-9a-f]+\s+2\s+kthreadd$", said, re.MULTILINE)


def test_a_guest_runs_on_when_gdb_is_killed_at_a_breakpoint(lab, capfd):
    with traffic(lab):
        status, _ = kernel(lab, capfd, *POST_SEND, "-ex", "shell kill -KILL $PPID")
        assert status != 0
        assert vm.monitor_command(lab.monitor(NODE), "query-status")["running"]
    assert not list(lab.sockets().glob("*.gdb"))


# -- the device ---------------------------------------------------------------------

@pytest.fixture(name="own_qp")
def a_qp_of_a_process(lab):
    """The number of a QP of a process, which waits for a peer that does not come."""
    before = {qp["qpn"] for qp in objects(lab)["qps"]["entries"]}
    running = lab.node(NODE).start(["exec ibv_rc_pingpong"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)

    def made():
        return [qp["qpn"] for qp in objects(lab)["qps"]["entries"]
                if qp["qpn"] not in before and qp["state"] == "INIT"]
    try:
        yield wait_until(made, "its QP")[0]
    finally:
        running.end()


def numbers(said, kind):
    """Numbers of a kind of objects in the lists of the commands."""
    return {int(number, 0) for number in re.findall(rf"^  {kind} (\w+) ", said, re.MULTILINE)}


def test_gdb_prints_all_objects_of_the_device(lab, own_qp, capfd):
    known = objects(lab)
    assert known["mrs"]["entries"], "a region of the process"
    status, said = device(lab, capfd, "-ex", "pib-qps", "-ex", "pib-cqs", "-ex", "pib-eqs", "-ex", "pib-srqs", "-ex",
                          "pib-mrs", "-ex", "pib-timers")
    assert status == 0 and "/machine/peripheral/hca0: " in said
    assert numbers(said, "qp") == {qp["qpn"] for qp in known["qps"]["entries"]}
    assert numbers(said, "cq") == {cq["cqn"] for cq in known["cqs"]["entries"]}
    assert numbers(said, "eq") == {eq["eqn"] for eq in known["eqs"]["entries"]}
    assert numbers(said, "srq") == {srq["srqn"] for srq in known["srqs"]["entries"]}
    assert f"qp {own_qp:#x} RC INIT " in said
    assert numbers(said, "mr") == {int(mr["key"], 16) for mr in known["mrs"]["entries"]}
    assert "the host's timer is " in said


def test_gdb_prints_one_qp_of_the_device(lab, capfd):
    one = next(qp for qp in objects(lab)["qps"]["entries"] if qp["type"] == "UD")
    status, said = device(lab, capfd, "-ex", f"pib-qp {one['qpn']}", "-ex", "print $qp->pd")
    assert status == 0 and f"qp {one['qpn']:#x} UD RTS pd {one['pd']} " in said
    assert f"= {one['pd']}\n" in said and f"of {one['sq']['depth']} " in said


def test_gdb_prints_the_entries_of_rings(lab, capfd):
    one = next(qp for qp in objects(lab)["qps"]["entries"] if qp["type"] == "UD")
    status, said = device(lab, capfd, "-ex", f"pib-ring sq {one['qpn']} 1", "-ex", f"pib-ring rq {one['qpn']}", "-ex",
                          f"pib-ring cq {one['send_cq']} 1", "-ex", "pib-ring eq 2 1")
    assert status == 0
    assert re.search(rf": sq {one['qpn']}: {one['sq']['depth']} entries\n  [ *] \d+: opcode = SEND .* lkey = ", said,
                     re.MULTILINE)
    assert len(re.findall(r"^  \* \d+: num_sge = 0x1 ", said, re.MULTILINE)) == 16, "receive WQEs that wait"
    assert re.search(rf"^  [ *] \d+: qpn {one['qpn']} wqe_counter .* timestamp ", said, re.MULTILINE)
    assert re.search(r": eq 2: \d+ entries\n    \d+: number \d+", said, re.MULTILINE)


def test_a_ring_that_does_not_exist_is_reported(lab, capfd):
    assert device(lab, capfd, "-ex", "pib-ring cq 0xfffff")[0] == 1
    assert device(lab, capfd, "-ex", "pib-ring wq 1")[0] == 1


def test_gdb_stops_in_the_device_at_a_doorbell(lab, capfd):
    with traffic(lab):
        status, said = device(lab, capfd, "-ex", "break pib_hca_core_mmio_write", "-ex", "continue", "-ex", "bt 2",
                              "-ex", "delete")
    assert status == 0
    assert re.search(r"pib_hca_core_mmio_write \(core=0x[0-9a-f]+, bar=(bar@entry=)?\d", said), "with arguments"


def test_a_qp_that_does_not_exist_is_reported(lab, capfd):
    status, _ = device(lab, capfd, "-ex", "pib-qp 0xfffff")
    assert status == 1


# -- dumps --------------------------------------------------------------------------

def shown(lab, capfd, *words):
    """The output of a command about a dump of the guest."""
    assert crash.crash(lab, NODE, debug_commands.image_of(lab), None, list(words)) == 0
    said = capfd.readouterr()
    print(said.out, said.err)
    assert not list(lab.directory.glob("*.dump*"))
    return said.out


def block(said, qpn):
    """Lines about a QP."""
    return re.search(rf"^qp {qpn:#x}:\n((?:    .*\n)+)", said, re.MULTILINE)[1]


def test_a_dump_shows_the_qps_of_driver_and_device(lab, capfd):
    known = {qp["qpn"]: qp for qp in objects(lab)["qps"]["entries"]}
    said = shown(lab, capfd, "qps")
    assert {int(number, 16) for number in re.findall(r"^qp (0x[0-9a-f]+):$", said, re.MULTILINE)} == set(known)
    for qpn, qp in known.items():
        assert re.search(rf"^    type +{qp['type']} +{qp['type']}$", block(said, qpn), re.MULTILINE)
        assert re.search(rf"^    state +{qp['state']} +{qp['state']}$", block(said, qpn), re.MULTILINE)


def test_a_dump_marks_a_qp_that_the_device_has_put_into_its_error_state(lab, own_qp, capfd):
    sh(lab.node(NODE), f"echo qp_fatal {own_qp} > /sys/kernel/debug/pib_hca/*/inject")
    assert re.search(r"^    state +INIT +ERR +<- differs$", block(shown(lab, capfd, "qps"), own_qp), re.MULTILINE)


def test_a_dump_is_kept_and_opened_again(lab, capfd, tmp_path):
    file = tmp_path / "kept"
    base = debug_commands.image_of(lab)
    assert crash.crash(lab, NODE, base, file, ["dmesg"]) == 0
    assert "Linux version" in capfd.readouterr().out and file.stat().st_mode & 0o777 == 0o600
    assert crash.open_dump(file, ["cqs"]) == 0
    assert re.search(r"^cq 0x[0-9a-f]+:$", capfd.readouterr().out, re.MULTILINE)
    assert crash.open_dump(file, ["python", "print(prog['init_task'].comm.string_())"]) == 0
    assert "swapper/0" in capfd.readouterr().out
    with pytest.raises(ui.LabError, match="exists already"):
        crash.crash(lab, NODE, base, pathlib.Path(file), [])
    dump.remove(file)
