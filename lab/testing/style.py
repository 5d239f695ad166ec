# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test style: the rules of CONTRIBUTING.md that a machine can check."""

from lab.testing import runners
from lab.testing.counts import Count


def style() -> Count:
    return runners.pytest("tests/style") + runners.pytest("tests/driver")
