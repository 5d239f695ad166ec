# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs sparse on the driver: byte order, address spaces, locks.

The host's sparse reads the kernel's headers in the guest's build tree, with the options with which the kernel's build
has compiled each file there."""

import pathlib
import re
import shlex
import subprocess

from lab.base import paths
from lab.build import builder, kernel_module

# Macros that gcc predefines and sparse does not.
OPTIONS = ("-D__linux__", "-Dlinux", "-D__unix__", "-Dunix", "-D__x86_64__", "-D__CHECK_ENDIAN__", "-m64", "-Wbitwise",
           "-Wcontext", "-Wno-return-void", "-Wno-unknown-attribute")
# sparse does not know __has_include, which the driver uses for one header.
ASKED_FOR = "include/rdma/iter.h"
WITH_VALUE = ("-include", "-I", "-D")


def _headers(tree: pathlib.Path) -> pathlib.Path:
    """The folder in which the kernel's build runs; relative paths in its options start there."""
    return next(path for path in sorted((tree / "usr" / "src").glob("linux-headers-*"))
                if not path.name.endswith("-common"))


def _options(tree: pathlib.Path, recorded: pathlib.Path) -> list[str]:
    """Include paths and macros of the command in a .cmd file, with the host's paths."""
    words = iter(shlex.split(recorded.read_text().splitlines()[0].split(":=", 1)[1].split(";")[0]))
    kept = []
    for word in words:
        if word in WITH_VALUE:
            kept += [word, _on_host(tree, next(words))]
        elif word.startswith(("-I", "-D", "-std")) or word == "-nostdinc":
            kept.append(_on_host(tree, word))
    return kept


def _has_include(tree: pathlib.Path) -> str:
    found = list((tree / "usr" / "src").glob(f"linux-headers-*/{ASKED_FOR}"))
    return f"-D__has_include(header)={int(bool(found))}"


def _on_host(tree: pathlib.Path, word: str) -> str:
    word = re.sub(r"^(-I)?(?=/usr/)", lambda found: f"{found.group()}{tree}", word)
    return re.sub(r"^-I/work/\w+/guest-driver/\.\.", f"-I{paths.ROOT}", word)


def complaints(base: pathlib.Path, files: list[pathlib.Path], like: str | None = None) -> list[str]:
    """sparse's complaints about files. base: the guest's image whose build tree has compiled the driver. like: name,
    without ".c", of the driver's file whose compiler options are used; None: the file itself."""
    tools = builder.Builder(base)
    said = []
    for file in files:
        recorded = tools.work / kernel_module.DRIVER / f".{like or file.stem}.o.cmd"
        argv = ["sparse", *OPTIONS, _has_include(tools.tree), *_options(tools.tree, recorded), str(file)]
        done = subprocess.run(argv, cwd=_headers(tools.tree), capture_output=True, text=True, check=False)
        said += (done.stdout + done.stderr).splitlines()
    return said
