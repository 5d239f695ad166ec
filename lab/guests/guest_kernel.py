# SPDX-License-Identifier: GPL-2.0-or-later
"""The guests' kernel: Debian's, a kernel with checks (debug_kernel.py), or a kernel of the user's own.

An environment variable chooses it, so that a test runner passes the choice on to its tests. A value with a slash is the
directory of a kernel tree that has been built."""

import functools
import os
import pathlib
from collections.abc import Callable

from lab.base import paths, ui
from lab.build import builder, debug_kernel, image as debian_image, kernel_tree, preflight
from lab.guests import extra_packages, own_kernel

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
    except (OSError, ui.LabError):      # for example while the tree is being built
        return False


def _tree() -> pathlib.Path | None:
    """The chosen kernel tree; None: the kernel is one of KINDS. Raises LabError if the choice is neither."""
    if "/" in chosen():
        return kernel_tree.check(pathlib.Path(chosen()))
    if chosen() not in KINDS:
        raise ui.LabError(f"{VARIABLE}={chosen()}: expected one of {', '.join(KINDS)}, or the path of a kernel tree")
    return None


def check() -> None:
    """Raises LabError if guests of the chosen release cannot have the chosen kernel. Makes nothing."""
    _tree()
    if chosen() in debug_kernel.KINDS:
        debug_kernel.check(chosen())


def _kernel() -> tuple[pathlib.Path | None, float]:
    """The image directory of the chosen kernel, and the free space in GiB for making it beside Debian's image. None:
    the directory's name depends on an image that has not been made."""
    check()
    base, tree = debian_image.directory(), _tree()
    if chosen() == "debian":
        return base, 0
    try:
        found = own_kernel.directory(base, tree) if tree else debug_kernel.directory(base, chosen())
    except OSError:
        found = None
    return found, own_kernel.NEW_GIB if tree else debug_kernel.NEW_GIB


def _is_missing(directory: pathlib.Path | None) -> bool:
    return directory is None or not os.path.isdir(directory)


def missing(packages: tuple[str, ...] = ()) -> dict[str, float]:
    """Free space in GiB for making what guests need and the cache lacks, by name: the image, the chosen kernel, and a
    disk with packages."""
    base, (kernel, kernel_gib) = debian_image.directory(), _kernel()
    found = {base.name: debian_image.NEW_GIB} if _is_missing(base) else {}
    if kernel != base and _is_missing(kernel):
        found[f"{base.name}, kernel {chosen()}"] = kernel_gib
    if packages and (found or kernel is None or _is_missing(extra_packages.directory(kernel, packages))):
        found[f"{base.name}, {' '.join(packages)}"] = extra_packages.NEW_GIB
    return found


def written() -> tuple[pathlib.Path, ...]:
    """Directories of the cache in which builds for the guests write, if the image is there."""
    kernel, _ = _kernel()
    if kernel is None or _is_missing(kernel):
        return ()
    return (kernel, builder.place(kernel), *([paths.guest_results()] if paths.INSTALLED else []))


def needed(packages: tuple[str, ...] = (), run_gib: float = 0, builds: bool = True) -> preflight.Needed:
    """Free space and rights that the guests' disk needs. packages: in addition to the image's. run_gib: free space
    in the run directory. builds: whether driver, provider and programs are built for the guests."""
    return preflight.Needed(sum(missing(packages).values()), run=run_gib, compiles=bool(missing()),
                            written=written() if builds else ())


def image() -> pathlib.Path:
    """The image directory of the chosen kernel; it is made if it is missing."""
    tree = _tree()
    return own_kernel.ensure(tree) if tree else KINDS[chosen()]()
