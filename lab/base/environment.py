# SPDX-License-Identifier: GPL-2.0-or-later
"""The environment of all programs that the lab starts."""

import os
import sys

SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin")
UMASK = 0o022
STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}      # names and modes of the descriptors 0, 1 and 2


def _open_streams() -> None:
    """Opens /dev/null in place of standard streams that the caller has closed: otherwise the next files that are opened
    get their numbers, and child programs write their output into these files."""
    for number, (name, mode) in enumerate(STREAMS.items()):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)      # gets the lowest unused number
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))


def settle() -> None:
    """Opens missing standard streams, and sets PATH and umask. Debian's PATH for users lacks /usr/sbin with mke2fs and
    depmod. The umask makes files for guests readable by all users of a guest. Drops a TMPDIR that no longer exists, or
    that is another user's, as after su: Python takes another directory then, and QEMU, which makes the guests' overlays
    there, fails."""
    _open_streams()
    path = os.environ.get("PATH", "").split(":")
    os.environ["PATH"] = ":".join(filter(None, [*path, *(name for name in SYSTEM if name not in path)]))
    if not os.access(os.environ.get("TMPDIR", ""), os.W_OK | os.X_OK):
        os.environ.pop("TMPDIR", None)
    os.umask(UMASK)
