# SPDX-License-Identifier: GPL-2.0-or-later
"""Decisions of the subnet manager: follows opensm's log and picks the lines about them."""

import calendar
import collections
import contextlib
import dataclasses
import re
import subprocess
import threading
import time
from collections.abc import Callable

from lab.base import ui

FILE = "/var/log/opensm.log"
FLUSH = "-d 2"                  # opensm writes each line at once. Otherwise SUBNET UP waits in its buffer
CLOCK = "date '+%Y %m %d %H %M %S'"     # prints the guest's local time
# Prints the clock, then the log's last lines and all further lines.
WORDS = ["sh", "-c", f"{CLOCK}; exec tail -n 1000 -F {FILE} 2>/dev/null"]
MOST_LINES = 2000               # limit of decisions that wait to be taken; older ones are dropped
MOST_TEXT = 200
MOST_LINE = 1 << 12             # characters read as one line: a guest may write one without an end
LINE = re.compile(r"(\w{3}) +(\d+) (\d\d):(\d\d):(\d\d) (\d{6}) \[\w+\] 0x([0-9A-Fa-f]+) -> (?:\w+: )*(.*)")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
SLACK_S = 86400                 # a line may be later than the clock by this, if the guest's clock was set back
ERROR = 0x01
NOTICE = "Generic Notice"       # a trap, which opensm writes with the level of errors
ALWAYS = (0x80, ERROR)          # levels of lines that are always shown: OSM_LOG_SYS, OSM_LOG_ERROR
DECISIONS = re.compile("SUBNET UP|tables configured on all switches|Generic Notice|Removed port|Discovered new|sweep",
                       re.I)
ENGINE = re.compile(r"(\S+) tables configured on all switches")


@dataclasses.dataclass(frozen=True)
class Decision:
    """A line of the log. at: seconds since 1970 by the host's clock. stamp: the same by the guest's clock."""
    at: float
    text: str
    stamp: float = 0.0
    is_error: bool = False

    def engine(self) -> str:
        """The routing engine that has set the forwarding tables; "" if the line is about something else."""
        found = ENGINE.fullmatch(self.text)
        return found[1] if found else ""


def _stamp(line: re.Match[str], clock: float) -> float:
    """The time of a line by the guest's clock, which shows `clock` now. A line names no year: it is of the last year in
    which it is not later than the clock."""
    month_to_second = (MONTHS.index(line[1]) + 1, *map(int, line.group(2, 3, 4, 5)))
    year = time.gmtime(clock).tm_year
    if calendar.timegm((year, *month_to_second)) > clock + SLACK_S:
        year -= 1
    return calendar.timegm((year, *month_to_second)) + int(line[6]) / 1e6


class Reader:
    """Parses the output of WORDS. now: time at which a line was read."""

    def __init__(self) -> None:
        self._ahead: int | None = None      # seconds by which the guest's clock is ahead of the host's

    def read(self, line: str, now: float) -> Decision | None:
        """Parses a line; None if it is not a decision. The first line is the guest's time."""
        if self._ahead is None:
            self._ahead = round(calendar.timegm(tuple(map(int, line.split()))) - now)
            return None
        found = LINE.fullmatch(line)
        if not found or found[1] not in MONTHS:
            return None
        level = int(found[7], 16)
        if level not in ALWAYS and not DECISIONS.search(found[8]):
            return None
        stamp = _stamp(found, now + self._ahead)
        return Decision(min(stamp - self._ahead, now), ui.printable(found[8].strip())[:MOST_TEXT], stamp,
                        level == ERROR and NOTICE not in found[8])


class Follower:
    """Reads the log of one guest until stop(). argv: a local command that runs WORDS there."""

    def __init__(self, argv: list[str]):
        self._found: collections.deque[Decision] = collections.deque(maxlen=MOST_LINES)
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, text=True, errors="replace", process_group=0)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        reader = Reader()
        assert self._process.stdout
        while line := self._process.stdout.readline(MOST_LINE):
            with contextlib.suppress(ValueError, OverflowError):        # a line in another format
                if found := reader.read(line.rstrip(), time.time()):
                    self._found.append(found)

    def ended(self) -> bool:
        return self._process.poll() is not None

    def take(self) -> list[Decision]:
        """Returns the decisions since the last call."""
        return [self._found.popleft() for _ in range(len(self._found))]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout
        self._process.stdout.close()


class Followed:
    """Follows the log in the guest that runs the subnet manager. That guest may change."""

    def __init__(self) -> None:
        self.guest = ""
        self._follower: Follower | None = None
        self._last: dict[str, float] = {}       # by guest: stamp of the last decision, because a log may be read again

    def take(self, guest: str, command: Callable[[], list[str]]) -> list[Decision]:
        """Returns the decisions since the last call. guest: runs the subnet manager; "" if none does. command: returns
        the argv of a Follower; empty if the log cannot be read."""
        if guest != self.guest or (self._follower and self._follower.ended()):
            self.stop()
        if guest and not self._follower and (argv := command()):
            self.guest, self._follower = guest, Follower(argv)
        last = self._last.get(self.guest, 0.0)
        found = [one for one in self._follower.take() if one.stamp > last] if self._follower else []
        self._last[self.guest] = max((one.stamp for one in found), default=last)
        return found

    def stop(self) -> None:
        if self._follower:
            self._follower.stop()
        self.guest, self._follower = "", None
