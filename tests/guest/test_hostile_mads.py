# SPDX-License-Identifier: GPL-2.0-or-later
"""One guest sends unsolicited MADs to another one."""
import re
import subprocess

import pytest

import managers
from rdma import DEVICE, PATIENCE_S, kernel_complaints, lid, put_program, sh, wait_active


@pytest.fixture
def listener(vm0, vm1):
    """An agent in vm1, and the upper half of its transaction IDs. Another program queries the SA repeatedly."""
    def run(line):
        return vm1.start([line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    put_program(vm1, "mad_listener.py")
    asking = run("until test -e /tmp/asked; do saquery -t 100; ibping -c 1 -t 100 "
                 f"{lid(vm0)}; done >/dev/null 2>&1")
    program = run(f"exec timeout {PATIENCE_S * 2} python3 /tmp/mad_listener.py {DEVICE} {managers.sm_lid(vm1)}")
    serving = run("exec ibping -S")
    try:
        agent = program.stdout.readline()
        assert agent.strip().isdigit(), agent
        yield program, int(agent)
    finally:
        sh(vm1, "touch /tmp/asked; pkill -x ibping", check=False)
        for one in (asking, program, serving):
            one.kill()
        sh(vm1, "rm -f /tmp/asked", check=False)


def test_mads_that_nobody_asked_for_harm_no_guest(vm0, vm1, listener):
    """T47: unsolicited responses and impossible RMPP to QP1, while agents of those classes are at work."""
    def received():
        return int(re.search(r"PortRcvPkts:\.+(\d+)", sh(vm0, f"perfquery -x {lid(vm1)} 1"))[1])

    program, agent = listener
    before, count = received(), 20000
    put_program(vm0, "hostile_mads.py")
    said = sh(vm0, f"python3 /tmp/hostile_mads.py {DEVICE} {lid(vm1)} {agent} {count} 47", timeout=PATIENCE_S * 2)
    # The kernel's RMPP has sent the responses, so it has processed the MADs.
    assert int(re.search(r"answered (\d+)", said)[1]) > 0, said
    assert received() - before >= count
    heard, _ = program.communicate("", timeout=PATIENCE_S)
    assert program.returncode == 0 and re.match(r"heard \d+", heard), heard
    wait_active(vm0, vm1)
    assert "NodeDescription" in sh(vm1, "saquery")
    assert kernel_complaints(vm1) == []
