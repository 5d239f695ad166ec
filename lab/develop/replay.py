# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib replay: plays a recording of a device back, outside of QEMU."""

import argparse
import glob
import os
import pathlib
import shlex

from lab.base import paths, ui
from lab.build import host_build
from lab.develop import gdb
from lab.guests import relay


def program() -> pathlib.Path:
    """pib-replay, which is compiled if this is a checkout."""
    if not paths.INSTALLED:
        host_build.build(more=(host_build.REPLAY,))
    if not os.access(paths.REPLAY, os.X_OK):
        raise ui.LabError(f"{paths.REPLAY} is missing. Install the package qemu-pib-hca")
    return paths.REPLAY


def argv(options: argparse.Namespace) -> list[str]:
    """The command line of pib-replay for the options of ./pib replay."""
    words = [str(options.file)]
    if options.until:
        words += ["--until", options.until]
    for dump in options.dump:
        words += ["--dump", " ".join(dump)]
    return words + [f"--{name}" for name in ("list", "log", "tolerant") if getattr(options, name)]


def _check_exists(file: pathlib.Path) -> None:
    if file.is_file():
        return
    pattern = f"{glob.escape(file.stem)}-vm*{glob.escape(file.suffix)}"
    if of_guests := sorted(map(str, file.parent.glob(pattern))):
        raise ui.LabError(f"{file}: there is no such recording, but one of each guest: {', '.join(of_guests)}. Name "
                          f"one of them:  ./pib replay {shlex.quote(of_guests[0])}")
    raise ui.LabError(f"{file}: there is no such recording. Make one:  ./pib up --record FILE   which makes one of "
                      "each guest, as FILE-vm0")


def _replay(options: argparse.Namespace) -> int:
    _check_exists(options.file)
    words = [str(program()), *argv(options)]
    return gdb.of_command(words) if options.gdb else relay.run(words)


def add_commands(add) -> None:
    command = add("replay", _replay, "play a recording of an HCA back, outside of QEMU, and compare both devices")
    # The file comes first, because --dump takes all words up to the next option.
    command.usage = ("pib replay [-h] FILE [--until TIME] [--dump WHAT [NUMBER]]... [--list] [--log] [--tolerant] "
                     "[--gdb]")
    command.add_argument("file", type=pathlib.Path, metavar="FILE",
                         help="recording of ./pib up --record, or of the property record")
    command.add_argument("--until", metavar="TIME",
                         help="stop before calls after this time of the VM's clock: 12.5, 300ms, 7us, 40ns")
    command.add_argument("--dump", nargs="+", action="append", default=[], metavar="WHAT",
                         help="print as JSON at the end: objects, journal, trace, or qp, cq, srq, eq, mr or port and "
                              "its number; may be repeated")
    command.add_argument("--list", action="store_true", help="print each call of the device, and each mark")
    command.add_argument("--log", action="store_true", help="print what the device logs")
    command.add_argument("--tolerant", action="store_true",
                         help="go on after a difference, with answers that may be wrong")
    command.add_argument("--gdb", action="store_true", help="open pib-replay in gdb, which has not started it yet")
