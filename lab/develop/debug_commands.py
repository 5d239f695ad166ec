# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib gdb and crash: debuggers that are set up already."""

import argparse
import pathlib

from lab.base import ui
from lab.develop import crash, gdb
from lab.fabric import cluster


def image_of(lab: cluster.Cluster) -> pathlib.Path:
    """The image whose kernel the guests run."""
    if own := lab.record.own_image:
        raise ui.LabError(f"the guests run {own}, of whose kernel ./pib has no symbols. Boot Debian's:  ./pib down   "
                          "and  ./pib up. The device alone:  ./pib gdb NODE --device")
    return pathlib.Path(lab.record.image)


def _words(rest: list[str]) -> list[str]:
    return rest[1:] if rest[:1] == ["--"] else rest


def _gdb(options: argparse.Namespace) -> int:
    lab, words = cluster.Cluster(), _words(options.arguments)
    if words[:1] == ["--device"]:       # argparse takes an option after the guest's name as one of gdb's words
        options.device, words = True, _words(words[1:])
    if options.device:
        return gdb.device(lab, options.node, words)
    return gdb.kernel(lab, options.node, image_of(lab), words)


def _crash(options: argparse.Namespace) -> int:
    if options.command[:1] != ["--"] and options.command[:1] and options.command[0].startswith("-"):
        raise ui.LabError(f"crash: {options.command[0]} must come before the guest:  "
                          "./pib crash --output FILE vm1 -- qps")
    lab, file, words = cluster.Cluster(), pathlib.Path(options.node), _words(options.command)
    if file.is_file():
        return crash.open_dump(file.absolute(), words)
    return crash.crash(lab, options.node, image_of(lab), options.output, words)


def add_commands(add) -> None:
    command = add("gdb", _gdb, "debug a guest's kernel in gdb, with the symbols of kernel and modules; the guest "
                  "stands still until gdb continues it")
    command.usage = "pib gdb [-h] NODE [--device] [-- ARGUMENT ...]"
    command.add_argument("node", metavar="NODE")
    command.add_argument("--device", action="store_true", help="debug the guest's QEMU, with commands that print the "
                         "device's objects: pib-qps, pib-qp N, pib-cqs, pib-eqs, pib-srqs, pib-mrs, pib-timers, "
                         "pib-ring")
    command.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARGUMENT",
                         help="more arguments of gdb, such as  -batch -ex 'bt'")
    command = add("crash", _crash, "dump a running guest's memory, and open it in drgn")
    command.usage = "pib crash [-h] [--output FILE] (NODE | FILE) [-- COMMAND ...]"
    command.add_argument("--output", type=pathlib.Path, metavar="FILE",
                         help="keep the dump in this file, and the device's objects in FILE.json. Without this option "
                              "the dump is in the lab's directory and is removed at the end")
    command.add_argument("node", metavar="NODE|FILE", help="a guest, or a file that was kept")
    command.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND",
                         help=f"{crash.usage()}. Without a command: a session in Python")
