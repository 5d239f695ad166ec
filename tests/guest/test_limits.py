# SPDX-License-Identifier: GPL-2.0-or-later
"""Attributes at the limits of their ranges, set through kernel and driver. Other programs do not set these values."""
import re

from rdma import DEVICE, put_program, sh, wait_active, wait_until

PORTS = (1, 2)
SYSFS = f"/sys/class/infiniband/{DEVICE}"
CHECKS = 8


def second_gid(node, port):
    return sh(node, f"cat {SYSFS}/ports/{port}/gids/1").strip().replace(":", "").strip("0")


def test_attributes_keep_their_values_at_their_limits(vm0, vm1):
    """opensm gives both ports a second GUID, which the address vectors then name."""
    wait_active(vm0, vm1)
    for name in ("alias_guid.py", "limits.py"):
        put_program(vm1, name)
    try:
        for port in PORTS:
            sh(vm1, f"python3 /tmp/alias_guid.py {DEVICE} {port} set")
            wait_until(lambda port=port: second_gid(vm1, port), f"the second GID of port {port}")
        out = sh(vm1, f"python3 /tmp/limits.py {DEVICE}")
    finally:
        for port in PORTS:
            sh(vm1, f"python3 /tmp/alias_guid.py {DEVICE} {port} delete", check=False)
            wait_until(lambda port=port: not second_gid(vm1, port), f"no second GID at port {port}")
    assert "not ok" not in out and len(re.findall("^ok ", out, re.MULTILINE)) == CHECKS, out


def test_a_new_node_description_is_what_the_subnet_sees(vm0, vm1):
    wait_active(vm0, vm1)
    before = sh(vm1, f"cat {SYSFS}/node_desc").strip()
    lid = sh(vm1, f"cat {SYSFS}/ports/1/lid").strip()
    try:
        sh(vm1, f"echo 'a node of tests' >{SYSFS}/node_desc")
        assert sh(vm0, f"smpquery nodedesc {int(lid, 16)}").endswith(".a node of tests\n")     # echo's newline is gone
        assert sh(vm1, f"cat {SYSFS}/node_desc") == "a node of tests\n"
    finally:
        sh(vm1, f"echo '{before}' >{SYSFS}/node_desc")
