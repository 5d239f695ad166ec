# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test kernels: driver and provider compile with all kernels and all versions of rdma-core that Debian has."""

from lab.base import ui
from lab.base.counts import Count
from lab.build import builder, kernels, rdma_core
from lab.testing.progress import Progress

STAGE = "kernels"


def verdict(what: str, faults: list[str]) -> Count:
    ui.say(f"{what}: {'; '.join(faults[:3]) or 'passed'}")
    return Count(failed=1) if faults else Count(passed=1)


def _check(release: str) -> Count:
    base = kernels.tree(release)
    tools = builder.Builder(base)
    with tools.locked():
        count = sum((verdict(f"driver, {release}, kernel {kernel}", kernels.compile_driver(tools, kernel))
                     for kernel in kernels.kernels(base)), Count())
        version = rdma_core.version(base / "builder")
        return count + verdict(f"provider, {release}, rdma-core {version}", kernels.compile_provider(tools, release))


def check(progress: Progress) -> Count:
    """Compiles driver and provider for all releases. A release without a tree is a failure."""
    stage, count = progress.begin(STAGE), Count()
    for number, release in enumerate(kernels.RELEASES, 1):
        try:
            count += _check(release)
        except ui.LabError as error:
            count += verdict(release, [str(error)])
        stage.count(number, len(kernels.RELEASES))
        progress.show(stage)
    stage.end(count)
    return count
