# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands in a guest, over one ssh connection per guest.

`up` opens the connection; every command is a channel in it, which starts quickly, keeps standard output and error
apart, transfers binary data and returns the exit status. The port is bound to the loopback address and accepts one key.

The ssh server sends no signal when a channel closes. So a command that may have to be ended has a token in its
environment, by which another channel finds and ends it and all its children."""

import dataclasses
import fcntl
import pathlib
import secrets
import shlex
import subprocess

from lab.base import signals, ui, waiting
from lab.guests import relay

CONNECT_S = 300                 # reached only by a hang
ATTEMPT_S = 90                  # for one attempt; a guest without KVM needs 10 s when the host is busy
TOKEN = "PIB_EXEC"              # environment variable in the guest that has a command's token
END = "/usr/local/lib/lab/end"
END_S = 30
ANSWER_S = 15                   # limit for a guest's answer when the lab tests whether it still runs
SHELL = "/usr/local/lib/lab/shell"


# The host key is not checked: it is new at each boot, and the connection stays on this machine's loopback address.
SSH_OPTIONS = {"BatchMode": "yes", "IdentitiesOnly": "yes", "LogLevel": "ERROR", "StrictHostKeyChecking": "no",
               "UserKnownHostsFile": "/dev/null"}


def _plain(path: pathlib.Path) -> str:
    """A path in which ssh expands nothing: "%" begins a token there, and a path of a CI system may have "%2F"."""
    return str(path).replace("%", "%%")


def _quoted(path: pathlib.Path) -> str:
    """A path as a value in a configuration file of ssh, or of its option -o."""
    return f'"{_plain(path)}"'


def _with_token(line: str, token: str) -> str:
    """A shell line that runs the given line in its own session, with the token in its environment. -w: setsid starts
    another process if its own leads a session, as some ssh servers make it, and then has to wait for the status."""
    return f"{TOKEN}={token} exec setsid -w sh -c {shlex.quote(line)}"


@dataclasses.dataclass(frozen=True)
class Guest:
    """Access to one guest."""
    name: str
    port: int                   # on the loopback address
    key: pathlib.Path
    control: pathlib.Path       # control socket of the open connection
    log: pathlib.Path

    def _ssh(self, *options: str) -> list[str]:
        # Not -i: ssh looks for that file before it expands the path, and ignores a missing file.
        return ["ssh", "-F", "none", "-S", _plain(self.control), f"-oIdentityFile={_quoted(self.key)}",
                "-p", str(self.port), "-l", "root", *(f"-o{name}={value}" for name, value in SSH_OPTIONS.items()),
                *options, "127.0.0.1"]

    def ssh_config(self) -> str:
        """The guest's entry for a configuration file of ssh. Programs that use it share the open connection."""
        lines = {"HostName": "127.0.0.1", "Port": self.port, "User": "root", "IdentityFile": _quoted(self.key),
                 "ControlPath": _quoted(self.control), "ControlMaster": "no", **SSH_OPTIONS}
        return f"Host {self.name}\n" + "".join(f"    {name} {value}\n" for name, value in lines.items())

    def connected(self) -> bool:
        return self.control.exists() and subprocess.run(
            self._ssh("-O", "check"), capture_output=True, check=False).returncode == 0

    def connect(self) -> None:
        """Opens the connection unless it is open. A lock keeps two commands from opening it at the same time."""
        with open(self.control.with_suffix(".lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            waiting.poll(f"a connection to {self.name}", self._connect, CONNECT_S, every_s=0.2,
                         doing=lambda: ui.tail(self.log, 1))

    def _connect(self) -> bool:
        if self.connected():
            return True
        with open(self.log, "ab") as log:
            try:        # ATTEMPT_S also limits the key exchange, which ssh's ConnectTimeout does not
                return subprocess.run(self._ssh("-M", "-N", "-f", "-o", "ConnectTimeout=60",
                                                "-o", "ServerAliveInterval=30", "-o", "ServerAliveCountMax=20"),
                                      stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False,
                                      timeout=ATTEMPT_S).returncode == 0
            except subprocess.TimeoutExpired:
                return False

    def disconnect(self) -> None:
        if self.control.exists():
            subprocess.run(self._ssh("-O", "exit"), capture_output=True, check=False)

    def argv(self, command: list[str], *, token: str = "", terminal: bool = False) -> list[str]:
        """The local command that runs a command in the guest. One word is a line for the guest's shell; several words
        are passed unchanged."""
        line = command[0] if len(command) == 1 else shlex.join(command)
        if token:               # _with_token() makes a session; for a terminal sshd makes it
            line = f"{TOKEN}={token} exec {SHELL} {shlex.quote(line)}" if terminal else _with_token(line, token)
        return [*self._ssh("-o", "ControlMaster=no", "-t" if terminal else "-T"), *([line] if line else [])]

    def run(self, command: list[str], *, stdin: bytes | None = None,
            timeout_s: float = 120) -> subprocess.CompletedProcess:
        """Runs a command until it ends; returns its output as bytes."""
        if stdin is None:
            return subprocess.run(self.argv(command), stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=timeout_s, check=False)
        return subprocess.run(self.argv(command), input=stdin, capture_output=True, timeout=timeout_s, check=False)

    def start(self, command: list[str], **options) -> "Running":
        return Running(self, command, **options)

    def attach(self, command: list[str], *, terminal: bool) -> int:
        """Runs a command with this process's standard streams; returns its exit status. If this process is interrupted,
        or its output is no longer read, the command in the guest is ended too. No command: a shell."""
        self.connect()
        token = secrets.token_hex(8)
        try:
            status = relay.run(self.argv(command, token=token, terminal=terminal))
        except BaseException:
            with signals.held_off():
                self.end(token)
            raise
        if status == relay.NOT_READ:
            self.end(token)
        return status

    def end(self, token: str) -> None:
        """Ends the command with this token, and its children that still have the token. Prints that a guest does not
        answer, and raises no error: callers have others to end."""
        try:
            subprocess.run(self.argv([END, f"{TOKEN}={token}"]), stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=END_S, check=False, start_new_session=True)
        except subprocess.TimeoutExpired:
            ui.say(f"{self.name} does not answer: what was started there may still run. Look at its console:  "
                   f"./pib console {self.name}")


class Running(subprocess.Popen):
    """A command that runs in a guest; the object is its local ssh process."""

    def __init__(self, guest: Guest, command: list[str], **options):
        self._guest, self._token = guest, secrets.token_hex(8)
        super().__init__(guest.argv(command, token=self._token), **options)

    def end(self) -> None:
        """Ends the command, in the guest and here."""
        if self.poll() is None:
            self._guest.end(self._token)
            self.kill()
            self.wait()


def answers(node: Guest, limit_s: float = ANSWER_S) -> bool:
    """Whether a guest still executes commands."""
    try:
        return node.run(["true"], timeout_s=limit_s).returncode == 0
    except subprocess.TimeoutExpired:
        return False
