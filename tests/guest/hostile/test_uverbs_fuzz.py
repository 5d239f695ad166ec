# SPDX-License-Identifier: GPL-2.0-or-later
"""Random system calls on all objects, from processes that race and are killed, also while the driver is unbound."""
import os
import random
import re

import pytest

import labs
from lab.guests import vm
from rdma import DEVICE, ping_itself, sh, wait_active

pytestmark = pytest.mark.nightly
SECONDS = int(os.environ.get("PIB_UVERBS_SECONDS", "60"))
SEED = int(os.environ.get("PIB_UVERBS_SEED") or random.SystemRandom().randrange(2 ** 32))
REBINDS = {"the driver stays": "", "the driver goes": "rebind"}


@pytest.fixture(scope="module", name="node")
def own_guest():
    """A guest with two processors, for the races. The subnet manager is in the other guest."""
    with labs.booted("uverbs", 2, size=vm.Size(cpus=2)) as running:
        yield running.node("vm1")


@pytest.mark.parametrize("rebind", REBINDS.values(), ids=REBINDS)
def test_random_system_calls_harm_nothing(node, rebind):
    """The kernel complains of nothing (fixture quiet_kernel), and the device serves the next program."""
    sh(node, "echo 0 >/proc/sys/debug/exception-trace")     # processes may crash, without a message of the kernel
    print(f"again: PIB_UVERBS_SECONDS={SECONDS} PIB_UVERBS_SEED={SEED}")
    said = sh(node, f"uverbs-fuzz {DEVICE} {SECONDS} {SEED} {rebind}", timeout=SECONDS + 300)
    changed, processes, rebinds = map(int, re.findall(r"\d+", said))
    print(said)
    assert changed and processes > 1 and bool(rebinds) == bool(rebind), said
    wait_active(node)
    ping_itself(node)
