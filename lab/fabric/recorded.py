# SPDX-License-Identifier: GPL-2.0-or-later
"""The processes of a lab and their record, a file that lists the running processes."""

import contextlib
import pathlib
import signal
from collections.abc import Callable, Iterable, Iterator

from lab.base import lock, process, signals, ui
from lab.fabric import rundir, state

START_S = 300                   # limit until a process is ready, reached only by a hang


class Recorded:
    """The processes of the lab in a directory, by name."""

    def __init__(self, directory: pathlib.Path):
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self.file = self.directory / state.NAME
        self.state = state.load(self.file)
        self.before_end: Callable[[], object] = lambda: None    # called before processes of a failed start are ended
        self._started: list[process.Process] = []
        self._locks = 0

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lab's lock during the block: one command at a time changes the lab. Blocks may nest."""
        with contextlib.ExitStack() as held:
            if not self._locks:
                held.enter_context(lock.held(self.directory / "lock"))
                self.state = state.load(self.file)
            self._locks += 1
            try:
                yield
            finally:
                self._locks -= 1

    # -- looking ------------------------------------------------------------

    @property
    def record(self) -> state.State:
        """The state of the running lab; an error if nothing runs."""
        if not self.state:
            raise ui.LabError("nothing runs. Start it:  ./pib up")
        return self.state

    def alive(self, name: str) -> bool:
        return bool(self.state and name in self.state.processes
                    and self.state.processes[name].alive())

    def running(self) -> dict[str, process.Process]:
        found = self.state.processes if self.state else {}
        return {name: running for name, running in found.items() if running.alive()}

    def sockets(self) -> pathlib.Path:
        """The processes' short directory. Each call checks that it is still ours, because it is in /tmp."""
        directory = pathlib.Path(self.record.sockets)
        if not rundir.ours(directory):
            raise ui.LabError(f"{directory} is not the lab's any more: it was removed, or is someone else's now. "
                              "Begin anew:  ./pib down   and then  ./pib up")
        return directory

    def log(self, name: str) -> pathlib.Path:
        """The file with the output of a process."""
        return self.sockets() / f"{name}.log"

    def check(self) -> None:
        """Raises if the lab has changed so that this command must fail."""
        now = state.load(self.file)
        if not now or not self.state or now.sockets != self.state.sockets:
            raise ui.LabError("another ./pib command has ended this lab meanwhile. Start it again:  ./pib up")
        for name, running in now.processes.items():
            if not running.alive():
                raise ui.LabError(f"{name} has ended. Its output:\n{ui.said(self.log(name))}\n"
                                  "Start it again:  ./pib up")

    def has_started(self, name: str) -> bool:
        """Whether this command started the running process of this name."""
        return self.alive(name) and self.record.processes[name] in self._started

    # -- starting -----------------------------------------------------------

    def save(self) -> None:
        self.record.save(self.file)

    def start(self, name: str, argv: list[str], env: dict[str, str] | None = None) -> process.Process:
        with signals.deferred():
            started = process.start(argv, self.log(name), directory=self.directory, name=name, extra_env=env)
            self.record.processes[name] = started
            self._started.append(started)
            self.record.commands[name] = state.Command(argv, env or {})
            self.save()
        return started

    def start_and_wait(self, name: str, argv: list[str], ready: Callable[[], object]) -> None:
        started = self.start(name, argv)
        try:
            process.wait_for(name, ready, started, self.log(name), START_S)
        except BaseException:
            self.end(name)
            raise

    @contextlib.contextmanager
    def ended_on_failure(self, *failures: type[BaseException]) -> Iterator[None]:
        """If the block fails, ends the processes that were started in it. failures: exceptions that count as failures;
        empty: all."""
        before = len(self._started)
        try:
            yield
        except failures or BaseException:
            with signals.held_off(), self.locked():
                self._end_started(self._started[before:])
            raise

    # -- ending -------------------------------------------------------------

    def _end_started(self, started: list[process.Process]) -> None:
        recorded = self.state.processes if self.state else {}
        new = [name for name, running in recorded.items() if running in started]
        if new:
            self.before_end()
        if alive := [name for name in new if self.alive(name)]:
            ui.say(f"ending what this command had started: {', '.join(alive)}")
        if len(alive) == len(self.running()):
            self.down()
        else:
            self.end(*reversed(new))

    def end(self, *names: str, first: int = signal.SIGTERM) -> None:
        """Ends processes and removes them from the record. first: the signal to send first."""
        for name in (ended := [name for name in names if self.state and name in self.state.processes]):
            _stop(name, self.record.processes[name], first)
            del self.record.processes[name]
            self.record.commands.pop(name, None)
            self.record.ssh_ports.pop(name, None)
        if ended:
            self.save()         # after all processes have ended: a full disk makes it fail

    def end_strays(self) -> list[str]:
        """Ends processes of this lab that the record does not list, because it was lost or a command was killed."""
        recorded = list(self.running().values())
        strays = [(name, stray) for directory, name, stray in process.marked()
                  if directory == self.directory and stray not in recorded]
        _stop_all(strays)
        return [name for name, _ in strays]

    def down(self) -> list[str]:
        """Ends all processes and removes the record; returns the names of the processes."""
        with self.locked():
            ended = list(self.running())
            try:
                _stop_all(reversed(self.running().items()))     # guests end before the processes that they need
            finally:
                ended += self.end_strays()
            if self.state:
                rundir.remove(pathlib.Path(self.state.sockets))
            self.file.unlink(missing_ok=True)
            self.state = None
        return ended


def _stop_all(processes: Iterable[tuple[str, process.Process]]) -> None:
    """Ends all of these processes, and then raises the errors of those that do not end."""
    errors = []
    for name, running in processes:
        try:
            _stop(name, running)
        except ui.LabError as error:
            errors.append(str(error))
    if errors:
        raise ui.LabError("\n".join(errors))


def _stop(name: str, running: process.Process, first: int = signal.SIGTERM) -> None:
    if not running.stop(first):
        raise ui.LabError(f"{name} (process {running.pid}) does not end, not even by SIGKILL: it is another user's, "
                          f"or waits for a device. Look at it:  ps -fp {running.pid}")
