# SPDX-License-Identifier: GPL-2.0-or-later
"""Exchanges the provider in running guests. Running programs keep the old provider."""

import pathlib
import shutil

from lab.base import ui
from lab.build import builder, guest_build
from lab.guests.guest import Guest

PLACE = f"/{guest_build.MULTIARCH}/libibverbs"


def compile_in(image: pathlib.Path, source: pathlib.Path, place: pathlib.Path | None = None) -> pathlib.Path:
    """Returns the library. place: a directory of this command's own for a copy: another command may replace the library
    in the build tree as soon as the tree's lock is free."""
    tools = builder.Builder(image)
    with tools.locked():
        library = guest_build.compile_provider(tools, source)
        return pathlib.Path(shutil.copy(library, place)) if place else library


def exchange(node: Guest, library: pathlib.Path, name: str) -> None:
    """Replaces the provider in one guest. name: the provider's name, by which libibverbs loads it."""
    line = (f"set -e; cat >{PLACE}/{library.name}.new; mv {PLACE}/{library.name}.new {PLACE}/{library.name}; "
            f"echo driver {name} >/etc/libibverbs.d/{name}.driver")
    done = node.run([line], stdin=library.read_bytes())
    if done.returncode:
        raise ui.LabError(f"{node.name} does not take {library.name}: {done.stderr.decode(errors='replace').strip()}. "
                          f"Look at its console:  ./pib console {node.name}")
