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
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "pib-hca"


def recipe_hash(*parts: str | bytes) -> str:
    """A short name for a recipe: the same parts, the same directory."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:12]
