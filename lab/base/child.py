# SPDX-License-Identifier: GPL-2.0-or-later
"""Child programs of a command. If a signal is to end the command, the command forwards it to the programs, and waits
until they have ended."""

import dataclasses
import pathlib
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence

from lab.base import paths, signals, ui

DRAIN_S = 10                    # limit for reading a program's last output: its children may keep the pipe open


def _print(line: str) -> None:
    print(line, flush=True)


@dataclasses.dataclass(frozen=True)
class Program:
    """A program to run. stop: the signal at which it ends its own children and then itself. show: receives each line of
    its output, in a separate thread."""
    argv: Sequence[str | pathlib.Path]
    stop: int = signal.SIGINT
    show: Callable[[str], None] = _print
    env: dict[str, str] | None = None


class _Running:
    """Programs that run in parallel. The first signal is forwarded to all programs; later signals are ignored, because
    they would interrupt the programs' cleaning up."""

    def __init__(self) -> None:
        self.children: list[tuple[Program, subprocess.Popen, threading.Thread]] = []
        self.interrupted = False
        self.error: Exception | None = None     # raised by a Program's show()

    def start(self, program: Program) -> None:
        # The program has its own process group: otherwise Ctrl-C would reach it twice, from the terminal and from
        # interrupt().
        process = subprocess.Popen([str(word) for word in program.argv], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                   cwd=paths.ROOT, env=program.env, process_group=0)
        reader = threading.Thread(target=self._show, args=(program, process), daemon=True)
        self.children.append((program, process, reader))
        reader.start()
        if self.interrupted:
            process.send_signal(program.stop)

    def wait(self) -> list[int]:
        statuses = [process.wait() for _, process, _ in self.children]
        for _, _, reader in self.children:
            reader.join(DRAIN_S)
        return statuses

    def on_signal(self, _number: int, _frame: object) -> None:
        ui.say("waiting until all started programs have ended")
        self.interrupt()

    def interrupt(self) -> None:
        if self.interrupted:
            return
        self.interrupted = True
        for program, process, _ in self.children:
            process.send_signal(program.stop)

    def _show(self, program: Program, process: subprocess.Popen) -> None:
        """Passes each line of output to show(). Reads on after an error in show(): a full pipe would block the program.
        """
        assert process.stdout
        with process.stdout as lines:
            for line in lines:
                try:
                    program.show(line.rstrip("\n"))
                except Exception as error:
                    self.error = self.error or error
                    self.interrupt()


def run(*programs: Program) -> list[int]:
    """Runs programs in parallel until all have ended; returns their exit statuses. Forwards a signal to them, waits
    without a time limit until all have ended, and raises KeyboardInterrupt."""
    running = _Running()
    with signals.handled(signals.taken(), running.on_signal):
        try:
            for program in programs:
                running.start(program)
        except BaseException:
            running.interrupt()
            raise
        finally:
            statuses = running.wait()
    if running.error:
        raise running.error
    if running.interrupted:
        raise KeyboardInterrupt
    return statuses
