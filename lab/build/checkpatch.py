# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs checkpatch: the kernel's on the driver, QEMU's on the glue.

Debian packages checkpatch.pl only in whole source packages. U-Boot's source, a fifth of the kernel's size, contains the
kernel's script. Each script is extracted once, into the user's cache."""

import dataclasses
import pathlib
import subprocess
import tempfile

from lab.base import paths, ui
from lab.build import cache, debian, image

LOG = "checkpatch"
SCRIPT = "scripts/checkpatch.pl"


@dataclasses.dataclass(frozen=True)
class Style:
    """A variant of checkpatch. source: the Debian source package with the script. parts: files that the script reads.
    ignored: types of complaints to suppress, and why."""
    source: str
    parts: tuple[str, ...]
    options: tuple[str, ...]
    ignored: dict[str, str]


KERNEL = Style("u-boot", (SCRIPT, "scripts/const_structs.checkpatch"),
               ("--no-tree", "--strict", "--file", "--terse", "--show-types", "--no-summary", "--quiet",
                "--max-line-length=100"),
               {"CONSTANT_COMPARISON": "takes a comparison of two macros for one the wrong way round",
                "BIT_MACRO": "1 << LOG_DEPTH is a number of entries, not a bit"})
# The script takes one file per run.
QEMU = Style("qemu", (SCRIPT,), ("--no-tree", "--terse", "--no-summary", "-f"), {})


def driver_files() -> list[pathlib.Path]:
    """Source files of our driver and of the steps of docs/first-driver.md."""
    found = [*(paths.ROOT / "guest-driver").glob("*.[ch]"), *(paths.ROOT / "examples").glob("first-driver/*/*.[ch]")]
    return sorted(path for path in found if not path.is_symlink())


def glue_files() -> list[pathlib.Path]:
    return sorted((paths.ROOT / "qemu-hw" / "glue").glob("*.[ch]"))


def ensure(style: Style = KERNEL) -> pathlib.Path:
    """The script's path in the cache; the script is fetched if it is missing."""
    name = f"checkpatch-{image.RELEASES[0]}" if style == KERNEL else f"checkpatch-{style.source}-{image.RELEASES[0]}"
    return cache.entry(name, lambda out: _make(style, out)) / SCRIPT


def _make(style: Style, out: pathlib.Path) -> None:
    suites = [debian.Suite(debian.mirror(), image.RELEASES[0], "Debian")]
    with tempfile.TemporaryDirectory(dir=out, prefix="source.") as name:
        work = pathlib.Path(name)
        archive = debian.Archive(work, suites)
        archive.update(LOG)
        versions = archive.versions(style.source)
        if not versions:
            raise ui.LabError(f"the mirror has no source of {style.source}, which has checkpatch. Take another "
                              "mirror in /etc/apt/sources.list.d")
        archive.download(style.source, versions[0], LOG, tarball_only=True)
        ui.run("unpacking checkpatch",
               ["tar", "-xf", next(work.glob(f"{style.source}_*.orig.tar.*")), "-C", out, "--strip-components=1",
                "--no-wildcards-match-slash", "--wildcards", *(f"*/{part}" for part in style.parts)], LOG)


def complaints(files: list[pathlib.Path], style: Style = KERNEL) -> list[str]:
    """Complaints as FILE:LINE: TEXT."""
    ignored = [f"--ignore={','.join(style.ignored)}"] if style.ignored else []
    said = []
    # The script writes a file to its working directory.
    with tempfile.TemporaryDirectory() as elsewhere:
        for some in [files] if style == KERNEL else [[file] for file in files]:
            done = subprocess.run(["perl", ensure(style), *style.options, *ignored, *some], cwd=elsewhere,
                                  capture_output=True, text=True, check=False)
            said += done.stdout.splitlines()
            if done.returncode and not done.stdout:
                raise ui.LabError(f"checkpatch: {done.stderr.strip()}\nFetch it again:  ./pib clean "
                                  f"{ensure(style).parent.name}   and run the same command again")
    return said
