# SPDX-License-Identifier: GPL-2.0-or-later
"""Words that the shell completes, by argcomplete where that is installed.

    eval "$(register-python-argcomplete pib)"       in the shell"""

import argparse
import contextlib
import difflib
import importlib
import os
import re
from typing import NoReturn

from lab.base import ui
from lab.fabric import cluster

VARIABLE = "_ARGCOMPLETE"       # argcomplete's environment variable, which the shell sets
# Words of argparse, which quotes as repr() does: with the other quotation mark if an apostrophe is in the word.
UNKNOWN = re.compile(r"""argument COMMAND: invalid choice: (['"])(.*)\1 \(choose from (.*)\)""")
NODE = "NODE"                   # arguments with this word in their names are guests


def _guests(**_words) -> list[str]:
    try:
        return cluster.Cluster().nodes()
    except ui.LabError:
        return []


class Parser(argparse.ArgumentParser):
    """Completes the names of running guests. Its help has the name of the command, as it is installed or not. A word
    that is not a command is refused in one line, with a command that resembles it."""

    def add_argument(self, *names, **options):
        action = super().add_argument(*names, **options)
        if NODE in str(action.metavar):
            setattr(action, "completer", _guests)
        return action

    def error(self, message: str) -> NoReturn:
        if found := UNKNOWN.match(message):
            mark, word, commands = found.groups()
            close = difflib.get_close_matches(word, re.findall(r"[\w-]+", commands), 1)
            shown = word if re.fullmatch(r"[\w-]+", word) else f"{mark}{word}{mark}"
            message = ui.named(f"{shown} is not a command" + (f"; maybe {close[0]}" if close else "")
                               + ". All commands:  ./pib help")
        super().error(message)

    def format_help(self) -> str:
        return ui.named(super().format_help())


def offer(parser: argparse.ArgumentParser) -> None:
    """Prints the completions and exits, if the shell asks for completions."""
    if VARIABLE in os.environ:
        with contextlib.suppress(ImportError):
            importlib.import_module("argcomplete").autocomplete(parser)
