# SPDX-License-Identifier: GPL-2.0-or-later
"""The progress of opensm's sweep, read from its log in a guest."""

import contextlib
import enum
import subprocess
import time
from collections.abc import Callable

from lab.base import ui
from lab.fabric import sm_log
from lab.guests.guest import Guest

ANSWER_S = 60
FAILED = "Errors during initialization"


class Step(enum.IntEnum):
    """Steps of a sweep, in the order in which opensm takes them."""
    UNKNOWN = 0                 # no opensm runs in the guest, or its log names no step
    DISCOVERS = 1               # asks for nodes and ports
    CONFIGURES = 2              # assigns LIDs and computes routes
    ACTIVATES = 3               # writes the forwarding tables, sets ports ARMED, then ACTIVE
    UP = 4                      # has said SUBNET UP
    STANDBY = 5                 # another subnet manager does the work


# opensm writes "tables configured" when it has computed them and queued the SMPs; after errors it begins anew at once.
TEXTS = {"Entering DISCOVERING state": Step.DISCOVERS, "Entering MASTER state": Step.CONFIGURES,
         "tables configured on all switches": Step.ACTIVATES, FAILED: Step.DISCOVERS, "SUBNET UP": Step.UP,
         "Entering STANDBY state": Step.STANDBY, "Entering NOT-ACTIVE state": Step.STANDBY}
UNFINISHED = {Step.DISCOVERS, Step.CONFIGURES, Step.ACTIVATES}
# Prints the guest's clock, the last line that begins a step (many other lines may follow it), and the end of the log.
# Prints only the clock unless an opensm runs that writes to this log and flushes each line.
WORDS = ["sh", "-c", f"{sm_log.CLOCK}; log={sm_log.FILE}; "
         "for one in $(pidof opensm); do tr '\\0' ' ' </proc/$one/cmdline; done | "
         f"grep -e '{sm_log.FLUSH} ' | grep -qF $log || exit 0; "
         f"grep -aE '{'|'.join(TEXTS)}' $log 2>/dev/null | tail -n 1; tail -n 20 $log 2>/dev/null"]


def step_of(text: str) -> Step:
    """The step that a line of the log begins; UNKNOWN if it begins none."""
    return next((step for part, step in TEXTS.items() if part in text), Step.UNKNOWN)


class Manager:
    """opensm in one guest. error: the last error in its log since the present step began."""

    def __init__(self, guest: Callable[[], Guest]):
        self._guest = guest
        self.step = Step.UNKNOWN
        self.error = ""

    def look(self) -> Step:
        """Reads the log; returns the present step. If the guest does not answer, the step stays, and the caller's own
        checks report the guest."""
        try:
            done = self._guest().run(WORDS, timeout_s=ANSWER_S)
        except (subprocess.TimeoutExpired, ui.LabError):
            return self.step
        self.read(done.stdout.decode(errors="replace").splitlines())
        return self.step

    def read(self, lines: list[str]) -> None:
        reader = sm_log.Reader()
        self.step, self.error = Step.UNKNOWN, ""
        for line in lines:
            with contextlib.suppress(ValueError):       # a line that another program has written there
                if found := reader.read(line, time.time()):
                    self._take(found)

    def _take(self, found: sm_log.Decision) -> None:
        if step := step_of(found.text):
            self.step, self.error = step, found.text if FAILED in found.text else ""
        elif found.is_error:
            self.error = found.text

    def has_finished(self) -> bool:
        """False while opensm's log shows a sweep that has not ended."""
        return self.look() not in UNFINISHED
