# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel allocations that fail in verbs: no object is left, no memory leaks, and the HCA still works."""
import re
import time

import pytest

from lab.guests import guest_kernel
from rdma import DEVICE, ping_itself, put_program, resources, sh

pytestmark = [pytest.mark.nightly,
              pytest.mark.skipif(guest_kernel.chosen() != "kasan", reason="only the kasan kernel can fail allocations")]
KMEMLEAK = "/sys/kernel/debug/kmemleak"
LEAST_AGE_S = 6         # kmemleak says nothing about younger objects
LINE = re.compile(r"(\d+) (\d+) (.+)")


def leaks(node):
    """Objects that the driver has allocated and to which nothing points. A pointer in a register hides an object from
    one scan."""
    time.sleep(LEAST_AGE_S)
    found = sh(node, f"echo scan >{KMEMLEAK}; echo scan >{KMEMLEAK}; cat {KMEMLEAK}")
    return [one for one in re.split(r"(?m)^(?=unreferenced object)", found) if "[pib_hca]" in one]


def test_each_allocation_of_each_verb_fails_once(vm1):
    before = resources(vm1)
    sh(vm1, f"echo clear >{KMEMLEAK}")
    put_program(vm1, "allocation_failures.py")
    said = sh(vm1, f"python3 /tmp/allocation_failures.py {DEVICE}", timeout=3600)
    failures = {found[3]: (int(found[1]), int(found[2])) for found in map(LINE.fullmatch, said.splitlines())}
    print(failures)
    assert len(failures) > 10 and all(making for making, _ in failures.values()), failures
    assert resources(vm1) == before
    assert not leaks(vm1)
    ping_itself(vm1)
