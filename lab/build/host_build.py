# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the host's programs with meson: a release build, or one with sanitizers for the tests."""

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterable

from lab.base import lock, memory, paths, ui
from lab.build import qemu_headers

SANITIZED = paths.ROOT / "build-sanitized"
THREADS = paths.ROOT / "build-threads"
COVERAGE = paths.ROOT / "build-coverage"
FUZZERS = paths.ROOT / "build-fuzz"
PRODUCTS = ("qemu-hw/glue/libpib-hca.so", "qemu-hw/glue/pib-hca-device.so", "fabric-switch/pib-switch")
REPLAY = "qemu-hw/replay/pib-replay"
# -g1 has line numbers, for reports of crashes. Compiling with full -g takes a fifth to a third longer.
LINES_ONLY = ["-Dc_args=-g1", "-Dcpp_args=-g1"]
OPTIONS: dict[pathlib.Path, list[str]] = {
    paths.BUILD: LINES_ONLY,
    SANITIZED: ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=1", *LINES_ONLY],
    THREADS: ["-Db_sanitize=thread", "-Db_lundef=false", "-Doptimization=1", *LINES_ONLY],
    COVERAGE: ["-Db_coverage=true", "-Doptimization=0", *LINES_ONLY],
    FUZZERS: ["-Dfuzz=true", "-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=1", *LINES_ONLY],
}
# libFuzzer is a part of clang.
COMPILERS: dict[pathlib.Path, dict[str, str]] = {FUZZERS: {"CC": "clang-19", "CXX": "clang++-19"}}

# Free space in GiB that a new build takes.
SIZES_GIB: dict[pathlib.Path, float] = {paths.BUILD: 1, SANITIZED: 4, THREADS: 1, COVERAGE: 3, FUZZERS: 3}

JOB_MIB = 600                   # memory of a compilation with sanitizers; others take half

# Precompiled headers save a quarter of the time in which the libraries are compiled. With them GCC prints false
# warnings, so the plain build, which users make with any compiler, has no -Werror; the one with sanitizers has it.
PRECOMPILED = "-Dprecompiled=true"
NO_WERROR = "-Dwerror=false"

# Tests with several threads that share memory.
THREADED = ("link-endpoint",)


def _is_of_this_checkout(directory: pathlib.Path) -> bool:
    """False if the build directory was copied with a checkout: then it refers to the original's sources."""
    try:
        info = json.loads((directory / "meson-info" / "meson-info.json").read_text())
        return pathlib.Path(info["directories"]["source"]) == paths.ROOT
    except (OSError, ValueError, KeyError):
        return False


def _options(directory: pathlib.Path, headers: pathlib.Path) -> list[str]:
    """Options of meson. With ccache installed, meson uses it, and headers are not precompiled, because ccache does not
    cache such objects."""
    quicker = {paths.BUILD: [PRECOMPILED, NO_WERROR], SANITIZED: [PRECOMPILED]}.get(directory, [])
    return [f"-Dqemu_headers={headers}", *([] if shutil.which("ccache") else quicker), *OPTIONS.get(directory, [])]


def _configure(directory: pathlib.Path, options: list[str]) -> None:
    argv = ["meson", "setup", directory, *options]
    if configured(directory):
        argv.append("--reconfigure")
    elif directory.exists() and any(directory.iterdir()):
        argv.append("--wipe" if (directory / "meson-private").is_dir() else "--reconfigure")
    ui.run(f"configuring {directory.name}/", argv, directory.name, cwd=paths.ROOT,
           env={**os.environ, **COMPILERS.get(directory, {})})


def _wanted(directory: pathlib.Path) -> list[str]:
    """Targets of the build; an empty list: all. A plain build leaves the tests out, so that ./pib up need not wait for
    them."""
    if directory in (SANITIZED, COVERAGE):
        return []
    if directory == FUZZERS:    # the caller names targets
        return ["build.ninja"]
    if directory == THREADS:
        return [f"tests/unit/{name}-test" for name in THREADED]
    # Lets meson reconfigure first, because there may be new targets.
    ui.run(f"checking {directory.name}/", ["ninja", "-C", directory, "build.ninja"],
           directory.name, cwd=paths.ROOT)
    listed = subprocess.run(["ninja", "-C", directory, "-t", "targets", "all"], check=True,
                            capture_output=True, text=True).stdout
    names = {line.split(":")[0] for line in listed.splitlines()}
    return [name for name in PRODUCTS if name in names]


def _jobs() -> list[str]:
    """ninja's option by which the compilers that run at the same time fit into the free memory; none if more
    fit than ninja starts by itself, at most two more than processors."""
    fit = max(1, memory.available_mib() // JOB_MIB)
    return [f"-j{fit}"] if fit < len(os.sched_getaffinity(0)) + 2 else []


def configured(directory: pathlib.Path = paths.BUILD) -> bool:
    return (directory / "build.ninja").exists() and _is_of_this_checkout(directory)


def missing_gib(directories: Iterable[pathlib.Path]) -> float:
    """Free space in GiB for those of the builds that are not configured yet."""
    return sum(SIZES_GIB[directory] for directory in directories if not configured(directory))


def build(directory: pathlib.Path = paths.BUILD, headers: pathlib.Path | None = None,
          more: tuple[str, ...] = ()) -> pathlib.Path:
    """Brings a build directory up to date and returns it. headers: those of a QEMU other than the installed one. more:
    targets in addition to the default ones."""
    headers = headers or qemu_headers.ensure()
    with lock.held(paths.RUN / f"{directory.name}.lock"):
        _build(directory, headers, more)
    return directory


def _build(directory: pathlib.Path, headers: pathlib.Path, more: tuple[str, ...]) -> None:
    # The mark contains the options, and so the path of QEMU's headers, whose name has the version: ninja would not
    # notice other headers.
    mark, options = directory / ".pib-configured", _options(directory, headers)
    if not configured(directory) or not mark.exists() or mark.read_text() != "\n".join(options):
        _configure(directory, options)
        mark.write_text("\n".join(options))
    ui.run(f"building {directory.name}/", ["ninja", *_jobs(), "-C", directory, *_wanted(directory), *more],
           directory.name, cwd=paths.ROOT)
