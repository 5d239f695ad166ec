# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test style: the rules of CONTRIBUTING.md that a program can check."""

import os

from lab.base.counts import Count
from lab.testing import runners
from lab.testing.progress import Progress

FOLDERS = ("tests/style", "tests/driver")


def style(progress: Progress, nightly: bool = False) -> Count:
    """Runs the style tests. nightly: also clang-tidy and clang++ on the whole tree."""
    if nightly:
        os.environ["PIB_TIDY"] = "all"
    return sum((runners.pytest(progress, folder) for folder in FOLDERS), Count())
