# SPDX-License-Identifier: GPL-2.0-or-later
"""The guests' kernel: Debian's, a kernel with checks (debug_kernel.py), or a kernel of the user's own.

An environment variable chooses it, so that a test runner passes the choice on to its tests. A value with a slash is the
directory of a kernel tree that has been built."""

import functools
import os
import pathlib
from collections.abc import Callable

from lab import ui
from lab.build import kernel_tree
from lab.guests import debug_kernel, image as debian_image, own_kernel

VARIABLE = "PIB_KERNEL"
KINDS: dict[str, Callable[[], pathlib.Path]] = {
    "debian": debian_image.ensure,
    **{kind: functools.partial(debug_kernel.ensure, kind) for kind in debug_kernel.KINDS}}


def chosen() -> str:
    return os.environ.get(VARIABLE, "debian")


def choose(kind: str) -> None:
    os.environ[VARIABLE] = kind


def choose_tree(tree: pathlib.Path) -> None:
    choose(str(kernel_tree.check(tree.resolve())))


def is_current(base: pathlib.Path, identity: str) -> bool:
    """Whether an image with this identity is still up to date."""
    current = [debian_image.directory(name) for name in debian_image.RELEASES]
    try:
        if tree := kernel_tree.of_image(base):
            current = [own_kernel.directory(one, tree) for one in current if base.name.startswith(f"{one.name}-")]
        elif base not in current:
            current = [debug_kernel.directory(current[0], kind) for kind in debug_kernel.KINDS]
        return base in current and debian_image.identity(base) == identity
    except OSError:
        return False


def image() -> pathlib.Path:
    """The image directory of the chosen kernel; it is made if it is missing."""
    if "/" in chosen():
        return own_kernel.ensure(pathlib.Path(chosen()))
    if chosen() not in KINDS:
        raise ui.LabError(f"{VARIABLE}={chosen()}: expected one of {', '.join(KINDS)}, or the path of a kernel tree")
    return KINDS[chosen()]()
