# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds reports of faults (Oops, BUG, WARNING, …) in the messages of a guest's kernel, and adds lines of source."""

import contextlib
import dataclasses
import linecache
import pathlib
import re
import sys
import threading
import time
from collections.abc import Iterator

from lab.base import ui
from lab.build import builder, symbols
from lab.fabric.cluster import Cluster
from lab.guests import vm

BEGIN = re.compile(r"BUG: |Oops: |general protection fault|Kernel panic - |kernel BUG at|WARNING: |"
                   r"possible circular locking|INFO: task .* blocked|UBSAN: |DMA-API: ")
FATAL = re.compile(r"BUG: |Oops: |general protection fault|Kernel panic - |kernel BUG at")
LOCKUP = "watchdog: BUG: soft lockup"
END = re.compile(r"---\[ end (?:trace|Kernel panic)")
MOST_LINES = 120                # limit of a report
QUIET_S = 1.0                   # a report ends after a silence of this length
WHOLE_S = 10.0
POLL_S = 0.05                   # interval of polling during a report
LOOK_S = 0.3                    # interval of looking at a quiet console


def first(text: str) -> str:
    """The first report in a text, perhaps without its end; "" if there is none."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if BEGIN.search(line)), None)
    if start is None:
        return ""
    end = next((number for number, line in enumerate(lines[start:], start) if END.search(line)), len(lines) - 1)
    return "\n".join(lines[start:min(end + 1, start + MOST_LINES)])


def fatal_line(console: pathlib.Path) -> str:
    """The line of a console that began its first report of a fatal fault; "" if there is none."""
    try:
        with open(console, encoding="utf-8", errors="replace") as file:
            return next((ui.printable(line.strip()) for line in file if FATAL.search(line)), "")
    except OSError:
        return ""


def whole(text: str) -> bool:
    return bool(END.search(text))


def annotated(text: str, known: symbols.Symbols) -> str:
    """The text with lines of source after each line that has an address in a module."""
    places = known.lines(text)
    said = []
    for line in text.splitlines():
        said.append(line)
        for address in symbols.addresses(line):
            said += [f"        {place}{_source(place)}" for place in places.get(address, [])]
    return ui.printable("\n".join(said).replace("\t", " "))


def _source(place: str) -> str:
    file, _, number = place.rpartition(":")
    line = linecache.getline(file, int(number)).strip()
    return f":  {line}" if line else ""


def symbols_of(lab: Cluster, name: str) -> symbols.Symbols:
    """The symbols of a guest's modules: those that ./pib driver has loaded come before those of its boot."""
    return symbols.Symbols(builder.Builder(pathlib.Path(lab.record.image)), lab.symbols(name), lab.symbols())


def explain(lab: Cluster, name: str, text: str) -> str:
    linecache.checkcache()
    return annotated(text, symbols_of(lab, name)) if symbols.addresses(text) else text


def _text(said: bytes) -> str:
    return said.decode(errors="replace").replace("\r", "")


class Faulted(ui.LabError):
    """A guest's kernel has reported a fault of its own."""


class LockedUp(Faulted):
    """The kernel has reported that a processor hangs. A quiet console does not show where."""


@dataclasses.dataclass
class Watch:
    """Watches what a guest's console prints from now on."""
    lab: Cluster
    name: str
    seen: int = 0               # bytes of the console already read

    def __post_init__(self) -> None:
        self.console = vm.Files(self.name, self.lab.sockets()).console
        self.seen = len(self._new())

    def _new(self) -> bytes:
        try:
            with open(self.console, "rb") as file:
                file.seek(self.seen)
                return file.read()
        except OSError:
            return b""

    def check(self) -> None:
        """Raises Faulted if the kernel has reported a fatal fault."""
        if not FATAL.search(_text(self._new())):
            return
        said = self._whole_report()
        self.seen += len(said)
        fault = LockedUp if LOCKUP in _text(said) else Faulted
        raise fault(f"the kernel of {self.name} reports:\n{explain(self.lab, self.name, first(_text(said)))}\n"
                    f"Start the guest anew:  ./pib reboot {self.name}")

    def _whole_report(self) -> bytes:
        begun, said, changed = time.monotonic(), self._new(), time.monotonic()
        while (not whole(_text(said)) and self.lab.alive(self.name) and time.monotonic() - changed < QUIET_S
               and time.monotonic() - begun < WHOLE_S):
            time.sleep(POLL_S)
            if (now := self._new()) != said:
                said, changed = now, time.monotonic()
        return said


@contextlib.contextmanager
def told(lab: Cluster, name: str) -> Iterator[None]:
    """Prints reports of the guest's kernel during the block, from a separate thread."""
    watch, ended = Watch(lab, name), threading.Event()
    teller = threading.Thread(target=_tell, args=(watch, ended), daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def _tell(watch: Watch, ended: threading.Event) -> None:
    last = False
    while not last:
        last = ended.wait(LOOK_S)
        try:
            watch.check()
        except ui.LabError as error:    # "\r\n", because the terminal may be in raw mode
            print(f"\n{ui.named(str(error))}\n".replace("\n", "\r\n" if sys.stderr.isatty() else "\n"),
                  file=sys.stderr, flush=True)
