# SPDX-License-Identifier: GPL-2.0-or-later
"""The guests' kernel: Debian's, or the one with checks.

The environment chooses, so a test runner passes the choice on to its tests."""

import os
import pathlib

from lab import ui
from lab.guests import debug_kernel, image as debian_image

VARIABLE = "PIB_KERNEL"
KINDS = {"debian": debian_image.ensure, debug_kernel.NAME: debug_kernel.ensure}


def chosen() -> str:
    return os.environ.get(VARIABLE, "debian")


def choose(kind: str) -> None:
    os.environ[VARIABLE] = kind


def is_current(base: pathlib.Path, identity: str) -> bool:
    """Whether an image with this identity is still up to date."""
    current = [debian_image.directory(name) for name in debian_image.RELEASES]
    try:
        if base not in current:
            current = [debug_kernel.directory(current[0])]
        return base in current and debian_image.identity(base) == identity
    except OSError:
        return False


def image() -> pathlib.Path:
    """The image directory of the chosen kernel; it is made if it is missing."""
    if chosen() not in KINDS:
        raise ui.LabError(f"{VARIABLE}={chosen()}: expected one of {', '.join(KINDS)}")
    return KINDS[chosen()]()
