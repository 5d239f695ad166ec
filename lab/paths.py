# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the lab keeps things.

The cache holds what depends only on its recipe (QEMU headers, guest image) and
is shared by all checkouts of a user; the run directory holds what one checkout's
running lab needs (sockets, pids, logs).
"""

import hashlib
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
RUN = ROOT / ".lab"


def cache() -> pathlib.Path:
    """In XDG_CACHE_HOME, which counts when it is absolute, or the home directory, or without one in the checkout."""
    chosen, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~")
    if os.path.isabs(chosen):
        return pathlib.Path(chosen) / "pib-hca"
    return pathlib.Path(home) / ".cache" / "pib-hca" if os.path.isabs(home) else RUN / "cache"


def recipe_hash(*parts: str | bytes) -> str:
    """A short name for a recipe: the same parts, the same directory."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:12]
