# SPDX-License-Identifier: GPL-2.0-or-later
"""Completion of words by the shell, as argcomplete's function for bash asks for it."""

import os
import subprocess
import sys

import pytest

from lab import complete
from lab.base import paths
from lab.fabric.wanted import Wanted

ASK = """
import pathlib, sys
from lab.base import paths
paths.RUN = pathlib.Path(sys.argv[1])
from lab import __main__
sys.argv = ["pib"]
sys.exit(__main__.main())
"""


def completed(line, *argv, **options):
    env = {**os.environ, "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line)),
           "COMP_TYPE": "9", "_ARGCOMPLETE_SUPPRESS_SPACE": "1", "PYTHONPATH": str(paths.ROOT)}
    done = subprocess.run(["sh", "-c", 'exec "$@" 8>&1 9>&2 >/dev/null 2>&1', "sh", *argv], env=env, check=False,
                          stdout=subprocess.PIPE, text=True, **options)
    return done.stdout.split("\n")


def test_the_shell_completes_commands_and_options(checkout):
    pytest.importorskip("argcomplete")
    assert {"status", "ssh-config", "shell"} <= set(completed("./pib s", checkout / "pib"))
    assert "--nodes" in completed("./pib up --no", checkout / "pib")


def test_the_shell_completes_names_of_guests(lab):
    pytest.importorskip("argcomplete")
    lab.up(Wanted(2), [])
    for command in ("exec", "shell"):
        found = completed(f"./pib {command} v", sys.executable, "-B", "-c", ASK, lab.directory, cwd=paths.ROOT)
        assert found == ["vm0", "vm1"]


def test_without_argcomplete_nothing_is_completed(monkeypatch):
    monkeypatch.setenv(complete.VARIABLE, "1")
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    complete.offer(complete.Parser())
