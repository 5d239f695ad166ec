# SPDX-License-Identifier: GPL-2.0-or-later
"""The environment of all programs that the lab starts."""

import os

SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin")
UMASK = 0o022


def settle() -> None:
    """Debian gives users no /usr/sbin, where mke2fs and depmod are. What is made for guests is for all of their
    users to read, whatever the caller's umask."""
    path = os.environ.get("PATH", "").split(":")
    os.environ["PATH"] = ":".join(filter(None, [*path, *(name for name in SYSTEM if name not in path)]))
    os.umask(UMASK)
