# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib crash: the memory of a guest, dumped and opened in drgn with ready commands."""

import pathlib

from lab import ui
from lab.build import drgn, kernel_symbols
from lab.develop import dump
from lab.fabric.cluster import Cluster
from lab.guests import relay

SCRIPT = pathlib.Path(__file__).with_name("in_drgn.py")


def open_dump(file: pathlib.Path, words: list[str]) -> int:
    """words: a command of in_drgn.py; none: Python at a terminal."""
    if not dump.about(file).exists():
        raise ui.LabError(f"{file} is no dump of ./pib crash, which has a file {dump.about(file).name} beside it. Make "
                          f"one:  ./pib crash NODE --output FILE")
    return relay.run([str(drgn.ensure()), "-P", str(SCRIPT), str(file), str(dump.about(file)), *words])


def crash(lab: Cluster, name: str, base: pathlib.Path, output: pathlib.Path | None, words: list[str]) -> int:
    """base: the image that the guest runs. Without `output` the dump is removed at the end."""
    if not lab.alive(name):
        lab.node(name)          # says that it does not run
    known = kernel_symbols.ensure(base)
    drgn.ensure()
    file = (output or lab.directory / f"{name}.dump").absolute()
    if not output:
        dump.remove(file)       # a command that was killed has left it
    try:
        dump.take(lab, name, known, file)
        return open_dump(file, words)
    finally:
        if not output:
            dump.remove(file)
