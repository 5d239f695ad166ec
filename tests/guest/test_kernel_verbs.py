# SPDX-License-Identifier: GPL-2.0-or-later
"""Verbs that only the kernel has: a module of the tests executes them. See develop/drivers/kernel_verbs."""
import pathlib
import re

import labs
from rdma import sh, wait_active

SOURCE = pathlib.Path(__file__).parent / "develop" / "drivers" / "kernel_verbs"
CHECKS = {"physical_region", "signaled_registration", "masked_compare_and_swap", "masked_fetch_and_add", "invalidation",
          "atomic_without_sges_asked_for", "smallest_queue_pair",
          "destroyed_queue_pair_gives_srq_places_back", "qkey_counter_is_reset", "system_image_guid_changes"}
MODULE = "/tmp/kernel_verbs.ko"


def test_kernel_verbs_work(lab, vm1):
    wait_active(vm1)
    assert vm1.run([f"cat >{MODULE}"], stdin=labs.compiled(lab, SOURCE)["kernel_verbs"]).returncode == 0
    sh(vm1, f"insmod {MODULE} && rmmod kernel_verbs")
    said = re.findall(r"kernel_verbs: (ok|not ok) (\w+)(.*)", sh(vm1, "dmesg"))
    assert {name for result, name, _ in said if result == "ok"} == CHECKS and "not ok" not in {
        result for result, _, _ in said}, said
