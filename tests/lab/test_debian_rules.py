# SPDX-License-Identifier: GPL-2.0-or-later
"""debian/rules on machines and in checkouts that differ from the test's, with stand-ins for debhelper's programs."""

import os
import pathlib
import shutil
import subprocess
import tarfile

import pytest

from lab.base import paths

CONFIGURE = """#!/bin/sh
echo "$(basename "$0") $* CFLAGS=$CFLAGS CXXFLAGS=$CXXFLAGS" >>{called}
"""
INSTALL = """#!/bin/sh
cd debian/tmp/usr/share/pib-hca || exit 1
mkdir guest-driver hw-interface lab
touch guest-driver/main.c guest-driver/main.o guest-driver/.main.o.cmd guest-driver/pib_hca.ko guest-driver/pib_hca.mod \\
    guest-driver/pib_hca.mod.c guest-driver/modules.order guest-driver/Module.symvers hw-interface/pib_hca_hw.h lab/ci.py
"""


@pytest.fixture(name="source")
def _source(tmp_path) -> pathlib.Path:
    """A source tree with a part of debian/ alone: debian/ of a checkout may contain a package that was built there."""
    debian = tmp_path / "pib-hca" / "debian"
    (debian / "source").mkdir(parents=True)
    for name in ("rules", "control", "changelog", "source/format", "source/options"):
        shutil.copy(paths.ROOT / "debian" / name, debian / name)
    return debian.parent


@pytest.fixture(name="make")
def _make(source, tmp_path):
    """Runs a target of debian/rules; returns its output. programs: scripts of debhelper's programs, by name. fails:
    whether make must fail."""
    def run(*words: str, programs=(), fails=False, **env: str) -> str:
        folder = tmp_path / "programs"
        folder.mkdir(exist_ok=True)
        for name, script in dict(programs).items():
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)
        done = subprocess.run(["make", "-s", "-f", "debian/rules", *words], cwd=source, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False,
                              env={"PATH": f"{folder}:{os.environ['PATH']}", **env})
        assert (done.returncode != 0) == fails, done.stdout
        return done.stdout.strip()
    return run


def test_builders_without_a_home_directory_have_a_cache(make, source, tmp_path):
    """sbuild names a directory that does not exist. HOME may also be empty: the cache would be /.cache."""
    show = ("--eval", "show: ; @echo $(PIB_CACHE_HOME)", "show")
    own = f"{source}/debian/.debhelper/cache"
    assert make(*show) == make(*show, HOME="") == make(*show, HOME="/sbuild-nonexistent") == own
    assert make(*show, HOME=str(tmp_path)) == f"{tmp_path}/.cache"
    assert make(*show, XDG_CACHE_HOME="/cache") == "/cache"
    assert make(*show, PIB_CACHE_HOME="/other", HOME=str(tmp_path)) == "/other"


def test_the_path_of_the_builders_cache_does_not_get_into_the_device(make, tmp_path):
    called = tmp_path / "called"
    script = CONFIGURE.format(called=called)
    make("override_dh_auto_configure", "PREPARE=true", HOME=str(tmp_path), PIB_QEMU_HEADERS="/home/me/.cache/headers",
         programs={"dh_auto_configure": script, "dpkg-buildflags": "#!/bin/sh\necho -O2 -fhardened\n"})
    first = called.read_text().splitlines()[0]
    assert "-Dqemu_headers=/home/me/.cache/headers " in first
    assert first.endswith("CFLAGS=-O2 -fhardened -ffile-prefix-map=/home/me/.cache/headers=qemu-headers CXXFLAGS=")


def test_a_cross_build_does_not_take_the_headers_of_another_processor(make, tmp_path):
    called = tmp_path / "called"
    programs = {"dh_auto_configure": CONFIGURE.format(called=called), "dpkg-buildflags": "#!/bin/sh\n"}
    target = ("override_dh_auto_configure", "PREPARE=echo /headers; true")
    for_arm = {"HOME": str(tmp_path), "DEB_BUILD_ARCH": "amd64", "DEB_HOST_ARCH": "arm64"}
    assert "a build for arm64 needs QEMU's headers" in make(*target, programs=programs, fails=True, **for_arm)
    assert not called.exists()
    make(*target, programs=programs, PIB_QEMU_HEADERS="/headers", **for_arm)
    make(*target, programs=programs, **{**for_arm, "DEB_HOST_ARCH": "amd64"})
    assert called.read_text().count("-Dqemu_headers=/headers ") == 2


def test_products_of_a_driver_that_was_built_in_the_checkout_are_not_packed(make, source, tmp_path):
    (source / "debian" / "tmp" / "usr" / "share" / "pib-hca").mkdir(parents=True)
    plugin = source / "debian" / "build-provider" / "lib" / "libpib-rdmav34.so"
    plugin.parent.mkdir(parents=True)
    plugin.touch()
    make("override_dh_auto_install", "VERSION=1", HOME=str(tmp_path), programs={"dh_auto_install": INSTALL})
    packed = {path.name for path in (source / "debian" / "tmp").rglob("*") if path.is_file()}
    assert packed == {"main.c", "pib_hca_hw.h", "ci.py", "libpib-rdmav34.so", "pib.driver"}


def test_a_source_package_has_nothing_that_pib_leaves_in_a_checkout(source):
    left = (".git/config", ".lab/key", "build-sanitized/build.ninja", "build/build.ninja", "build/.ninja_log",
            "build/qemu-hw/core/device.o", "build/guest/x/pib_hca.ko")
    for name in (*left, "lab/build/deps.py"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    subprocess.run(["dpkg-source", "-b", source], cwd=source.parent, check=True, capture_output=True)
    with tarfile.open(next(source.parent.glob("*.tar.xz"))) as tar:
        packed = {member.name.partition("/")[2] for member in tar if member.isfile()}
    assert "lab/build/deps.py" in packed and not packed & set(left)
    assert {name.split("/")[0] for name in packed} == {"debian", "lab"}
