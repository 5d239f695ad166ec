# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test simulate: compares random fabrics, in one process and virtual time, with a reference model of verbs."""

import dataclasses
import os
import pathlib
import random

from lab.base import child, ui
from lab.base.counts import Count, FAILURE
from lab.build import host_build
from lab.testing import runners
from lab.testing.progress import Progress

STAGE = "simulation"
NEW_SEEDS_STAGE = "simulation, new seeds"
PROGRAM = "tests/simulation/simulate"
DEFAULT_S = 20


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Options of the command line. Defaults: DEFAULT_S seconds unless `seeds` is given; a random first seed."""
    seconds: int | None = None
    seed: int | None = None
    seeds: int | None = None
    script: pathlib.Path | None = None

    def arguments(self) -> list[str]:
        if self.script is not None:
            return ["--script", str(self.script.resolve())]
        seed = random.SystemRandom().randrange(2 ** 32) if self.seed is None else self.seed
        seconds = DEFAULT_S if self.seconds is None else self.seconds
        length = ["--seeds", self.seeds] if self.seeds is not None else ["--seconds", seconds]
        return [str(word) for word in ("--seed", seed, *length)]


def _run(progress: Progress, name: str, directory: pathlib.Path, wanted: Wanted) -> Count:
    stage = progress.begin(name)
    ui.say("simulating fabrics")
    status, = child.run(child.Program([directory / PROGRAM, *wanted.arguments()],
                                      env={**os.environ, **runners.SANITIZER_ENV}))
    count = Count(passed=1) if status == 0 else FAILURE
    stage.end(count)
    return count


def simulate(progress: Progress, wanted: Wanted) -> Count:
    return _run(progress, STAGE, host_build.build(more=(PROGRAM,)), wanted)


def new_seeds(progress: Progress) -> Count:
    """Simulates with random seeds and sanitizers. The unit tests have built the program before."""
    return _run(progress, NEW_SEEDS_STAGE, host_build.SANITIZED, Wanted())
