#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""series.py DIRECTORY: writes the patches that put the device into the source of QEMU, for git am or patch -p1.

The first two add files of this checkout: the core as a subproject, and the glue as a folder of hw/net. The third one,
which is kept here, changes files of QEMU.
"""

import email.utils
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CORE, DEVICE = pathlib.Path("subprojects/pib-hca"), pathlib.Path("hw/net/pib-hca")
SOURCES = (".cc", ".h", ".build")
AUTHOR = re.compile(r"^ -- (.+) <(.+)>  (.+)$", re.MULTILINE)
TITLES = ("subprojects: add the core of pib-hca",
          "hw/net: add pib-hca, an InfiniBand HCA in software")


def core() -> dict[pathlib.Path, pathlib.Path]:
    """Files of the first patch: their places in QEMU, and here."""
    found = [path for folder in ("hw-interface", "ib", "link-memory", "qemu-hw/core")
             for path in (ROOT / folder).rglob("*") if path.suffix in SOURCES]
    return {CORE / "meson.build": HERE / "core" / "meson.build",
            **{CORE / path.relative_to(ROOT): path for path in found}}


def device() -> dict[pathlib.Path, pathlib.Path]:
    """Files of the second patch."""
    return {DEVICE / path.name: path for folder, pattern in ((ROOT / "qemu-hw" / "glue", "pib_hca_*.[ch]"),
                                                             (HERE / "device", "*"))
            for path in folder.glob(pattern)}


def identity() -> dict[str, str]:
    """Author and date of the newest release, so that the same files make the same patches."""
    name, address, date = AUTHOR.search((ROOT / "debian" / "changelog").read_text()).groups()
    seconds = int(email.utils.parsedate_to_datetime(date).timestamp())
    return {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
            for key, value in (("NAME", name), ("EMAIL", address), ("DATE", f"{seconds} +0000"))}


def commit(git: list[str | pathlib.Path], tree: pathlib.Path, title: str,
           files: dict[pathlib.Path, pathlib.Path]) -> None:
    for place, source in files.items():
        (tree / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, tree / place)
    subprocess.run([*git, "add", "--all", "--force"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--signoff", f"--message={title}"], check=True)


def write(directory: pathlib.Path) -> None:
    os.environ.update({**identity(), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull})
    with tempfile.TemporaryDirectory() as name:
        tree = pathlib.Path(name)
        git = ["git", "-C", tree, "-c", "core.autocrlf=false"]
        subprocess.run([*git, "init", "--quiet"], check=True)
        for title, files in zip(TITLES, (core(), device())):
            commit(git, tree, title, files)
        subprocess.run([*git, "format-patch", "--quiet", "--root", "--no-numbered", "--zero-commit", "--no-signature",
                        "--output-directory", directory.resolve()], check=True)
    for patch in HERE.glob("*.patch"):
        shutil.copy(patch, directory)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} DIRECTORY")
    write(pathlib.Path(sys.argv[1]))
