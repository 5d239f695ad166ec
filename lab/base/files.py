# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that others read while they are written."""

import pathlib
import tempfile


def replace(file: pathlib.Path, content: bytes) -> None:
    """Replaces the file atomically by one with mode 0600. On an error the old file stays, and no part of a new one."""
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f"{file.name}.", delete=False) as new:
        written = pathlib.Path(new.name)
    try:
        written.write_bytes(content)
        written.replace(file)
    except OSError:
        written.unlink()
        raise
