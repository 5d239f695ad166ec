# SPDX-License-Identifier: GPL-2.0-or-later
"""The guests' kernel: Debian's, or the one that checks its locking.

The choice is in the environment, so that a test runner hands it on to its tests.
"""

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
    """Whether guests of the image that was there with this identity would be of the same one today."""
    current = [debian_image.directory(name) for name in debian_image.RELEASES]
    try:
        if base not in current:
            current = [debug_kernel.directory(current[0])]
        return base in current and debian_image.identity(base) == identity
    except OSError:
        return False


def image() -> pathlib.Path:
    """The image directory of the chosen kernel; made when it is not there."""
    if chosen() not in KINDS:
        raise ui.LabError(f"{VARIABLE}={chosen()}: expected one of {', '.join(KINDS)}")
    return KINDS[chosen()]()
