# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib soak: runs rounds of loads on a lab of its own, takes samples during and between them, and gives a verdict."""

import contextlib
import dataclasses
import json
import pathlib
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence

from lab.base import errors, lock, paths, ui
from lab.fabric import cluster, up
from lab.fabric.wanted import Wanted
from lab.soak import curve, rule, samples
from lab.soak.loads import LOADS, Load
from lab.soak.samples import QUIET, Sample

NAME = "soak"                   # directory of its lab, and default directory of the results
SAMPLE_S = 20.0
SETTLE_S = 3.0                  # pause before a quiet sample, because closing connections takes a moment


@dataclasses.dataclass(frozen=True)
class Job:
    hours: float
    guests: int = 3
    folder: pathlib.Path = pathlib.Path()
    sample_s: float = SAMPLE_S
    settle_s: float = SETTLE_S


class Recorder:
    """Takes samples of a lab, also in a thread while a load runs."""

    def __init__(self, lab: cluster.Cluster, job: Job):
        self.lab, self.job = lab, job
        self.began = time.monotonic()
        self.samples: list[Sample] = []
        self._lock = threading.Lock()

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def sample(self, phase: str) -> None:
        values = samples.read(self.lab)
        with self._lock:
            self.samples.append(Sample(self.seconds(), phase, values))

    @contextlib.contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Takes samples periodically during the block. Skips a sample that fails: a device that is being plugged cannot
        be read."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(self.job.sample_s):
                with contextlib.suppress(ui.LabError):
                    self.sample(phase)
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _rounds(recorder: Recorder, loads: Sequence[Load]) -> tuple[int, list[str]]:
    """Runs rounds until the time is over; returns (number of rounds, failures). After a failed load it continues,
    unless the lab has ended."""
    rounds, failures = 0, []
    while True:
        for load in loads:
            ui.say(f"round {rounds + 1}: {load.name}")
            with recorder.during(load.name):
                try:
                    load.run(recorder.lab)
                except (ui.LabError, subprocess.TimeoutExpired) as error:
                    failures.append(f"round {rounds + 1}, {load.name}: {errors.sentence(error)}")
                    ui.say(failures[-1])
                    recorder.lab.check()
        time.sleep(recorder.job.settle_s)
        recorder.sample(QUIET)
        _save(recorder, rounds + 1, failures)
        rounds += 1
        if recorder.seconds() >= recorder.job.hours * 3600:
            return rounds, failures


def verdicts(taken: list[Sample]) -> list[rule.Verdict]:
    quiet = [sample for sample in taken if sample.phase == QUIET]
    return [rule.judge(name, [sample.values[name] for sample in quiet if name in sample.values])
            for name in samples.columns(quiet)]


def _save(recorder: Recorder, rounds: int, failures: list[str]) -> None:
    """Writes all results. Called after each round, so that an interrupted soak has results."""
    folder, taken = recorder.job.folder, list(recorder.samples)
    folder.mkdir(parents=True, exist_ok=True)
    samples.write_csv(taken, folder / "samples.csv")
    (folder / "soak.svg").write_text(curve.svg(taken, f"{rounds} rounds with {recorder.job.guests} guests"))
    (folder / "soak.json").write_text(json.dumps({
        "rounds": rounds, "seconds": round(recorder.seconds(), 1), "guests": recorder.job.guests, "failures": failures,
        "verdicts": [dataclasses.asdict(verdict) for verdict in verdicts(taken)],
        "samples": [dataclasses.asdict(sample) for sample in taken]}, indent=1))


def run(lab: cluster.Cluster, job: Job, loads: Sequence[Load] = LOADS) -> int:
    """Runs the soak. Returns 0 if no load failed and no curve grows. Too few samples for a verdict count as no failure.
    """
    recorder = Recorder(lab, job)
    rounds, failures = _rounds(recorder, loads)
    judged = verdicts(recorder.samples)
    print("\n".join(verdict.line() for verdict in judged))
    print(f"{rounds} rounds in {recorder.seconds() / 60:.0f} minutes, {len(failures)} loads failed; "
          f"results: {job.folder}")
    grown = [verdict.name for verdict in judged if verdict.flat is False]
    return 1 if failures or grown else 0


def soak(job: Job) -> int:
    """Boots the soak's own lab, runs the soak and ends the lab. A second soak in the checkout waits for the first one:
    they have the same lab."""
    if not job.hours > 0 or job.guests < 2:          # "nan" is refused, too
        raise ui.LabError("soak: give more than 0 --hours, and at least 2 --guests")
    with lock.held(paths.RUN / f"{NAME}.lock"):
        lab = cluster.Cluster(paths.RUN / NAME)
        try:
            up.boot(lab, Wanted(job.guests))
            return run(lab, job)
        finally:
            lab.down()
