# SPDX-License-Identifier: GPL-2.0-or-later
"""Tells from outside whether a guest's kernel hangs: whether one of its processors works without leaving its place. It
cannot tell a hang from a driver that waits without sleeping, so the caller also asks whether the guest answers."""

import contextlib
import dataclasses
import pathlib
import re
import time
from collections.abc import Callable

from lab.base import process, ui
from lab.guests import vm

LOOK_S = 0.25                   # interval of looks at the processors
STUCK_S = 2.0                   # processor time at one place after which a processor counts as stuck
LEAST_LOOKS = 8
NEAR = 256                      # limit of distance between two addresses of one place, in bytes
MODULES = 0xffffffffc0000000    # start of modules in the kernel's addresses (x86-64)
INTERRUPTS = 1 << 9             # RFLAGS.IF
REGISTERS = re.compile(r"^CPU#(\d+)\s.*?\bRIP=([0-9a-f]+) RFL=([0-9a-f]+) .*?CPL=(\d) .*?HLT=(\d)",
                       re.MULTILINE | re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Look:
    """State of a processor. seconds: processor time that it has had. in_kernel: it runs the kernel, not halted."""
    seconds: float
    address: int
    flags: int
    in_kernel: bool

    def stays(self, first: "Look") -> bool:
        """Whether the processor may still be at the place of an earlier look. A loop of a module may call functions of
        the kernel, and interrupts may come: while they run, interrupts are off for most of the time."""
        return self.in_kernel and (not self.flags & INTERRUPTS or self.address >= MODULES
                                   or abs(self.address - first.address) < NEAR)


def looks(registers: str, seconds: dict[int, float]) -> dict[int, Look]:
    """A look at each processor, by its number. registers: QEMU's answer to "info registers -a". seconds: processor time
    by processor."""
    return {int(number): Look(seconds[int(number)], int(address, 16), int(flags, 16), level == "0" and halted == "0")
            for number, address, flags, level, halted in REGISTERS.findall(registers) if int(number) in seconds}


class Processors:
    """The processors of a guest."""

    def __init__(self, monitor: Callable[[], pathlib.Path]):
        """monitor: returns the QMP socket; may raise LabError for a guest that has none on this host."""
        self._monitor = monitor
        self._threads: dict[int, int] = {}
        self._first: dict[int, tuple[Look, int]] = {}   # by processor: its first look at this place, and the count
        self._next = 0.0

    def _take(self) -> dict[int, Look]:
        monitor = self._monitor()
        if not self._threads:
            self._threads = {cpu["cpu-index"]: cpu["thread-id"]
                             for cpu in vm.monitor_command(monitor, "query-cpus-fast")}
        seconds = {number: process.thread_cpu_s(thread) for number, thread in self._threads.items()}
        return looks(vm.monitor_line(monitor, "info registers -a"), seconds)

    def note(self, taken: dict[int, Look]) -> bool:
        """Takes a look at each processor. Returns whether one is stuck."""
        stuck = False
        for number, look in taken.items():
            first, count = self._first.get(number, (look, 0))
            if not look.stays(first):
                first, count = look, 0
            self._first[number] = first, count + 1
            stuck |= look.in_kernel and count >= LEAST_LOOKS and look.seconds - first.seconds >= STUCK_S
        return stuck

    def stuck(self) -> bool:
        """Looks at the processors, unless the last look is less than LOOK_S ago. Returns whether one is stuck; False
        without a look, or if QEMU does not answer."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + LOOK_S
        with contextlib.suppress(ui.LabError, OSError):
            return self.note(self._take())
        return False

    def forget(self) -> None:
        """Looks at the processors anew, because the guest answers."""
        self._first.clear()
