# SPDX-License-Identifier: GPL-2.0-or-later
"""A device that dies while the driver registers or unregisters it, as consumers in the kernel see it: modules of the
tests, see ../develop/drivers/dying_device."""
import contextlib
import pathlib
import re
import subprocess

import pytest

import labs
from rdma import DEVICE, PATIENCE_S, debugfs, sh, wait_active, wait_until

SOURCE = pathlib.Path(__file__).parents[1] / "develop" / "drivers" / "dying_device"
# Doorbells of CQs and of the command queue, which a reset has destroyed.
AFTER_RESET = re.compile(r"store to BAR2 at 0x8 refused: .* must have the number of a CQ"
                         r"|store to BAR0 at 0x34 refused: .* command queue that is not enabled")
FLUSHED = {"flush_of_a_direct_cq", "flush_in_a_softirq", "flush_in_a_work"}


@pytest.fixture(scope="module", name="modules")
def compiled(lab):
    return labs.compiled(lab, SOURCE)


@pytest.fixture(name="slot")
def slot_of_the_device(vm1):
    """The device's PCI address. The driver is bound again after the test. IPoIB is not loaded during the test: to post
    a request to a dead device makes all consumers poll. A strict device names the stores that the driver makes after
    a reset until it notices the reset, and nothing else."""
    wait_active(vm1)
    slot = sh(vm1, f"basename $(readlink -f /sys/class/infiniband/{DEVICE}/device); modprobe -r ib_ipoib").strip()
    yield slot
    sh(vm1, f"test -e /sys/class/infiniband/{DEVICE} || {of_driver('bind', slot)}")
    wait_until(lambda: DEVICE in sh(vm1, "ls /sys/class/infiniband"), "the device to come back")
    sh(vm1, "modprobe ib_ipoib")
    wait_active(vm1)
    named = [text for texts in labs.new_misuse().values() for text in texts]
    assert [text for text in named if not AFTER_RESET.match(text)] == []


def of_driver(what, slot):
    return f"echo {slot} >/sys/bus/pci/drivers/pib_hca/{what}"


def load(node, modules, name):
    assert node.run([f"cat >/tmp/{name}.ko"], stdin=modules[name]).returncode == 0
    sh(node, f"echo 'lab: {name}' >/dev/kmsg; insmod /tmp/{name}.ko")


def parameter(node, module, name):
    return sh(node, f"cat /sys/module/{module}/parameters/{name}").strip()


def checks(node):
    """Results of the checks of dying_client since it was loaded, by name, and the kernel's log since then."""
    log = sh(node, "dmesg").rsplit("lab: dying_client", 1)[-1]
    return {name: result == "ok" for result, name in re.findall(r"dying_client: (ok|not ok) (\w+)", log)}, log


@contextlib.contextmanager
def bound_without_subnet_manager(node, manager, slot):
    """Binds the driver; the subnet manager, in another guest, gives no answer until the block ends. Then waits until
    the driver is bound."""
    sh(manager, "pkill -STOP -x opensm")
    try:
        binding = node.start([of_driver("bind", slot)], stdin=subprocess.DEVNULL)
        yield
    finally:
        sh(manager, "pkill -CONT -x opensm")
    assert binding.wait(PATIENCE_S) == 0


def test_no_event_reaches_the_core_before_the_end_of_a_registration(vm0, vm1, modules, slot):
    """The subnet manager changes the port while the driver registers the device."""
    sh(vm1, of_driver("unbind", slot))
    load(vm1, modules, "dying_client")
    try:
        with bound_without_subnet_manager(vm1, vm0, slot):
            wait_until(lambda: "consumer" in checks(vm1)[0], "the registration to reach the consumer")
        results, log = checks(vm1)
        assert results == {"consumer": True, "port": True, "no_event_during_registration": True}, log
        wait_until(lambda: int(parameter(vm1, "dying_client", "events")), "the events that came during registration")
    finally:
        sh(vm1, "rmmod dying_client")


@pytest.mark.parametrize("when, told", [(1, {"fatal_event"}), (2, set())], ids=["before", "meanwhile"])
def test_consumers_leave_a_device_that_dies_when_the_driver_is_unbound(vm1, modules, slot, when, told):
    """The driver flushes their work requests, but does not call the handler of a CQ that only its consumer polls: that
    handler warns (fixture quiet_kernel). Consumers of a device that dies before the unbinding get a fatal event."""
    load(vm1, modules, "dying_client")
    try:
        sh(vm1, f"echo {when} >/sys/module/dying_client/parameters/leave")
        results, log = checks(vm1)
        assert FLUSHED | told <= results.keys() and all(results.values()) and "unsolicited" not in log, log
    finally:
        sh(vm1, "rmmod dying_client")


def test_a_device_whose_registration_fails_is_freed_after_its_last_work(vm1, modules, slot):
    if "no" in debugfs(vm1, "test -e ../../kprobes || echo no"):
        pytest.skip("the kernel has no kprobes")
    sh(vm1, of_driver("unbind", slot))
    load(vm1, modules, "failing_registration")
    try:
        code, _, _ = sh(vm1, of_driver("bind", slot), check=False, timeout=PATIENCE_S)
        log = sh(vm1, "dmesg").rsplit("lab: failing_registration", 1)[-1]
        assert code != 0 and "reset behind the driver's back" in log, log
        sh(vm1, "sleep 1")      # time in which a work item that was not cancelled would begin
        assert parameter(vm1, "failing_registration", "late") == "N"
    finally:
        sh(vm1, "rmmod failing_registration")
