# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib: one subcommand, one module."""

import argparse
import sys

from lab import cluster, deps, image, qemu_headers, ui


def _deps(_options) -> int:
    deps.install()
    return 0


def _qemu_headers(_options) -> int:
    print(qemu_headers.ensure())
    return 0


def _image(_options) -> int:
    print(image.ensure())
    return 0


def _up(options) -> int:
    lab = cluster.Cluster()
    lab.up(options.nodes, [])
    return 0


def _exec(options) -> int:
    cluster.Cluster().node(options.node).replace_me(options.command)
    return 0


def _shell(options) -> int:
    cluster.Cluster().node(options.node).replace_me([], terminal=True)
    return 0


def _down(_options) -> int:
    cluster.Cluster().down()
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="pib", description="InfiniBand HCAs made of software, "
                                  "in virtual machines on this host.")
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, function, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function)
        return command

    add("deps", _deps, "install the Debian packages that are missing")
    add("qemu-headers", _qemu_headers, "make the headers of the installed QEMU; print where")
    add("image", _image, "make the guest image and its build tree; print where")
    up = add("up", _up, "build all, boot the guests, join them to one subnet, measure")
    up.add_argument("-n", "--nodes", type=int, default=2, metavar="N", help="guests (default 2)")
    run = add("exec", _exec, "run a command in a guest, as root")
    run.add_argument("node")
    run.add_argument("command", nargs="+", metavar="COMMAND",
                     help="one word: a line for the guest's shell; several: passed as they are")
    shell = add("shell", _shell, "a shell in a guest")
    shell.add_argument("node")
    add("down", _down, "stop guests and switch")
    return top


def main() -> int:
    options = parser().parse_args()
    try:
        return options.function(options)
    except ui.LabError as error:
        print(f"pib: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("pib: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
