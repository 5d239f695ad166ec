# SPDX-License-Identifier: GPL-2.0-or-later
"""Tells a fabric, and each guest, from one with the same names that ran before, for example before `./pib down`."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from lab.fabric import control
from lab.fabric.evidence import NS, Json

MOST_BEGINS = 100               # limit of runs of a guest whose beginnings are kept
FABRIC = ""                     # the key of the switches among the guests' names


def instances(asked: control.Control, names: Sequence[str]) -> set[str]:
    """The instance of a switch process, which differs after a restart. names: those of its switches."""
    found = asked.ask("journal", switch=names[0]).get("instance") if names else None
    return {found} if found else set()


def _age_s(guest: Json | None) -> float | None:
    """The time for which a guest's first HCA has run. A device's clock begins with its QEMU. None: it is not known."""
    hcas = guest["hcas"] if guest else []
    now_ns = hcas[0]["objects"].get("now_ns") if hcas else None
    return None if now_ns is None else now_ns / NS


class Runs:
    """begins: (number of the last event before, time) of each run but the first."""

    def __init__(self) -> None:
        self._begins: dict[str, list[tuple[int, float]]] = {}
        self._seen: dict[str, tuple[float, float]] = {}     # by guest: age, and time.monotonic() when it was read
        self._absent: set[str] = set()                      # guests that the last reading did not have
        self._instances: set[str] = set()                   # an instance of each switch process

    def as_json(self) -> dict[str, list[tuple[int, float]]]:
        return self._begins

    def shift(self, seconds: float) -> None:
        """Moves all times, because the host's clock was set."""
        for begins in self._begins.values():
            begins[:] = [(number, at + seconds) for number, at in begins]

    def _begin(self, key: str, last: int, at: float) -> None:
        self._begins[key] = [*self._begins.get(key, []), (last, at)][-MOST_BEGINS:]

    def note_switches(self, found: set[str], last: int, at: float) -> bool:
        """Returns whether no process of the last reading runs any more, and others do. found: instances. last: number
        of the last event."""
        before, self._instances = self._instances, found or self._instances
        if not before or not found or before & found:
            return False
        self._begin(FABRIC, last, at)
        return True

    def note_guests(self, found: Mapping[str, Any], last: int, at: float) -> bool:
        """Returns whether a guest has started anew. found: as in Evidence. last: number of the last event."""
        now, anew = time.monotonic(), False
        for name, guest in found.items():
            if (age := _age_s(guest)) is None:
                continue
            before, then = self._seen.get(name, (0.0, now))
            if age < before or (name in self._absent and age < now - then):
                self._begin(name, last, at - age)
                anew = True
            self._seen[name] = age, now
        self._absent = {name for name in self._seen if not found.get(name)}
        return anew
