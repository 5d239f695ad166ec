# SPDX-License-Identifier: GPL-2.0-or-later
"""The container's first program, with stand-ins for pib, the shell and root's rights."""

import os
import pty
import shutil
import subprocess

import pytest

from lab.base import paths

ENTRY = paths.ROOT / "packaging" / "container-entry"


@pytest.fixture(name="start")
def _start(tmp_path):
    """Starts the program with words; returns its process. programs: scripts that come first in PATH. before: words that
    start the program."""
    def run(*words, stdin=subprocess.DEVNULL, programs=(), before=()):
        folder = tmp_path / "programs"
        folder.mkdir(exist_ok=True)
        for name, script in {"pib": 'echo pib $$ "$@"', "bash": "echo bash $$", "id": "echo 0",
                             **dict(programs)}.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        return subprocess.Popen([*before, ENTRY, *words], cwd=tmp_path, stdin=stdin, stdout=subprocess.PIPE, text=True,
                                env={"HOME": str(tmp_path), "PATH": f"{folder}:{os.environ['PATH']}"})
    return run


def ended(process):
    """Output and status of a process at its end."""
    return process.communicate(timeout=60)[0], process.returncode


@pytest.mark.parametrize("stopped", ["zstd", "mv", "rm"])
def test_a_container_that_was_stopped_in_the_unpacking_starts_again(start, tmp_path, stopped):
    disk = tmp_path / ".cache" / "pib-hca" / "guest-trixie-0" / "root.ext4"
    disk.parent.mkdir(parents=True)
    disk.write_text("a disk\n" * 1000)
    subprocess.run(["zstd", "-q", "--rm", disk], check=True)
    half = f"echo a >{disk}.part; exit 1" if stopped == "zstd" else "exit 1"
    assert ended(start("status", programs={stopped: half}))[1] == 1
    (tmp_path / "programs" / stopped).unlink()
    said, status = ended(start("status"))
    assert status == 0 and said.startswith("pib ") and disk.read_text() == "a disk\n" * 1000
    assert [path.name for path in disk.parent.iterdir()] == ["root.ext4"]


@pytest.mark.parametrize("words", [(), ("up", "-n", "4"), ("ci", "--", "true")])
def test_pib_itself_gets_the_signal_that_ends_the_container(start, words):
    """The kernel gives the first process no signal for which it has no handler, and a shell has none."""
    process = start(*words)
    assert ended(process)[0] == " ".join(["pib", str(process.pid), *(words or ("up",))]) + "\n"


def test_another_user_than_root_ends_with_an_error(start):
    assert ended(start(programs={"id": "echo 1000"})) == ("", 1)


def test_a_new_start_of_a_container_forgets_what_ran(start, tmp_path):
    """The first process of a container has the number 1."""
    state = tmp_path / ".local" / "state" / "pib-hca" / "state.json"
    state.parent.mkdir(parents=True)
    state.touch()
    ended(start("status"))
    assert state.exists()
    process = start("status", before=("unshare", "--user", "--pid", "--fork"))
    assert ended(process) == ("pib 1 status\n", 0) and not state.exists()


def test_containers_that_share_a_volume_leave_each_others_links(start, tmp_path):
    """home: the part of a container's file system that the others do not see."""
    def container(home, image):
        (tmp_path / home / ".cache" / "pib-hca" / image).mkdir(parents=True, exist_ok=True)
        before = ("env", f"HOME={tmp_path / home}", f"XDG_CACHE_HOME={tmp_path / 'volume'}")
        assert ended(start("status", before=before))[1] == 0
        return tmp_path / "volume" / "pib-hca" / image
    one, other = container("one", "guest-trixie-1"), container("other", "guest-trixie-2")
    assert one.is_dir() and other.is_dir()
    (one / "file").touch()
    container("one", "guest-trixie-1")
    assert (one / "file").exists() and other.is_dir()
    other.unlink()
    other.symlink_to("/nowhere")
    container("other", "guest-trixie-2")
    assert other.is_dir()


@pytest.mark.parametrize("status, shell", [(0, True), (1, True), (130, False)])
def test_up_on_a_terminal_starts_a_shell_unless_a_signal_ended_it(start, status, shell):
    """The shell keeps the container running, with which the guests would end."""
    outer, inner = pty.openpty()
    process = start(stdin=inner, programs={"pib": f'echo pib $$ "$@"; exit {status}'})
    output, code = ended(process)
    said = output.splitlines()
    os.close(outer)
    os.close(inner)
    assert said[0].startswith("pib ") and said[0].endswith(" up")
    assert said[1:] == ([f"bash {process.pid}"] if shell else []) and code == (0 if shell else status)


def test_the_containers_scripts_run_from_a_clone_of_git_for_windows(tmp_path):
    """By default that git converts the ends of lines, and no program has the name in "#!/bin/sh\\r"."""
    def git(*words):
        subprocess.run(["git", "-C", tmp_path, "-c", "core.autocrlf=true", *words], check=True, capture_output=True)
    git("init")
    for name in (".gitattributes", "packaging/container-entry", "debian/rules"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(paths.ROOT / name, tmp_path / name)
    git("add", ".")
    for script in ("packaging/container-entry", "debian/rules"):
        (tmp_path / script).unlink()
        git("checkout", "--", script)
        assert (tmp_path / script).read_bytes() == (paths.ROOT / script).read_bytes()
