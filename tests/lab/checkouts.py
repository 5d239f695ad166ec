# SPDX-License-Identifier: GPL-2.0-or-later
"""Copies of the lab's code, and ./pib in them."""

import pathlib
import shutil
import subprocess

from lab.base import paths


def copy_checkout(target: pathlib.Path) -> pathlib.Path:
    target.mkdir(parents=True)
    for name in ("pib", "meson.build"):
        shutil.copy(paths.ROOT / name, target)
    shutil.copytree(paths.ROOT / "lab", target / "lab", ignore=shutil.ignore_patterns("__pycache__"))
    return target


def pib(where: pathlib.Path, *words: str, capture_output=True, **options) -> subprocess.CompletedProcess:
    """Runs ./pib of a checkout to its end."""
    return subprocess.run([where / "pib", *words], capture_output=capture_output, text=True, timeout=120, check=False,
                          **options)
