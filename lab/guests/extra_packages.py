# SPDX-License-Identifier: GPL-2.0-or-later
"""A root disk with more Debian packages than the guests' image has, in the cache under a hash of its recipe.

The disk has the kernel modules of the guests' image; driver and provider reach guests as with the image's disk. The
other packages come from the archive's present state.
"""

import contextlib
import pathlib
import re
import shlex
from collections.abc import Iterator

from lab.base import paths, ui
from lab.build import cache, debian, image, user_namespace

NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")      # Debian policy, 5.6.1
UNKNOWN = re.compile(r"^E: Unable to locate package (\S+)", re.MULTILINE)
SIZE = "16G"                    # size of the sparse file root.ext4
NEW_GIB = 3.0                   # free space for making a disk; some packages need more
REVISION = "1"                  # part of the cache key: increase it with each change of the code below
LOG = "guest-packages"
PROVIDER_FITS = "libibverbs1"   # must have the same version as in the image, for which the provider is compiled


def check(names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names; an error if one cannot be the name of a package."""
    if wrong := [name for name in names if not NAME.fullmatch(name)]:
        raise ui.LabError(f"{wrong[0]!r} is not the name of a package. Search for one:  apt-cache search WORD")
    return names


def directory(base: pathlib.Path, names: tuple[str, ...]) -> pathlib.Path:
    """The directory of the disk for guests of the image base."""
    recipe = paths.recipe_hash(REVISION, SIZE, image.identity(base), *sorted(set(names)),
                               *image.packages("image-packages.txt"), *image.disk_options())
    return paths.cache() / f"packages-{image.release()}-{recipe}"


@contextlib.contextmanager
def _unknown_named(place: str) -> Iterator[None]:
    """Names the packages that apt in the block has not found. It prints them among much else."""
    try:
        yield
    except ui.LabError as error:
        if unknown := UNKNOWN.findall(str(error)):
            raise ui.LabError(f"{place}Debian's component main of {image.debian_release()} has no package "
                              f"{' and no package '.join(unknown)}. Search for one:  apt-cache search WORD") from error
        raise


def _make(base: pathlib.Path, made: pathlib.Path, names: tuple[str, ...], place: str) -> None:
    lists, tree = image.package_lists(made), made / "rootfs"
    own = [name for name in image.packages("image-packages.txt") if not name.startswith("linux-image-")]
    modules = f'mkdir -p "$1/usr/lib" && cp -a {shlex.quote(str(base / "modules" / "lib" / "modules"))} "$1/usr/lib/"'
    with _unknown_named(place):
        image.bootstrap(f"making a guest disk with {' '.join(names)}", [*own, *names], tree,
                        [*image.disk_options(), f"--customize-hook={modules}"], image.debian_release(), lists, LOG)
    here, there = (debian.package_version(root, PROVIDER_FITS) for root in (tree, base))
    if here != there:
        raise ui.LabError(f"the archive has {PROVIDER_FITS} {here}, the guests' image {there}. Have the image made "
                          f"anew:  ./pib clean {base.name}   and run the same command again")
    image.make_root_disk(tree, made / "root.ext4", SIZE)
    (made / "identity").write_text(paths.recipe_hash(image.keep_status(tree, made)))
    for done in (tree, lists.directory):
        user_namespace.remove(done)


def disk(base: pathlib.Path, names: tuple[str, ...], place: str) -> pathlib.Path:
    """The root disk for guests of the image base; without names the image's own disk. place: start of a message
    about the names, with their file and line; "" if an option names them."""
    if not names:
        return base / "root.ext4"
    return cache.entry(directory(base, names).name, lambda made: _make(base, made, names, place)) / "root.ext4"
