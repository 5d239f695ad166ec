# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests with adversarial devices (docs/observability.md, Adversary): one boot for each seed. PIB_ADVERSARY has the
first seed and the number of seeds. Without it the tests run in part, with one seed: that of PIB_ADVERSARY_SEED, which
./pib test draws and prints, or a random one."""
import contextlib
import os
import random
import re
import time

import pytest

import labs
from lab.base import ui
from lab.build import kernel_module
from lab.develop import commands
from lab.fabric import subnet
from rdma import DEVICE, reload_the_driver, sh, wait_active, wait_until
from test_rdma_core import SUITE, TESTS
from test_rdmacm import pair

VARIABLE, ONE_SEED = "PIB_ADVERSARY", "PIB_ADVERSARY_SEED"
FLAPS_S = 11            # links of such devices go down in the 10 s after a reset
ADDRESS = "10.78.0.{}"
SHORT = ("cq", "qpex")  # modules of rdma-core's tests
# These tests of rdma-core give a completion 10 s, and an adversarial device may delay each of the commands that
# on-demand pages need by 10 s.
ODP = "odp"
ENDS_S = 120            # an adversarial device ends four times on average in this time
MOST_ENDS = 10          # limit of seeds for the test of devices that end
STATE = f"cat /sys/class/infiniband/{DEVICE}/ports/1/state 2>/dev/null; true"
ALL_BUT_COMMANDS = "interrupts+events+writes+fetches+numbers+ports+retries+clock"


def seeds():
    """The seeds, and whether all tests run."""
    if VARIABLE in os.environ:
        first, count = map(int, os.environ[VARIABLE].split(","))
        return range(first, first + count), True
    return [int(os.environ.get(ONE_SEED) or random.SystemRandom().randrange(2 ** 32))], False


SEEDS, WHOLE = seeds()


def settled(*nodes):
    """Waits until the links stay up, and the subnet manager has brought them up."""
    for node in nodes:
        sh(node, f"sleep {FLAPS_S}")
    wait_active(*nodes)


def run_rdma_core(node, module):
    _, out, err = sh(node, f"cd {SUITE} && python3 run_tests.py --dev {DEVICE} --port 1 --gid 0 -v "
                     f"tests.test_{module}", check=False)
    assert re.search(rf"^Ran {TESTS[module]} tests? in .*\n\nOK\b", err, re.MULTILINE), out + err


def run_upper_layers(vm0, vm1):
    for number, node in enumerate((vm0, vm1), 1):
        sh(node, f"ip link set ib0 up && ip addr replace {ADDRESS.format(number)}/24 dev ib0")
    server = ADDRESS.format(1)
    sh(vm1, f"timeout 120 sh -c 'until ping -c 3 -W 2 {server}; do sleep 1; done'")
    # The server ends at the client's DREQ. Linux does not repeat a DREQ once its process has ended, and the device
    # loses one of 32.
    pair(vm0, vm1, f"rping -s -a {server} -S 4096 -C 20", f"rping -c -a {server} -V -C 20 -S 4096", endless=True)


@contextlib.contextmanager
def adversaries(adversary):
    """Two guests that have rdma-core's tests."""
    with labs.booted("test-adversary", 2, hca=f"adversary={adversary}") as running:
        vm0, vm1 = map(running.node, running.nodes())
        settled(vm0, vm1)
        sh(vm0, f"mkdir -p {SUITE} && cp -r /usr/share/doc/rdma-core/tests/. {SUITE} && gunzip -f {SUITE}/*.gz")
        yield vm0, vm1


@pytest.mark.parametrize("seed", SEEDS, ids=str if WHOLE else ["drawn"])
def test_guests_withstand_an_adversary(seed):
    print(f"again: ./pib test adversary --seed {seed} --seeds 1")
    with adversaries(seed) as (vm0, vm1):
        run_upper_layers(vm0, vm1)
        for module in sorted(TESTS.keys() - {ODP}) if WHOLE else SHORT:
            run_rdma_core(vm0, module)
        if WHOLE:
            reload_the_driver(vm1, 1)
            sh(vm1, "modprobe -a ib_ipoib rdma_ucm")
            settled(vm0, vm1)
            run_upper_layers(vm0, vm1)


@pytest.mark.skipif(not WHOLE, reason="./pib test adversary")
@pytest.mark.parametrize("seed", SEEDS, ids=str if WHOLE else ["drawn"])
def test_on_demand_pages_withstand_an_adversary(seed):
    with adversaries(f"{seed}:{ALL_BUT_COMMANDS}") as (vm0, _):
        run_rdma_core(vm0, ODP)


def exchanged(running):
    """Whether the driver has been loaded; its device may end at any time."""
    try:
        commands.exchange_driver(running, kernel_module.OURS, running.nodes())
    except ui.LabError as error:
        print(error)
        return False
    return True


def active(vm0, vm1):
    """Whether both ports are ACTIVE. opensm loses its port when the device ends, so this starts opensm again."""
    states = [sh(node, STATE) for node in (vm0, vm1)]
    if states[0] and "ACTIVE" not in states[0]:
        sh(vm0, "pkill -x -9 opensm; true")
        subnet.start_manager(vm0)
    return all("ACTIVE" in state for state in states)


@pytest.mark.skipif(not WHOLE, reason="./pib test adversary")
@pytest.mark.parametrize("seed", SEEDS[:MOST_ENDS], ids=str if WHOLE else ["drawn"])
def test_a_driver_starts_its_device_again_after_each_end(seed):
    """Guests boot without a driver, because a boot waits for ports that stay ACTIVE."""
    with labs.booted("test-ends", 2, hca=f"adversary={seed}:end", driver=None) as running:
        vm0, vm1 = map(running.node, running.nodes())
        wait_until(lambda: exchanged(running), "the driver")
        end = time.monotonic() + ENDS_S
        while time.monotonic() < end:
            wait_until(lambda: active(vm0, vm1), "ACTIVE ports")
            # These programs fail when a device ends.
            sh(vm0, f"timeout 20 ib_write_bw -d {DEVICE} -D 8 >/dev/null 2>&1 & sleep 2; true")
            sh(vm1, f"timeout 20 ib_write_bw -d {DEVICE} -D 8 vm0 >/dev/null 2>&1; true")
        wait_until(lambda: active(vm0, vm1), "ACTIVE ports")
        for node in (vm0, vm1):
            assert "it will be started again" in sh(node, "dmesg"), node.name
