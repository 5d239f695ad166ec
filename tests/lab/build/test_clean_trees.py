# SPDX-License-Identifier: GPL-2.0-or-later
"""In new trees of Debian, as root and as an ordinary user with sudo, ./pib deps installs all programs that ./pib up and
the tests call."""

import concurrent.futures
import os
import subprocess
import sys

import clean_tree
import pytest

from lab import clean
from lab.base import paths, ui
from lab.build import debian, deps

USERS = ("root", clean_tree.USER)
# A user other than root enters the tree by a user namespace. Further user namespaces get no ids there, so all of the
# checks would fail.
CHECKS = ("preflight.check(preflight.Needed(5, 1)); preflight.check_programs()" if os.geteuid() == 0
          else "missing = preflight.programs(True); assert not missing, missing")
SCRIPT = f"""
./pib deps
PYTHONPATH=. /usr/bin/python3 -B -c 'from lab.base import environment; environment.settle()
from lab.build import preflight; {CHECKS}'
PYTHONPATH=.:tests/lab /usr/bin/python3 -B -c 'import called; called.check()'
qemu-system-x86_64 --version
meson --version
sudo apt-get -q autoclean >/dev/null
"""


def _in_clean_trees(release: str) -> dict[str, subprocess.CompletedProcess]:
    """Runs the script as each user, in a tree of its own."""
    done = {}
    tree = clean_tree.make(release)
    try:
        for user in USERS:
            copy = tree.copy()
            try:
                done[user] = copy.run(user, SCRIPT)
            finally:
                copy.remove()
    finally:
        tree.remove()
    return done


@pytest.fixture(scope="module")
def seen():
    """The results of each release; the releases run side by side."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        yield {release: pool.submit(_in_clean_trees, release) for release in deps.RELEASES}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("release", deps.RELEASES)
def test_a_clean_tree_gets_all_packages(seen, release, user):
    done = seen[release].result()[user]
    assert done.returncode == 0, done.stdout
    assert "QEMU emulator version 10" in done.stdout and done.stdout.splitlines()[-1].startswith("1."), done.stdout


@pytest.mark.parametrize("uri, certificates", [("http://mirror/debian", False), ("https://mirror/debian", True)])
def test_a_tree_can_use_a_mirror_with_https(tmp_path, monkeypatch, uri, certificates):
    asked: list[str] = []

    def bootstrap(_title, wanted, *_more):
        asked.extend(wanted)
        raise ui.LabError("enough")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(debian, "mirror", lambda *_label: uri)
    monkeypatch.setattr(debian.Archive, "update", lambda *_: None)
    monkeypatch.setattr(clean_tree.image, "bootstrap", bootstrap)
    with pytest.raises(ui.LabError, match="enough"):
        clean_tree.make("trixie")
    assert {"git", "python3", "sudo"} <= set(asked) and ("ca-certificates" in asked) == certificates


def test_the_next_run_removes_the_trees_of_a_killed_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = ("import time, clean_tree; tree = clean_tree.Tree('trixie'); "
            "print(tree.directory.name, flush=True); time.sleep(600)")
    with subprocess.Popen([sys.executable, "-B", "-c", code], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": f"{paths.ROOT}:{paths.ROOT / 'tests' / 'lab'}"}) as run:
        left = paths.cache() / run.stdout.readline().strip()
        clean_tree.Tree("trixie").remove()
        assert left.is_dir()
        with pytest.raises(ui.LabError, match="another ./pib command uses it"):
            clean.clean([left.name], None, False)
        run.kill()
    clean_tree.Tree("trixie").remove()
    assert [path.name for path in paths.cache().iterdir()] == ["locks"]


def _apt_replaces(file, text: str) -> None:
    new = file.with_name("partial")
    new.write_text(text)
    new.rename(file)


def test_trees_of_two_runs_do_not_change_each_others_packages(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = clean_tree.archives("trixie")
    for name in ("broken.deb", "obsolete.deb"):
        (kept / name).write_text("old")
    one, other = clean_tree.Tree("trixie"), clean_tree.Tree("trixie")
    for tree in (one, other):
        tree.take_archives()
    _apt_replaces(one.archives / "broken.deb", "new")
    (one.archives / "obsolete.deb").unlink()
    (one.archives / "fetched.deb").write_text("fetched")
    one.keep_archives()
    assert {file.name: file.read_text() for file in other.archives.iterdir()} == {"broken.deb": "old",
                                                                                  "obsolete.deb": "old"}
    assert {file.name: file.read_text() for file in kept.iterdir()} == {"broken.deb": "new", "fetched.deb": "fetched"}
    (other.archives / "fetched.deb").write_text("fetched as well")
    other.keep_archives()
    assert (one.archives / "fetched.deb").read_text() == "fetched"
    for tree in (one, other):
        tree.remove()
