# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib why names the link, the QP and the cause when a cable is pulled under a connection."""
import subprocess

from lab.fabric import control, evidence, why
from rdma import DEVICE, PATIENCE_S, put_program, sh, switch_port, wait_until

RETRY_EXC_ERR = "12"            # as libibverbs numbers it


def wait_both_active(node):
    wait_until(lambda: sh(node, f"grep -l ACTIVE /sys/class/infiniband/{DEVICE}/ports/*/state").count("\n") == 2,
               "both ports to be ACTIVE")


def without_an_answer(lab, node, link):
    """Pulls the cable of a node's port 2 while its two ports are connected, and sends. link: as ./pib why names it.
    Returns the sending QP and the status of its completion."""
    put_program(node, "unanswered.py")
    running = node.start([f"exec timeout {PATIENCE_S} python3 /tmp/unanswered.py {DEVICE}"], text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = running.stdout.readline()
        assert said.strip().isdigit(), said + running.stdout.read()
        lab.switch().ctl("link", switch_port(lab, node, 2), "down")
        wait_until(lambda: any(f"{link} went down" in line for line in why.lines(evidence.collect(lab))),
                   "the link to be down")
        return int(said), running.communicate("go\n", timeout=PATIENCE_S)[0].strip()
    finally:
        running.kill()


def test_a_pulled_cable_is_named_with_the_connection_that_it_broke(lab, vm1):
    wait_both_active(vm1)
    cable = switch_port(lab, vm1, 2)
    with control.Control(lab.switch().control) as asked:
        link = f"link {asked.switches()[0]}[{cable}] to vm1[2]"
    try:
        qpn, status = without_an_answer(lab, vm1, link)
        assert status == RETRY_EXC_ERR, status
        said = why.lines(evidence.collect(lab), f"vm1:{qpn:#x}")[-1]
        assert f"vm1 QP {qpn:#x}: RETRY_EXC_ERR, because {link} went down at " in said, said
        assert ": the cable was pulled; local ACK timeout 67.1 ms, 3 retries" in said, said
        of_link = why.lines(evidence.collect(lab), f"{link.split()[1]}")
        assert any(f"QP {qpn:#x}" in line for line in of_link), of_link
    finally:
        lab.switch().ctl("link", cable, "up")
        wait_both_active(vm1)
    said = why.lines(evidence.collect(lab), f"vm1:{qpn:#x}")[-1]
    assert f"because {link} was down from " in said and ": the cable was pulled; " in said, said
