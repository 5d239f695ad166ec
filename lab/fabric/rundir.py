# SPDX-License-Identifier: GPL-2.0-or-later
"""The short directory of a running lab, for sockets, consoles and logs: nobody else may look into it.

A socket's path is at most 107 bytes long, and options of QEMU and LD_PRELOAD take words apart at some characters: a
checkout's own directory will not do.
"""

import os
import pathlib
import shutil
import stat
import tempfile

PREFIX = "pib-"
LONGEST = f"/{PREFIX}12345678/vm31.ssh.1234567890123456"    # while ssh makes its socket
MOST_BYTES = 107
UNFIT = set(" ,:;\t\n'\"\\")
FALLBACK = "/tmp"


def fit(path: str) -> bool:
    """Whether options and LD_PRELOAD take the path as it is."""
    return not UNFIT & set(path)


def _short(parent: str) -> bool:
    return len(os.fsencode(parent)) + len(LONGEST) <= MOST_BYTES


def make() -> pathlib.Path:
    """A new one, where temporary files go."""
    parent = tempfile.gettempdir()
    return pathlib.Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent if fit(parent) and _short(parent) else FALLBACK))


def ours(directory: pathlib.Path) -> bool:
    """Whether it is still what make() has made: a cleaned /tmp lets anyone take the name."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077


def remove(directory: pathlib.Path) -> None:
    if ours(directory):
        shutil.rmtree(directory, ignore_errors=True)
