# SPDX-License-Identifier: GPL-2.0-or-later
"""The environment of all programs that the lab starts."""

import os

SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin")
UMASK = 0o022


def settle() -> None:
    """Sets PATH and umask. Debian's PATH for users lacks /usr/sbin with mke2fs and depmod. The umask makes files for
    guests readable by all users of a guest."""
    path = os.environ.get("PATH", "").split(":")
    os.environ["PATH"] = ":".join(filter(None, [*path, *(name for name in SYSTEM if name not in path)]))
    os.umask(UMASK)
