# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands in guests, over one ssh connection per guest.

The connection is opened once, by `up`; every command is a channel in it, which
starts promptly, keeps standard output and error apart, is binary-safe and returns
the exit status. The port is bound to the loopback address and takes one key.
"""

import dataclasses
import os
import pathlib
import shlex
import subprocess
import time

from lab import ui

CONNECT_S = 120


@dataclasses.dataclass(frozen=True)
class Remote:
    """The way into one guest."""
    name: str
    port: int                   # on the loopback address
    key: pathlib.Path
    control: pathlib.Path       # socket of the open connection
    log: pathlib.Path

    def _ssh(self, *options: str) -> list[str]:
        return ["ssh", "-F", "none", "-S", str(self.control), "-i", str(self.key),
                "-p", str(self.port), "-l", "root",
                "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR",
                # The host key is made anew at each boot, on this machine's loopback.
                "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                *options, "127.0.0.1"]

    def connected(self) -> bool:
        return self.control.exists() and subprocess.run(
            self._ssh("-O", "check"), capture_output=True, check=False).returncode == 0

    def connect(self) -> None:
        """Opens the connection unless it is open."""
        end = time.monotonic() + CONNECT_S
        while not self.connected():
            with open(self.log, "ab") as log:
                done = subprocess.run(
                    self._ssh("-M", "-N", "-f", "-o", "ConnectTimeout=60",
                              "-o", "ServerAliveInterval=30", "-o", "ServerAliveCountMax=20"),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
            if time.monotonic() > end:
                raise ui.LabError(f"{self.name} does not answer:\n{ui.tail(self.log, 5)}")
            if done.returncode:
                time.sleep(0.2)

    def disconnect(self) -> None:
        if self.control.exists():
            subprocess.run(self._ssh("-O", "exit"), capture_output=True, check=False)

    def argv(self, command: list[str], *, terminal: bool = False) -> list[str]:
        """The local command that runs this one in the guest. One word is a line for
        the guest's shell, several words are passed as they are."""
        line = command[0] if len(command) == 1 else shlex.join(command)
        mode = ["-t"] if terminal else ["-T"]
        return [*self._ssh("-o", "ControlMaster=no", *mode), *([line] if command else [])]

    def run(self, command: list[str], *, stdin: bytes | None = None,
            timeout_s: float = 120) -> subprocess.CompletedProcess:
        """Runs a command to its end; output as bytes."""
        return subprocess.run(self.argv(command), capture_output=True, timeout=timeout_s, check=False,
                              **({"input": stdin} if stdin is not None
                                 else {"stdin": subprocess.DEVNULL}))

    def start(self, command: list[str], **options) -> subprocess.Popen:
        return subprocess.Popen(self.argv(command), **options)

    def replace_me(self, command: list[str], *, terminal: bool = False) -> None:
        """Becomes the command: streams and exit status are passed through."""
        self.connect()
        argv = self.argv(command, terminal=terminal)
        os.execvp(argv[0], argv)
