# SPDX-License-Identifier: GPL-2.0-or-later
"""Verbs that only the kernel has: a module of the tests executes them. See develop/drivers/kernel_verbs."""
import pathlib
import re

from lab.build import image, kernel_module, kernel_tree
from lab.develop import commands
from rdma import sh, wait_active

SOURCE = pathlib.Path(__file__).parent / "develop" / "drivers" / "kernel_verbs"
CHECKS = {"physical_region", "signaled_registration", "masked_compare_and_swap", "masked_fetch_and_add", "invalidation",
          "atomic_without_sges_asked_for", "smallest_queue_pair", "qkey_counter_is_reset", "system_image_guid_changes"}
MODULE = "/tmp/kernel_verbs.ko"


def compiled(lab):
    base = commands.image_of(lab)
    tools = kernel_tree.tools(base)
    with tools.locked():
        modules = kernel_module.compile_for(image.kernel_version(base), tools, SOURCE).modules
        return modules[0].stripped.read_bytes()


def test_kernel_verbs_work(lab, vm1):
    wait_active(vm1)
    assert vm1.run([f"cat >{MODULE}"], stdin=compiled(lab)).returncode == 0
    sh(vm1, f"insmod {MODULE} && rmmod kernel_verbs")
    said = re.findall(r"kernel_verbs: (ok|not ok) (\w+)(.*)", sh(vm1, "dmesg"))
    assert {name for result, name, _ in said if result == "ok"} == CHECKS and "not ok" not in {
        result for result, _, _ in said}, said
