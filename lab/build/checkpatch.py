# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's checkpatch over the driver.

Debian packages checkpatch.pl only within the whole source of the kernel. U-Boot's source,
a fifth of the size, has the same script: it is taken from there, once, into the user's cache.
"""

import pathlib
import subprocess
import tempfile

from lab import paths, ui
from lab.build import cache, debian
from lab.guests import image

SOURCE = "u-boot"
LOG = "checkpatch"
SCRIPT = "scripts/checkpatch.pl"
# Files that the script reads from its own folder.
PARTS = (SCRIPT, "scripts/const_structs.checkpatch")
OPTIONS = ("--no-tree", "--strict", "--file", "--terse", "--show-types", "--no-summary", "--quiet",
           "--max-line-length=100")
# Types of complaints that are not followed, and why.
IGNORED = {
    "LINUX_VERSION_CODE": "the driver is built outside of the kernel's tree, for several releases",
    "CONSTANT_COMPARISON": "takes a comparison of two macros for one the wrong way round",
    "BIT_MACRO": "1 << LOG_DEPTH is a number of entries, not a bit",
}


def driver_files() -> list[pathlib.Path]:
    return sorted((paths.ROOT / "guest-driver").glob("*.[ch]"))


def ensure() -> pathlib.Path:
    """The script, from the cache; fetched when it is not there."""
    return cache.entry(f"checkpatch-{image.RELEASES[0]}", _make) / SCRIPT


def _make(out: pathlib.Path) -> None:
    suites = [debian.Suite(debian.mirror(), image.RELEASES[0], "Debian")]
    with tempfile.TemporaryDirectory(dir=out, prefix="source.") as name:
        work = pathlib.Path(name)
        archive = debian.Archive(work, suites)
        archive.update(LOG)
        versions = archive.versions(SOURCE)
        if not versions:
            raise ui.LabError(f"the mirror has no source of {SOURCE}, which has checkpatch")
        archive.download(SOURCE, versions[0], LOG, tarball_only=True)
        ui.run("unpacking checkpatch",
               ["tar", "-xf", next(work.glob(f"{SOURCE}_*.orig.tar.*")), "-C", out,
                "--strip-components=1", "--wildcards", *(f"*/{part}" for part in PARTS)], LOG)


def complaints(files: list[pathlib.Path]) -> list[str]:
    """FILE:LINE: TYPE: TEXT, one a complaint."""
    argv = ["perl", ensure(), *OPTIONS, f"--ignore={','.join(IGNORED)}", *files]
    # It leaves a file behind where it runs.
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(argv, cwd=elsewhere, capture_output=True, text=True, check=False)
    said = done.stdout.splitlines()
    if done.returncode and not said:
        raise ui.LabError(f"checkpatch: {done.stderr.strip()}")
    return said
