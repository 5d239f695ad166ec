# SPDX-License-Identifier: GPL-2.0-or-later
"""The environment of all programs that the lab starts."""

import os

SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin")
UMASK = 0o022


def settle() -> None:
    """Debian's PATH for users lacks /usr/sbin, which has mke2fs and depmod. The umask lets all users of a guest read
    the files that are made for it."""
    path = os.environ.get("PATH", "").split(":")
    os.environ["PATH"] = ":".join(filter(None, [*path, *(name for name in SYSTEM if name not in path)]))
    os.umask(UMASK)
