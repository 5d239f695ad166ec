# SPDX-License-Identifier: GPL-2.0-or-later
"""The ssh key pair of a lab for its guests."""

import pathlib
import subprocess

from lab.base import ui


def public(key: pathlib.Path) -> pathlib.Path:
    return key.with_suffix(".pub")


def ensure(key: pathlib.Path) -> None:
    """Makes the missing files of the pair."""
    if not key.exists():
        public(key).unlink(missing_ok=True)
        _keygen("-q", "-t", "ed25519", "-N", "", "-C", "pib-lab", "-f", str(key))
    key.chmod(0o600)                # ssh refuses a private key that others can read
    made = _keygen("-y", "-P", "", "-f", str(key))
    if not public(key).exists() or public(key).read_text() != made:
        public(key).write_text(made)


def _keygen(*options: str) -> str:
    done = subprocess.run(["ssh-keygen", *options], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          check=False)
    if done.returncode:
        raise ui.LabError(f"ssh-keygen: {done.stderr.strip()}\nRemove the key; the next ./pib up makes another one")
    return done.stdout
