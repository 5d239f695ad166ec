# SPDX-License-Identifier: GPL-2.0-or-later
"""`meson dist` makes an archive of all files that git tracks, and the archive can be configured."""

import subprocess
import tarfile

import pytest

from lab.base import paths



def _output(*argv, **options) -> str:
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(name="archive", scope="module")
def made(tmp_path_factory):
    """The archive of the last commit."""
    if not (paths.ROOT / ".git").exists():
        pytest.skip("this is not a git checkout, so meson has no list of files")
    build = tmp_path_factory.mktemp("dist") / "build"
    _output("meson", "setup", "-Dtests=false", build, paths.ROOT)
    _output("meson", "dist", "-C", build, "--no-tests", "--allow-dirty", "--formats", "gztar")
    return next((build / "meson-dist").glob("pib-hca-*.tar.gz"))


def _mode(member: tarfile.TarInfo) -> str:
    """The mode that git has for such a file."""
    if member.issym():
        return "120000"
    return "100755" if member.mode & 0o100 else "100644"


def test_the_archive_has_each_tracked_file_with_its_mode(archive):
    lines = _output("git", "-C", paths.ROOT, "ls-tree", "-r", "-z", "HEAD").split("\0")
    tracked = {name: words.split()[0] for words, _, name in (line.partition("\t") for line in lines) if name}
    with tarfile.open(archive) as tar:
        there = {member.name.partition("/")[2]: _mode(member) for member in tar if not member.isdir()}
    assert sorted(there.items() ^ tracked.items()) == []


def test_the_unpacked_archive_is_configured_and_runs(archive, tmp_path):
    _output("tar", "-C", tmp_path, "-xf", archive)
    source = next(tmp_path.glob("pib-hca-*"))
    assert "Build targets in project:" in _output("meson", "setup", tmp_path / "build", source)
    assert _output(source / "pib", "--version", cwd=tmp_path).startswith("pib-hca ")
