# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib exec --all, cp and ssh-config: commands in all guests, copying files, and settings for other ssh programs."""

import contextlib
import re
import subprocess
import sys
import tempfile
import threading
from typing import IO

from lab.base import signals, ui
from lab.fabric import cluster, report
from lab.guests import relay
from lab.guests.guest import Guest, Running

REMOTE = re.compile(r"(vm\d+):")
POLL_S = 0.1
MOST_LINE = 1 << 16             # octets; a longer line of a guest is printed as several


def _guests(lab: cluster.Cluster) -> list[Guest]:
    nodes = [lab.node(name) for name in lab.nodes()]
    if not nodes:
        raise ui.LabError("no guest runs. Start some:  ./pib up")
    return nodes


class _Output:
    """Prints the lines of several commands, each after the name of its guest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.unread = threading.Event()     # set when the reader of this output has gone
        self._readers: list[threading.Thread] = []

    def show(self, name: str, lines: IO[bytes] | None, to: int) -> None:
        assert lines
        reader = threading.Thread(target=self._show, args=(f"{name}: ".encode(), lines, to), daemon=True)
        self._readers.append(reader)
        reader.start()

    def _show(self, prefix: bytes, lines: IO[bytes], to: int) -> None:
        while line := lines.readline(MOST_LINE):
            try:
                with self._lock:
                    ui.write(to, prefix + line.rstrip(b"\n") + b"\n")
            except OSError:
                self.unread.set()

    def wait(self) -> None:
        for reader in self._readers:
            reader.join()


def _end(commands: list[Running]) -> None:
    with signals.held_off():
        for one in commands:
            one.end()


def exec_all(lab: cluster.Cluster, command: list[str]) -> int:
    """Runs a command in all guests in parallel. Returns the status of the first guest in which it failed, else 0.
    Meanwhile it prints the fault reports of the guests' kernels."""
    nodes = _guests(lab)
    with contextlib.ExitStack() as watched:
        for node in nodes:
            watched.enter_context(report.told(lab, node.name))
        status = _run_in_all(nodes, command)
    return status


def _run_in_all(nodes: list[Guest], command: list[str]) -> int:
    output, commands = _Output(), []
    try:
        for node in nodes:
            node.connect()
            commands.append(one := node.start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE))
            output.show(node.name, one.stdout, sys.stdout.fileno())
            output.show(node.name, one.stderr, sys.stderr.fileno())
        while any(one.poll() is None for one in commands):
            if output.unread.wait(POLL_S):
                _end(commands)
    except BaseException:
        _end(commands)
        raise
    if output.unread.is_set():
        return relay.NOT_READ
    output.wait()
    return next(filter(None, (relay.status(one.returncode) for one in commands)), 0)


def ssh_config(lab: cluster.Cluster) -> str:
    return "".join(node.ssh_config() for node in _guests(lab))


def _local(file: str) -> str:
    """A path as scp takes it. scp reads the text before a colon as a host, unless it has a slash."""
    return f"./{file}" if ":" in file and not REMOTE.match(file) and not file.startswith("/") else file


def copy(lab: cluster.Cluster, files: list[str]) -> int:
    """Copies files and directories by scp. The last one is the target; NODE:PATH is in a guest."""
    names = sorted({found[1] for file in files if (found := REMOTE.match(file))})
    if len(files) < 2 or not names:
        raise ui.LabError("cp: expected files and a target, and at least one of them in a guest:  "
                          "./pib cp FILE… vm0:/tmp   or  ./pib cp vm0:/var/log/opensm.log .")
    for name in names:
        lab.node(name).connect()
    with tempfile.NamedTemporaryFile("w", dir=lab.sockets(), prefix="ssh-config.") as config:
        config.write(ssh_config(lab))
        config.flush()
        return relay.run(["scp", "-F", config.name, "-r", "--", *map(_local, files)])
