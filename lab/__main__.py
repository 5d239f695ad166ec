# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib: one subcommand, one module."""

import argparse
import sys

from lab import deps, qemu_headers, ui


def _deps(_options) -> int:
    deps.install()
    return 0


def _qemu_headers(_options) -> int:
    print(qemu_headers.ensure())
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
