# SPDX-License-Identifier: GPL-2.0-or-later
"""debian/rules on machines and in checkouts that differ from the test's, with stand-ins for debhelper's programs."""

import os
import pathlib
import shutil
import subprocess

import pytest

from lab import paths

CONFIGURE = """#!/bin/sh
echo "$(basename "$0") $* CFLAGS=$CFLAGS CXXFLAGS=$CXXFLAGS" >>{called}
"""


@pytest.fixture(name="source")
def _source(tmp_path) -> pathlib.Path:
    """A source tree with debian/ alone, and the sources that a build without a network names."""
    shutil.copytree(paths.ROOT / "debian", tmp_path / "pib-hca" / "debian")
    return tmp_path / "pib-hca"


@pytest.fixture(name="make")
def _make(source, tmp_path):
    """Runs a target of debian/rules; returns its output. programs: scripts of debhelper's programs, by name."""
    def run(*words: str, programs=(), **env: str) -> str:
        folder = tmp_path / "programs"
        folder.mkdir(exist_ok=True)
        for name, script in dict(programs).items():
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)
        done = subprocess.run(["make", "-s", "-f", "debian/rules", *words], cwd=source, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False,
                              env={"PATH": f"{folder}:{os.environ['PATH']}", **env})
        assert done.returncode == 0, done.stdout
        return done.stdout.strip()
    return run


def test_builders_without_a_home_directory_have_a_cache(make, source, tmp_path):
    """sbuild names a directory that does not exist. HOME may also be empty: the cache would be /.cache."""
    show = ("--eval", "show: ; @echo $(PIB_CACHE_HOME)", "show")
    own = f"{source}/debian/.debhelper/cache"
    assert make(*show) == make(*show, HOME="/sbuild-nonexistent") == own
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
