# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs commands of documents unchanged, in a lab separate from the user's."""
import os
import re
import subprocess

from lab.base import paths
from rdma import wait_until

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
LIMIT_S = 900
PIB = """#!/usr/bin/env -S /usr/bin/python3 -B
import pathlib
import sys
sys.path.insert(0, {root!r})
from lab.base import paths
paths.RUN, paths.PROGRAM = paths.RUN / {lab!r}, __file__
from lab import __main__
sys.exit(__main__.main())
"""


def make_program(directory, lab):
    """Writes a ./pib for the lab of this name to the directory; returns its path."""
    program = directory / "pib"
    program.write_text(PIB.format(root=str(paths.ROOT), lab=lab))
    program.chmod(0o755)
    return program


def blocks(document):
    """(kind, text) of each code block of a document."""
    return BLOCK.findall((paths.ROOT / document).read_text())


def block(document, begin):
    return next(body for _, body in blocks(document) if body.startswith(begin))


def start(directory, script, **options):
    """A bash that runs the script in this directory, and ends at the first failure."""
    return subprocess.Popen(["bash", "-euo", "pipefail", "-c", script], cwd=directory, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PIB_DEPS": "skip"},
                            **options)


def run(directory, script):
    """Runs the script; returns its output."""
    done = start(directory, script)
    said = done.communicate(timeout=LIMIT_S)[0].decode(errors="replace")
    assert done.returncode == 0, said
    return said


def in_two_terminals(directory, text):
    """Runs the two commands of a block, the second one repeatedly until it succeeds, because the server of the first
    one may not listen yet. Returns the output of the second one."""
    first, second = text.splitlines()
    server, said = start(directory, first), []

    def connected():
        assert server.poll() is None, server.stdout.read()
        client = start(directory, second)
        said.append(client.communicate(timeout=LIMIT_S)[0].decode())
        return client.returncode == 0
    wait_until(connected, second)
    heard = server.communicate(timeout=LIMIT_S)[0].decode()
    assert server.returncode == 0, heard
    return said[-1]


def pattern(wanted):
    """A regular expression for an expected output, in which … stands for any text."""
    return ".*".join(re.escape(part) for part in re.split(r"…\n?", wanted.rstrip("\n")))
