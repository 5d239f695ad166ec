# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test arm: compiles host programs, device, driver and provider for 64-bit Arm, and runs the unit tests there
with each page size of such kernels."""

import pathlib
from collections.abc import Callable

from lab.arm import host, kernel, machine, tree
from lab.base.counts import Count
from lab.build import builder, rdma_core
from lab.testing import all_kernels
from lab.testing.progress import Progress

STAGE = "arm"


def _debian_kernel(tools: builder.Builder, flavour: str) -> pathlib.Path:
    return next((tools.tree / "boot").glob(f"vmlinuz-*-{flavour}"))


# Runners by page size in KiB. QEMU's user-mode emulation has this machine's page size; other sizes need a kernel.
RUNS: dict[int, Callable[[builder.Builder, list[dict]], Count]] = {
    4: host.test_emulated,
    16: lambda tools, tests: machine.run(tools, tests, _debian_kernel(tools, "arm64-16k"), 16),
    64: lambda tools, tests: machine.run(tools, tests, kernel.ensure(tools), 64),
}


def missing() -> dict[str, float]:
    """Free space in GiB for new entries of the cache, by name."""
    return tree.missing()


def check(progress: Progress) -> Count:
    stage = progress.begin(STAGE)
    tools = builder.Builder(tree.ensure())
    with tools.locked():
        count = sum((all_kernels.verdict(f"driver, kernel {name}", faults)
                     for name, faults in host.compile_driver(tools).items()), Count())
        version = rdma_core.version(tools.tree)
        count += all_kernels.verdict(f"provider, rdma-core {version}", host.compile_provider(tools))
        host.compile_host(tools)
        tests = host.programs(tools)
        for number, run in enumerate(RUNS.values(), 1):
            count += run(tools, tests)
            stage.count(number, len(RUNS))
            progress.show(stage)
    stage.end(count)
    return count
