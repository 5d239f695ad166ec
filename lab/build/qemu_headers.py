# SPDX-License-Identifier: GPL-2.0-or-later
"""The headers of the installed QEMU, which qemu-hw/glue needs.

Debian has no package of QEMU's headers, and a device must be compiled for exactly the version that loads it. So this
takes the installed version's source tarball, runs QEMU's configure, and builds only the ninja targets that generate
headers. Result:

    DIR/source   headers of the source tree (include/, linux-headers/, …)
    DIR/build    generated headers (qapi/, trace/, config-host.h, …)
    DIR/version  e.g. "10.0.2"

DIR is in the user's cache under a name that contains version and recipe. It is renamed into place when it is complete.

    python3 -I -B lab/start.py lab.build.qemu_headers          makes it if it is missing, prints DIR
    python3 -I -B lab/start.py lab.build.qemu_headers --find   prints DIR if it exists, else fails"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from lab.base import paths, ui
from lab.build import cache, debian

PACKAGE = "qemu-system-x86"
VARIABLE = "PIB_QEMU_HEADERS"     # environment variable: a directory that replaces the installed QEMU's headers
LOG = "qemu-headers"
CONFIGURE = ("--without-default-features", "--enable-modules",
             "--enable-plugins", "--enable-kvm", "--enable-tcg", "--disable-docs",
             "--disable-tools", "--disable-guest-agent", "--disable-download",
             "--disable-install-blobs")
# The guests' emulator; on an Arm host also one for Arm: --enable-kvm needs an emulator that can use KVM there.
TARGETS = {"aarch64": "aarch64-softmmu,x86_64-softmmu"}
GENERATED = re.compile(r"(qapi/.*|trace/.*|ui/.*|block/.*|config-poison|qemu-version)\.h")
TEST_PACKAGES = re.compile(r"(^\[tooling\]\n)[^\[]*", re.MULTILINE)     # a table of pythondeps.toml
LEFT_OUT = {"roms", "tests", "subprojects", "pyvenv", "qemu-bundle"}
SUFFIXES = (".h", ".h.inc", ".def", ".inc")
REVISION = "1"      # part of the cache key, as the tables above: increase it with each change of the code below


def options(machine: str = os.uname().machine) -> tuple[str, ...]:
    """Options of QEMU's configure. machine: the host's processor."""
    return (f"--target-list={TARGETS.get(machine, 'x86_64-softmmu')}", *CONFIGURE)


def package_version() -> str:
    """Version of the source package of the installed QEMU."""
    version = debian.output("dpkg-query", "-W", "-f", "${source:Version}", PACKAGE).strip()
    if not version:
        raise ui.LabError(f"{PACKAGE} is not installed. Run:  ./pib deps")
    return version


def upstream(version: str) -> str:
    """1:10.0.2+ds-2+deb13u1 -> 10.0.2+ds, as in the name of the .orig tarball."""
    return version.split(":", 1)[-1].rsplit("-", 1)[0]


def directory(version: str = "") -> pathlib.Path:
    """The headers' directory in the cache. version: that of the package; default: the installed one."""
    version = upstream(version or package_version())
    recipe = paths.recipe_hash(REVISION, *options(), GENERATED.pattern, *sorted(LEFT_OUT),
                               *SUFFIXES)
    return paths.cache() / f"qemu-headers-{version}-{recipe}"


def fetch(work: pathlib.Path, version: str, archive: debian.Archive) -> pathlib.Path:
    """Downloads and unpacks the source; returns its top directory."""
    # Any revision of the same upstream version has the same .orig tarball; a mirror
    # may have dropped the very revision that is installed.
    same = [v for v in archive.versions("qemu") if upstream(v) == upstream(version)]
    if not same:
        raise ui.LabError(f"the mirror has no source of QEMU {upstream(version)} (package: "
                          f"{version}). Run as root:  apt-get update && apt-get install {PACKAGE}")
    archive.download("qemu", version if version in same else same[0], LOG, tarball_only=True, to=work)
    tarball = next(work.glob("qemu_*.orig.tar.*"))
    ui.run("unpacking QEMU's source", ["tar", "-xf", tarball, "-C", work], LOG)
    return next(path for path in work.glob("qemu-*") if path.is_dir())


def complete(source: pathlib.Path) -> None:
    """Makes the source ready for meson. Debian's tarball lacks UEFI images and compiled device trees, but meson
    requires that the files exist. QEMU 11 also requires Python packages for its tests (qemu.qmp), which not every
    release of Debian has: they are removed from its list."""
    listed = (source / "pc-bios" / "meson.build").read_text()
    for name in set(re.findall(r"edk2-[a-z0-9_-]+\.fd", listed)):
        (source / "pc-bios" / f"{name}.bz2").touch()
    for tree in (source / "pc-bios" / "dtb").glob("*.dts"):
        tree.with_suffix(".dtb").touch()
    if (needs := source / "pythondeps.toml").exists():
        needs.write_text(TEST_PACKAGES.sub(r"\1", needs.read_text()))


def configure(source: pathlib.Path, build: pathlib.Path) -> None:
    build.mkdir()
    ui.run("configuring QEMU for its headers",
           [source / "configure", "--python=/usr/bin/python3", *options()], LOG, cwd=build)


def generated(listed: str) -> list[str]:
    """The headers among a build's targets, from ninja's list."""
    return [target for line in listed.splitlines() if GENERATED.fullmatch(target := line.split(":")[0])]


def generate(build: pathlib.Path) -> None:
    listed = subprocess.run(["ninja", "-t", "targets", "all"], cwd=build, check=True,
                            capture_output=True, text=True).stdout
    wanted = generated(listed)
    ui.run(f"generating {len(wanted)} headers", ["ninja", *wanted], LOG, cwd=build)


def copy_headers(tree: pathlib.Path, to: pathlib.Path) -> None:
    for top, directories, files in os.walk(tree, followlinks=True):
        relative = pathlib.Path(top).relative_to(tree)
        if relative == pathlib.Path("."):
            directories[:] = [name for name in directories if name not in LEFT_OUT]
        headers = [name for name in files if name.endswith(SUFFIXES)]
        if headers:
            (to / relative).mkdir(parents=True, exist_ok=True)
        for name in headers:
            shutil.copy(pathlib.Path(top) / name, to / relative / name)


def collect(source: pathlib.Path, build: pathlib.Path, to: pathlib.Path) -> None:
    copy_headers(build, to / "build")
    copy_headers(source, to / "source")
    (to / "version").write_text((source / "VERSION").read_text())


def _make(final: pathlib.Path, version: str, suites: list[debian.Suite]) -> None:
    with tempfile.TemporaryDirectory(dir=final, prefix="qemu.") as name:
        work = pathlib.Path(name)
        archive = debian.Archive(work, suites)
        archive.update(LOG)
        source, build = fetch(work, version, archive), work / "build"
        complete(source)
        configure(source, build)
        generate(build)
        collect(source, build, final)


def ensure(version: str = "", suites: list[debian.Suite] | None = None) -> pathlib.Path:
    """The headers of the installed QEMU, or of the version in these suites; they are made if they are missing."""
    if not version and VARIABLE in os.environ:
        return pathlib.Path(os.environ[VARIABLE])
    version = version or package_version()
    return cache.entry(directory(version).name, lambda out: _make(out, version, suites or debian.sources()))


def main() -> int:
    try:
        if sys.argv[1:] == ["--find"]:
            found = directory()
            if not found.is_dir():
                return 1
        else:
            found = ensure()
    except ui.LabError as error:
        print(f"pib: {error}", file=sys.stderr)
        return 1
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
