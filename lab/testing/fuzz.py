# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib fuzz: coverage-guided fuzzing of the targets in tests/fuzz by libFuzzer, with sanitizers.

Inputs that reach new code of a target are kept in the checkout's run directory. tests/fuzz/corpus has, as text, a
minimal set of inputs that reaches the same edges; the unit tests replay it. docs/fuzzing.md has the sums of the
recorded runs."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from lab.base import child, paths, ui
from lab.build import deps, host_build
from lab.fabric import up
from lab.testing import fuzz_corpus, fuzz_report, runners

FOLDER = paths.ROOT / "tests" / "fuzz"
SOURCE = "_fuzz.cc"
ALL = "all"
DEFAULT_S = 60
MOST_INPUT = 4096               # bytes of an input
MOST_MIB = 4096
SLOW_S = 600                    # reached only by a hang
HEAD = re.compile(r"^// SPDX.*\n((?://.*\n)+)")


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Options of ./pib fuzz. target: its name, or ALL. record: adds the figures to docs/fuzzing.md. keep: replaces the
    corpus in tests/fuzz/corpus."""
    target: str
    seconds: int = DEFAULT_S
    record: bool = False
    keep: bool = False


def targets(folder: pathlib.Path = FOLDER) -> dict[str, str]:
    """The first sentence of each target's source, which says what the target covers, by the target's name."""
    found = {}
    for source in sorted(folder.glob(f"*{SOURCE}")):
        head = HEAD.match(source.read_text())
        words = " ".join(line.removeprefix("//").strip() for line in head[1].splitlines()) if head else ""
        found[source.name.removesuffix(SOURCE)] = re.split(r"(?<=\.) ", words, maxsplit=1)[0]
    return found


def show() -> str:
    """The list of targets, with the sums of the recorded runs."""
    rows = fuzz_report.load()
    lines = []
    for name, covers in targets().items():
        row = rows.get(name)
        done = f"{row.executions:,} executions, {row.edges:,} of {row.all_edges:,} edges" if row else "no recorded run"
        lines += [f"{name}: {covers}", f"    {done}"]
    return "\n".join(lines)


class _Target:
    """A target's programs and files. work: directory with the inputs of this checkout's earlier runs."""

    def __init__(self, name: str, build: pathlib.Path):
        self.name = name
        self.program, self.replay = (build / "tests" / "fuzz" / f"{name}-{kind}" for kind in ("fuzz", "replay"))
        self.work = paths.RUN / "fuzz" / name
        self.failures = paths.RUN / "fuzz" / f"{name}.failures"
        self.corpus = FOLDER / "corpus" / f"{name}{fuzz_corpus.SUFFIX}"

    def prepare(self) -> None:
        """Adds the seeds, and the inputs in tests/fuzz, to the inputs of earlier runs."""
        for directory in (self.work, self.failures):
            directory.mkdir(parents=True, exist_ok=True)
        self._call([self.replay, "--write-seeds", self.work])
        for data in [*fuzz_corpus.load(self.corpus), *map(fuzz_corpus.recorded, self._recorded())]:
            fuzz_corpus.put(self.work, data)

    def _recorded(self) -> list[pathlib.Path]:
        return sorted((FOLDER / "recorded" / self.name).glob("*.hex"))

    def _call(self, argv: list) -> None:
        done = subprocess.run([str(word) for word in argv], env=_environment(), capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise ui.LabError(f"{self.name}: {argv[0].name} has failed. Mend the target. It said:\n"
                              f"{done.stderr[-2000:]}")

    def run(self, seconds: int) -> tuple[int, str]:
        """Runs libFuzzer; returns its exit status and output."""
        lines: list[str] = []

        def keep(line: str) -> None:
            lines.append(line)
            if line.startswith("#") and ("pulse" in line or "INITED" in line or "DONE" in line):
                ui.say(f"{self.name}: {line}")
        options = {"max_total_time": seconds, "max_len": MOST_INPUT, "rss_limit_mb": MOST_MIB, "timeout": SLOW_S,
                   "print_final_stats": 1}
        status, = child.run(child.Program([self.program, *(f"-{name}={value}" for name, value in options.items()),
                                           f"-artifact_prefix={self.failures}/", self.work],
                                          env=_environment(), show=keep))
        return status, "\n".join(lines)

    def minimize(self) -> int:
        """Replaces the corpus in tests/fuzz/corpus by a minimal set of inputs that reaches all edges; returns their
        number."""
        with tempfile.TemporaryDirectory(dir=self.work.parent) as name:
            few = pathlib.Path(name)
            self._call([self.program, "-set_cover_merge=1", f"-max_len={fuzz_corpus.MOST_BYTES}", few, self.work])
            return fuzz_corpus.save(self.corpus, (path.read_bytes() for path in sorted(few.iterdir())))


def _environment() -> dict[str, str]:
    return {**os.environ, **runners.SANITIZER_ENV}


def _failure(target: _Target, output: str) -> ui.LabError:
    """The error about an input that fails; it says how to repeat and how to keep the input."""
    # libFuzzer also writes slow inputs (slow-unit-*), which are not failures.
    written = re.findall(r"Test unit written to (\S+/(?!slow-unit)[^/\s]+)", output)
    tail = "\n".join(output.splitlines()[-60:])
    if not written:
        return ui.LabError(f"{target.name}: libFuzzer has ended without a result:\n{tail}")
    path = pathlib.Path(written[-1])
    return ui.LabError(
        f"{tail}\n{target.name}: an input fails. Repeat it:  {os.path.relpath(target.program)} {path}\n"
        f"Mend the defect, and keep the input as tests/fuzz/recorded/{target.name}/WHAT_IT_IS.hex, which the unit "
        f"tests replay:\n{fuzz_corpus.text(path.read_bytes())}")


def _build(names: list[str]) -> pathlib.Path:
    programs = tuple(f"tests/fuzz/{name}-{kind}" for name in names for kind in ("fuzz", "replay"))
    return host_build.build(host_build.FUZZERS, more=programs)


def _one(target: _Target, wanted: Wanted) -> fuzz_report.Row:
    target.prepare()
    ui.say(f"{target.name}: fuzzing for {wanted.seconds} s")
    status, output = target.run(wanted.seconds)
    if status:
        raise _failure(target, output)
    row = fuzz_report.parse(output, wanted.seconds)
    print(f"{target.name}: {row.executions:,} executions, {row.edges:,} of {row.all_edges:,} edges", flush=True)
    if wanted.record:
        fuzz_report.add(target.name, row)
    if wanted.keep:
        ui.say(f"{target.name}: {target.minimize()} inputs in {os.path.relpath(target.corpus, paths.ROOT)}")
    return row


def fuzz(wanted: Wanted) -> int:
    """Fuzzes one target, or all one after the other. Stops at an input that fails."""
    known = targets()
    if wanted.target != ALL and wanted.target not in known:
        raise ui.LabError(f"fuzz: there is no target {wanted.target}. Targets: {', '.join(known)}, or {ALL}")
    if wanted.seconds < 1:
        raise ui.LabError("fuzz: give at least --seconds 1")
    names = list(known) if wanted.target == ALL else [wanted.target]
    up.machine(deps.TEST_LIST, deps.FUZZER_LIST, guests=False, builds={host_build.FUZZERS})
    if not shutil.which("clang++-19"):
        raise ui.LabError("fuzz: clang++-19 is missing. Install it:  ./pib deps")
    build = _build(names)
    for name in names:
        _one(_Target(name, build), wanted)
    return 0
