# SPDX-License-Identifier: GPL-2.0-or-later
"""How far opensm has come in its sweep, by its log in a guest."""

import contextlib
import enum
import subprocess
import time
from collections.abc import Callable

from lab import ui
from lab.fabric import sm_log
from lab.guests.guest import Guest

ANSWER_S = 60
FAILED = "Errors during initialization"


class Step(enum.IntEnum):
    """In the order in which opensm takes them."""
    UNKNOWN = 0                 # no opensm runs in the guest, or its log does not tell
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
# The guest's clock, the last line of a step, which many others may follow, and the end of the log. An opensm that
# writes another log, or not at once, tells nothing.
WORDS = ["sh", "-c", f"{sm_log.CLOCK}; log={sm_log.FILE}; "
         "for one in $(pidof opensm); do tr '\\0' ' ' </proc/$one/cmdline; done | "
         f"grep -e '{sm_log.FLUSH} ' | grep -qF $log || exit 0; "
         f"grep -aE '{'|'.join(TEXTS)}' $log 2>/dev/null | tail -n 1; tail -n 20 $log 2>/dev/null"]


def step_of(text: str) -> Step:
    """UNKNOWN for a decision that begins no step."""
    return next((step for part, step in TEXTS.items() if part in text), Step.UNKNOWN)


class Manager:
    """opensm in one guest. error: the last one that it has told in the present step."""

    def __init__(self, guest: Callable[[], Guest]):
        self._guest = guest
        self.step = Step.UNKNOWN
        self.error = ""

    def look(self) -> Step:
        """Reads the log. A guest that does not answer is for others to find out."""
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
        """Whether no sweep is known to be under way."""
        return self.look() not in UNFINISHED
