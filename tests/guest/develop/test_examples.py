# SPDX-License-Identifier: GPL-2.0-or-later
"""The drivers in examples/: the steps of the first driver, and the driver in user space. vm1 has no other driver; vm0
has ours, and the subnet manager. Their devices are strict. Guests with Debian's kernel have an IOMMU; those with the
lockdep kernel have none, and VFIO's no-IOMMU mode."""
import re
import signal
import subprocess

import pytest

from lab.base import paths
from lab.build import builder, debug_kernel, kernel_module
from lab.develop import commands
from lab.guests import guest_kernel, vm
from labs import booted
from rdma import DEVICE, PATIENCE_S, sh, wait_until

IOMMU = guest_kernel.chosen() == "debian"
NO_IOMMU_MODE = (guest_kernel.chosen() in debug_kernel.KINDS
                 and "CONFIG_VFIO_NOIOMMU=y" in debug_kernel.wanted_config(guest_kernel.chosen()).splitlines())
pytestmark = [pytest.mark.nightly,
              pytest.mark.skipif(not IOMMU and not NO_IOMMU_MODE, reason="the other kernel has no VFIO")]

FIRST = paths.ROOT / "examples" / "first-driver"
USERSPACE = "examples/userspace-driver"
PROGRAM = "/tmp/userspace-driver"
FUNCTION = "/sys/bus/pci/devices/$(lspci -D -d 1234:1b0c | cut -d ' ' -f 1)"


@pytest.fixture(scope="module", name="bench")
def guests_of_which_one_is_bare():
    with booted("test-examples", 2, hca="strict=fatal", driver=None, size=vm.Size(iommu=IOMMU)) as running:
        commands.exchange_driver(running, kernel_module.OURS, ["vm0"])
        yield running


def put(node, path, data):
    assert node.run([f"cat >{path} && chmod +x {path}"], stdin=data).returncode == 0


def spoken(running, what):
    """Waits for a line of a program's output; returns the line."""
    line = running.stdout.readline()
    if not line:
        running.wait()
        pytest.fail(f"{what} has ended with {running.returncode}")
    return line


# -- the first driver ---------------------------------------------------------

STEPS = {
    "step1-find": "interface 0x1[0-9a-f]{4}, 1 ports, node GUID 0670696200010001",
    "step2-commands": "[0-9]+ QPs, [0-9]+ CQs, [0-9]+ regions",
    "step3-interrupts": "port 1: changes 0x[0-9a-f]+",
    "step4-memory": "PD [0-9]+, key 0x[0-9a-f]+5a of 4096 bytes",
    "step5-queues": "CQ [0-9]+, QP 0x[0-9a-f]+",
}


def load(bench, step):
    commands.exchange_driver(bench, FIRST / step, ["vm1"])
    return bench.node("vm1")


def read(node, file):
    """Reads a file of the function; waits for files of InfiniBand ports, which need Active ports."""
    return wait_until(lambda: sh(node, f"cat {FUNCTION}/{file}", check=False)[1], f"{file} of the function")


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_the_first_driver_says_what_it_has_done(bench, step):
    node = bench.node("vm1")
    count = f"dmesg | grep -c -E 'first_driver .*{STEPS[step]}'"
    before = int(sh(node, count, check=False)[1])
    load(bench, step)
    wait_until(lambda: int(sh(node, count, check=False)[1]) > before, STEPS[step])


def test_step_6_writes_to_itself(bench):
    node = load(bench, "step6-self")
    assert read(node, "self") == "64 bytes written\n"
    assert sh(node, f"cat {FUNCTION}/self") == "64 bytes written\n"


def test_step_7_and_a_peer_write_to_each_other(bench):
    node, peer = load(bench, "step7-peer"), bench.node("vm0")
    put(peer, "/tmp/peer.py", (FIRST / "peer.py").read_bytes())
    running = peer.start([f"exec timeout {PATIENCE_S} python3 /tmp/peer.py {DEVICE} {read(node, 'address')}"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        sh(node, f"echo {spoken(running, 'the peer').strip()} >{FUNCTION}/peer")
        sh(node, f"echo a text of the first driver >{FUNCTION}/write")
        out, _ = running.communicate("now\n", timeout=PATIENCE_S)
    finally:
        running.end()
    assert (running.returncode, out) == (0, "a text of the first driver\n")
    assert sh(node, f"cat {FUNCTION}/memory") == "heard: a text of the first driver\n"


def test_step_8_is_a_device_of_libibverbs(bench):
    node = load(bench, "step8-verbs")
    sh(node, "modprobe ib_uverbs || test -d /sys/class/infiniband_verbs; udevadm settle")
    told = wait_until(lambda: "PORT_ACTIVE" in (out := sh(node, "ibv_devinfo", check=False)[1]) and out,
                      "an Active port")
    assert "first_0" in told and "0670:6962:0001:0001" in told, told


# -- the driver in user space -------------------------------------------------

@pytest.fixture(scope="module", name="program")
def program_in_the_bare_guest(bench):
    tools = builder.Builder(commands.image_of(bench))
    with tools.locked():
        for folder in (kernel_module.COMMON, USERSPACE):
            tools.bring(paths.ROOT / folder, folder)
        tools.sh("building the driver in user space", f"make -C {USERSPACE}", "userspace-driver")
        built = (tools.work / USERSPACE / "userspace-driver").read_bytes()
    node = bench.node("vm1")
    put(node, PROGRAM, built)
    put(node, "/tmp/bind.sh", (paths.ROOT / USERSPACE / "bind.sh").read_bytes())
    sh(node, "/tmp/bind.sh")
    yield node
    sh(node, "/tmp/bind.sh undo")


def wait_for_the_way(bench):
    """Waits until the switch's port to vm1 is Active. The program's own port is Active by now, but the switch's port
    may become Active later, and drops packets until then."""
    way = re.compile(r"^ *[0-9]+  Active .* vm1 pib-hca port 1 ", re.M)
    wait_until(lambda: way.search(bench.switch().ctl("status")), "an Active port of the switch")


def wait_for_the_program_to_take_its_events(bench):
    """People may start the peer later than the 60 s in which a driver takes events (manual, 9)."""
    def all_taken():
        queues = vm.device_property(bench.monitor("vm1"), "objects")["eqs"]["entries"]
        return [eq["consumer"] for eq in queues] == [eq["producer"] for eq in queues]
    wait_until(all_taken, "the program to take its events while it waits for a peer")


def started(program, words):
    return program.start([f"exec timeout {PATIENCE_S} {PROGRAM} {words}"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def said_until_it_waits(running, words):
    told = []
    while not told or not told[-1].startswith("waiting for a peer"):
        told.append(spoken(running, f"{PROGRAM} {words}, after {told},"))
    return told


def serve(bench, program, words, client):
    """Runs the program, and the client once the program waits for a peer. The program ends after the client."""
    running = started(program, words)
    try:
        told = said_until_it_waits(running, words)
        wait_for_the_program_to_take_its_events(bench)
        wait_for_the_way(bench)
        client()
        told.append(running.communicate(timeout=PATIENCE_S)[0])
    finally:
        running.end()
    assert running.returncode == 0, told
    return "".join(told)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGPIPE])
def test_a_signal_ends_the_program_after_a_reset(program, number):
    """The program handles these signals and exits with a status. A program that a signal kills resets no device."""
    running = started(program, "rc-pingpong")
    try:
        said_until_it_waits(running, "rc-pingpong")
        sh(program, f"kill -{number} $(pidof userspace-driver)")
        running.communicate(timeout=PATIENCE_S)
    finally:
        running.end()
    assert running.returncode == 128 + number


def test_a_second_program_is_told_of_the_first(program):
    running = started(program, "rc-pingpong")
    try:
        said_until_it_waits(running, "rc-pingpong")
        code, _, said = sh(program, f"{PROGRAM} show", check=False)
    finally:
        running.end()
    assert code == 1 and "is in use: end the other program" in said


def test_the_program_shows_the_device(program):
    told = sh(program, f"{PROGRAM} show")
    assert ("behind an IOMMU" if IOMMU else "by /dev/vfio/noiommu-0, without an IOMMU") in told
    assert " 1 ports, " in told


@pytest.mark.skipif(IOMMU, reason="the guests have an IOMMU")
@pytest.mark.parametrize("taken, said", [
    ("echo N >/sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "is no-IOMMU mode off?"),
    ("echo 0 >/proc/sys/vm/nr_hugepages", "add a huge page of 2 MiB"),
    ("/tmp/bind.sh undo", "give it to vfio-pci")])
def test_what_no_iommu_mode_lacks_is_named_and_comes_back(program, taken, said):
    sh(program, taken)
    code, _, told = sh(program, f"{PROGRAM} show", check=False)
    assert code == 1 and said in told and "./bind.sh" in told
    sh(program, "/tmp/bind.sh")
    assert "without an IOMMU" in sh(program, f"{PROGRAM} show")


@pytest.mark.parametrize("kind", ["rc", "ud"])
def test_messages_of_a_pingpong_of_libibverbs_come_back(bench, program, kind):
    told = serve(bench, program, f"-n 200 -s 1000 {kind}-pingpong", lambda: sh(
        bench.node("vm0"), f"timeout {PATIENCE_S} ibv_{kind}_pingpong -d {DEVICE} -n 200 -s 1000 vm1"))
    assert "200 messages of 1000 bytes, and all came back as they were sent" in told


def test_messages_of_many_packets_come_back(bench, program):
    told = serve(bench, program, "-n 20 -s 100000 rc-pingpong", lambda: sh(
        bench.node("vm0"), f"timeout {PATIENCE_S} ibv_rc_pingpong -d {DEVICE} -n 20 -s 100000 vm1"))
    assert "20 messages of 100000 bytes, and all came back as they were sent" in told


def test_the_memory_of_a_peer_is_written_and_read(bench, program):
    put(bench.node("vm0"), "/tmp/memory.py", (paths.ROOT / USERSPACE / "peer.py").read_bytes())
    said = []
    told = serve(bench, program, "rdma", lambda: said.append(
        sh(bench.node("vm0"), f"timeout {PATIENCE_S} python3 /tmp/memory.py {DEVICE} vm1")))
    assert "65536 bytes written and 65536 bytes read, all of them right" in told
    assert said == ["65536 bytes written by the other end: right\n"]


def test_no_driver_of_vm1_has_broken_a_rule(bench):
    """Other tests may not see that the device has stopped for a broken rule: unloading a module resets the device."""
    refusals = vm.device_property(bench.monitor("vm1"), "refusals")["refusals"]["entries"]
    assert [entry["text"] for entry in refusals] == []


@pytest.mark.skipif(not IOMMU, reason="the guests have no IOMMU")
def test_the_iommu_has_stopped_no_access(bench):
    for name in bench.nodes():
        assert "DMAR" not in "\n".join(line for line in sh(bench.node(name), "dmesg").splitlines() if "fault" in line)
