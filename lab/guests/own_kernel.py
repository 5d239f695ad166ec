# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests with the user's own kernel, from a kernel tree that has been built (kernel_tree.py).

The result is an image directory as in image.py, in the cache under its own recipe, with the root disk of Debian's
image. The kernel's modules reach a guest through the initramfs, as the driver does: without debug information, and
without modules that no guest of this lab can use. The build tree of Debian's image compiles the provider; this
machine's tools compile the driver."""

import fnmatch
import os
import pathlib
import shutil

from lab.base import paths, ui
from lab.build import cache, image, kernel_tree

REVISION = "1"                  # part of the cache key: increase it with each change of the code below
LOG = "own-kernel"
ROOT = "root"                   # tree in the image's directory with the layout of a guest's root
MODULES = "usr/lib/modules"
NEW_GIB = 0.5                   # free space for an image with such a kernel, beside Debian's image
MOST_MB = 256                   # limit of the modules' size, because the initramfs is in a guest's memory
MB = 1_000_000
INDEXES = ("modules.builtin", "modules.builtin.modinfo")    # files that make leaves in a kernel tree
COPY = ('xargs -0 -r -n 32 -P "$(nproc)" sh -ec \'for module; do mkdir -p "$OUT/$(dirname "$module")"; '
        'strip -g -o "$OUT/$module" "$module"; done\' sh <"$LIST"')


def directory(base: pathlib.Path, tree: pathlib.Path) -> pathlib.Path:
    """The image's directory. base: the image with the root disk."""
    recipe = paths.recipe_hash(REVISION, image.identity(base), str(tree), kernel_tree.fingerprint(tree))
    return paths.cache() / f"{base.name}-own-{recipe}"


def usable(modules: list[str]) -> list[str]:
    """The modules that a guest may need."""
    return [name for name in modules
            if not any(fnmatch.fnmatchcase(name, f"{part}/*") for part in image.UNUSED_MODULES)]


def _copy_modules(tree: pathlib.Path, made: pathlib.Path) -> None:
    wanted, version = usable(kernel_tree.modules(tree)), kernel_tree.release(tree)
    target = made / ROOT / MODULES / version
    (target / "kernel").mkdir(parents=True)
    listing = made / "modules.list"
    listing.write_text("".join(f"{name}\0" for name in wanted))
    ui.run(f"copying {len(wanted)} modules of {tree}", ["sh", "-ec", COPY], LOG, cwd=tree,
           env={**os.environ, "OUT": str(target / "kernel"), "LIST": str(listing)})
    listing.unlink()
    if (size := sum(path.stat().st_size for path in target.rglob("*.ko"))) > MOST_MB * MB:
        raise ui.LabError(f"{tree} has {size // MB} MB of modules, and a guest takes {MOST_MB} MB at most. "
                          "Build fewer of them:  make localmodconfig")
    (target / kernel_tree.ORDER).write_text("".join(f"kernel/{name}\n" for name in wanted))
    for name in INDEXES:
        if (tree / name).exists():
            shutil.copy(tree / name, target)
    ui.run("indexing kernel modules", ["depmod", "-b", made / ROOT / "usr", version], LOG)


def _make(base: pathlib.Path, tree: pathlib.Path, made: pathlib.Path) -> None:
    _copy_modules(tree, made)
    (made / "modules").symlink_to(f"{ROOT}/usr")
    shutil.copy(tree / kernel_tree.BZIMAGE, made / "vmlinuz")
    (made / "kernel-version").write_text(kernel_tree.release(tree) + "\n")
    image.share_disk(base, made)
    (made / "builder").symlink_to(base / "builder")
    (made / kernel_tree.MARK).write_text(str(tree))
    image.keep_status(base, made)
    image.write_identity(made, image.identity(base), kernel_tree.fingerprint(tree))


def ensure(tree: pathlib.Path) -> pathlib.Path:
    """The image's directory in the cache; it is made if it is missing."""
    base = image.ensure()
    return cache.entry(directory(base, kernel_tree.check(tree)).name, lambda made: _make(base, tree, made))


def artefacts(base: pathlib.Path) -> list[pathlib.Path]:
    """Trees for guests of an image in addition to driver and provider: the modules of the user's own kernel, if any."""
    return [base / ROOT] if kernel_tree.of_image(base) else []
