# SPDX-License-Identifier: GPL-2.0-or-later
"""The short private directory of a running lab for sockets, consoles and logs.

It is in /tmp, because a socket's path has at most 107 bytes, and options of QEMU and LD_PRELOAD split words at some
characters, which the path of a checkout may contain."""

import os
import pathlib
import shutil
import stat
import tempfile

PREFIX = "pib-"
LONGEST = f"/{PREFIX}12345678/vm31.ssh.1234567890123456"    # ssh appends the last 17 bytes while it makes its socket
MOST_BYTES = 107
UNFIT = set(" ,:;\t\n'\"\\")
FALLBACK = "/tmp"


def fit(path: str) -> bool:
    """Whether the path has none of the characters that separate values of options, or files in LD_PRELOAD."""
    return not UNFIT & set(path)


def _short(parent: str) -> bool:
    return len(os.fsencode(parent)) + len(LONGEST) <= MOST_BYTES


def make() -> pathlib.Path:
    """Makes a new directory below the system's directory for temporary files, or in /tmp if that path is too long
    for a socket or has characters that options cannot have."""
    parent = tempfile.gettempdir()
    return pathlib.Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent if fit(parent) and _short(parent) else FALLBACK))


def ours(directory: pathlib.Path) -> bool:
    """Whether the directory is a private one of this user: after a cleaning of /tmp another user can take the name."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077


def remove(directory: pathlib.Path) -> None:
    if ours(directory):
        shutil.rmtree(directory, ignore_errors=True)
