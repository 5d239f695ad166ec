# SPDX-License-Identifier: GPL-2.0-or-later
"""Words that the shell completes, by argcomplete where that is installed.

    eval "$(register-python-argcomplete pib)"       in the shell"""

import argparse
import contextlib
import importlib
import os

from lab import ui
from lab.fabric import cluster

VARIABLE = "_ARGCOMPLETE"       # argcomplete's environment variable, which the shell sets
NODE = "NODE"                   # arguments with this word in their names are guests


def _guests(**_words) -> list[str]:
    try:
        return cluster.Cluster().nodes()
    except ui.LabError:
        return []


class Parser(argparse.ArgumentParser):
    """Completes the names of running guests. Its help has the name of the command, as it is installed or not."""

    def add_argument(self, *names, **options):
        action = super().add_argument(*names, **options)
        if NODE in str(action.metavar):
            setattr(action, "completer", _guests)
        return action

    def format_help(self) -> str:
        return ui.named(super().format_help())


def offer(parser: argparse.ArgumentParser) -> None:
    """Prints the completions and exits, if the shell asks for completions."""
    if VARIABLE in os.environ:
        with contextlib.suppress(ImportError):
            importlib.import_module("argcomplete").autocomplete(parser)
