# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib crash: the memory of a guest, dumped and opened in drgn with ready commands."""

import pathlib

from lab.base import lock, ui
from lab.build import drgn, kernel_symbols
from lab.develop import dump
from lab.fabric.cluster import Cluster
from lab.guests import relay

SCRIPT = pathlib.Path(__file__).with_name("in_drgn.py")
ANY_TERMINAL = ("env", "PYTHON_BASIC_REPL=1")      # Python's new prompt fails in simple terminals
PYTHON = "python"
COMMANDS = {                    # functions of SCRIPT
    "qps": "all QPs of the driver beside all QPs of the device, with differences marked",
    "cqs": "the same for CQs",
    "dmesg": "the kernel's messages",
    "waiting": "tasks that wait and cannot be interrupted, with their stacks"}


def usage() -> str:
    return "; ".join([*(f"{name}: {about}" for name, about in COMMANDS.items()),
                      f"{PYTHON} CODE: Python, where  prog  is the guest's kernel"])


def check(words: list[str]) -> None:
    """Refuses a command before a dump is written for it."""
    if words and (words[0] not in (PYTHON, *COMMANDS) or (len(words) == 2) != (words[0] == PYTHON)):
        raise ui.LabError(f"crash: not understood: {' '.join(words)}. Commands: {usage()}")


def open_dump(file: pathlib.Path, words: list[str]) -> int:
    """Opens a dump in drgn. words: a command of the script; none: an interactive Python."""
    check(words)
    if not dump.about(file).exists():
        raise ui.LabError(f"{file} is not a dump of ./pib crash, which has a file {dump.about(file).name} beside it. "
                          "Make one:  ./pib crash --output FILE NODE")
    dump.check_symbols(file)
    python = drgn.ensure()
    ui.say(f"opening {file} in drgn, with the symbols of its kernel")
    return relay.run([*ANY_TERMINAL, str(python), "-P", str(SCRIPT), str(file), str(dump.about(file)), *words])


def crash(lab: Cluster, name: str, base: pathlib.Path, output: pathlib.Path | None, words: list[str]) -> int:
    """Dumps a guest and opens the dump. base: the guest's image. output: the dump's file; None: a temporary one."""
    check(words)
    if not lab.alive(name):
        lab.node(name)          # raises LabError if the guest does not run
    known = kernel_symbols.ensure(base)
    drgn.ensure()
    if output:
        dump.take(lab, name, known, output.absolute())
        return open_dump(output.absolute(), words)
    return _with_temporary(lab, name, known, words)


def _with_temporary(lab: Cluster, name: str, known: kernel_symbols.Kernel, words: list[str]) -> int:
    """Dumps a guest to a file of the lab's, for one command at a time, and removes the file at the end."""
    file = lab.directory / f"{name}.dump"
    with lock.held(file.with_name(f"{file.name}.lock")):
        dump.remove(file)       # left by a killed command
        try:
            dump.take(lab, name, known, file)
            return open_dump(file, words)
        finally:
            dump.remove(file)
