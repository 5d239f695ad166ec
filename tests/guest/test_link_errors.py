# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors of a link that are reported to the subnet manager: traps 129 to 131, and their counters."""
import re

import pytest

import managers
from rdma import lid, sh, switch_port, wait_active, wait_until


def told(vm0, trap, source, port):
    """Number of traps about a port that opensm in vm0 has received from a LID."""
    return len(re.findall(rf"Generic Notice type:\S+ num:{trap} .* from LID:{source} Port {port}\b",
                          sh(vm0, f"cat {managers.LAB_LOG}")))


def errors_of(vm0, number, port, name):
    return int(re.search(rf"{name}:\.+(\d+)", sh(vm0, f"perfquery {number} {port}"))[1])


@pytest.fixture
def switch_of(vm0):
    """NodeDescription and LID of the only switch."""
    name, number = re.search(r'ports \d+ "(.*)".* lid (\d+)', sh(vm0, "ibswitches")).groups()
    return name, int(number)


def test_a_wire_that_corrupts_is_reported_to_the_subnet_manager(lab, vm0, vm1, switch_of):
    """Both ends of vm1's link count more damaged packets than their threshold, and say so by trap 129."""
    port, lids = switch_port(lab, vm1), {vm1: lid(vm1), vm0: lid(vm0)}
    ends = ((lids[vm1], 1), (switch_of[1], port))
    counted = ("LocalLinkIntegrityErrors", "PortRcvErrors")
    before = [(told(vm0, 129, *end), [errors_of(vm0, *end, name) for name in counted]) for end in ends]
    assert lab.switch().ctl("fault", port, "--direction", "both", "--corrupt", "1")
    try:
        for node, other in ((vm0, vm1), (vm1, vm0)):
            sh(node, f"ibping -f -c 20 -t 20 {lids[other]}", check=False)
        for end, (heard, _) in zip(ends, before):
            wait_until(lambda: told(vm0, 129, *end) > heard, f"trap 129 from LID {end[0]}")
    finally:
        lab.switch().ctl("fault", port, "--clear")
    for end, (_, counts) in zip(ends, before):
        for name, count in zip(counted, counts):
            assert errors_of(vm0, *end, name) > count, (end, name)
    wait_active(vm0, vm1)


@pytest.mark.parametrize("trap, options, counter", [
    (130, "", "ExcessiveBufferOverrunErrors"), (131, "--vlxmitflowctlerrors", "PortVLXmitFlowCtlUpdateErrors0")])
def test_a_port_sends_the_trap_of_an_operators_command(lab, vm0, vm1, switch_of, trap, options, counter):
    port, (name, number) = switch_port(lab, vm1), switch_of
    heard, before = told(vm0, trap, number, port), errors_of(vm0, f"{options} {number}", port, counter)
    lab.switch().ctl("run", "Trap", f'"{name}"[{port}]', str(trap))
    wait_until(lambda: told(vm0, trap, number, port) > heard, f"trap {trap}")
    assert errors_of(vm0, f"{options} {number}", port, counter) == before + 1
