# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test style: the rules of CONTRIBUTING.md that a machine can check."""

from lab.testing import runners
from lab.testing.counts import Count
from lab.testing.progress import Progress

FOLDERS = ("tests/style", "tests/driver")


def style(progress: Progress) -> Count:
    return sum((runners.pytest(progress, folder) for folder in FOLDERS), Count())
