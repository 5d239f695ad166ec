# SPDX-License-Identifier: GPL-2.0-or-later
"""The rule by which a curve is flat. docs/soak.md explains it.

Only quiet samples count, which are taken when all loads of a round have ended. The first quarter of them is left out,
because caches fill then. The rest is divided in order into three parts."""

import dataclasses
import statistics
from collections.abc import Sequence

WARM_UP = 0.25                  # share of the samples that is left out
LEAST = 6                       # samples after the warm-up that a verdict needs
MIB = 1024.0                    # in KiB, the unit of memory


@dataclasses.dataclass(frozen=True)
class Limit:
    """The last part's median may exceed the first part's median by a share of the latter, plus a number."""
    share: float = 0.0
    more: float = 0.0
    minima: bool = False        # compares minima, not medians: higher values may come from work that is still ending


# Limits by kind of curve. The name of a curve is its kind and its process or guest: "memory vm0".
LIMITS = {
    "memory": Limit(share=0.02, more=4 * MIB),
    "descriptors": Limit(minima=True),
    "threads": Limit(more=2),
    "objects": Limit(minima=True),
    "errors": Limit(),
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Verdict on a curve. medians: medians or minima of the three parts. flat: None if there are too few samples."""
    name: str
    medians: tuple[float, ...]
    limit: float
    flat: bool | None

    def line(self) -> str:
        if self.flat is None:
            return f"{self.name}: too few samples for a verdict"
        first, middle, last = (f"{median:g}" for median in self.medians)
        said = "flat" if self.flat else "GROWS"
        return f"{self.name}: {said}: {first}, {middle}, {last}; at most {self.limit:g} is flat"


def kind(name: str) -> str:
    return name.partition(" ")[0]


def judge(name: str, values: Sequence[float]) -> Verdict:
    """The verdict on a curve. values: those of the quiet samples, in order."""
    rest = list(values[int(len(values) * WARM_UP):])
    limit = LIMITS[kind(name)]
    if len(rest) < LEAST:
        return Verdict(name, (), 0.0, None)
    size = len(rest) / 3
    parts = [rest[round(number * size):round((number + 1) * size)] for number in range(3)]
    medians = tuple(float(min(part) if limit.minima else statistics.median(part)) for part in parts)
    most = medians[0] * (1 + limit.share) + limit.more
    return Verdict(name, medians, most, medians[2] <= most)
