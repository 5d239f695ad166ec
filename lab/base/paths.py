# SPDX-License-Identifier: GPL-2.0-or-later
"""Directories of the lab.

The cache has results that depend only on their recipe (QEMU headers, guest image) and is shared by all checkouts of a
user. The run directory has the files of one checkout's running lab (sockets, pids, logs). An installed lab has one run
directory for each user, and its programs where `meson install` has recorded them."""

import hashlib
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTE = ROOT / "installed.json"
INSTALLED: dict[str, str] = json.loads(NOTE.read_text()) if NOTE.exists() else {}   # empty in a checkout
COMMAND = "pib" if INSTALLED else "./pib"
PROGRAM = "pib" if INSTALLED else str(ROOT / "pib")     # the command, valid in any working directory
BUILD_VARIABLE = "PIB_BUILD"    # environment variable: another build directory of the checkout
BUILD = ROOT / os.environ.get(BUILD_VARIABLE, "build")


def _of_user(variable: str, default: str) -> pathlib.Path | None:
    """The directory that an XDG variable names. If that is not an absolute path: the default below the home directory,
    or None without a home directory."""
    chosen, home = os.environ.get(variable, ""), os.path.expanduser("~")
    if os.path.isabs(chosen):
        return pathlib.Path(chosen) / "pib-hca"
    return pathlib.Path(home) / default / "pib-hca" if os.path.isabs(home) else None


def _run() -> pathlib.Path:
    if not INSTALLED:
        return ROOT / ".lab"
    return _of_user("XDG_STATE_HOME", ".local/state") or sys.exit(
        "pib: this user has no home directory. Name one:  HOME=DIRECTORY pib …")


RUN = _run()
SWITCH = pathlib.Path(INSTALLED.get("switch", BUILD / "fabric-switch" / "pib-switch"))
REPLAY = pathlib.Path(INSTALLED.get("replay", BUILD / "qemu-hw" / "replay" / "pib-replay"))
DEVICE = pathlib.Path(INSTALLED.get("device", BUILD / "qemu-hw" / "glue" / "libpib-hca.so"))


def cache() -> pathlib.Path:
    return _of_user("XDG_CACHE_HOME", ".cache") or RUN / "cache"


def guest_results() -> pathlib.Path:
    """Directory for everything that is compiled for guests."""
    return cache() / "guest-results" if INSTALLED else BUILD / "guest"


def recipe_hash(*parts: str | bytes) -> str:
    """A short name for a recipe; equal parts give equal names."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogateescape") if isinstance(part, str) else part     # a name may not be UTF-8
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:12]
