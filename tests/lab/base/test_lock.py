# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks between ./pib commands, on a full disk and with names in another encoding."""

import os
import resource
import sys

import pytest

from checkouts import pib
from lab.base import lock
from lab.build import cache


def full_disk():
    """No file of this process can grow, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.parametrize("words, said", [(["down"], "nothing ran\n"), (["clean", "--all"], "freed 0.0 MB: old\n")])
def test_commands_that_free_a_full_disk_take_their_locks(checkout, tmp_path, words, said):
    (tmp_path / "pib-hca" / "old").mkdir(parents=True)
    done = pib(checkout, *words, preexec_fn=full_disk, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "") and said in done.stdout


def test_a_command_with_a_word_that_is_not_utf_8_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pib", "up", "--share", os.fsdecode(b"/b\xfccher")])
    monkeypatch.setattr(lock.groups.RUNNING, "check", lambda: pytest.fail("waited"))
    with lock.held(tmp_path / "lock"), open(tmp_path / "lock", "a+", encoding="utf-8") as other:
        with pytest.raises(pytest.fail.Exception):
            lock._take(other)
    assert f"process {os.getpid()}, ./pib up --share" in capsys.readouterr().err


@pytest.mark.parametrize("take", [lock.held, lambda path: lock.alone(path, "one at a time"),
                                  lambda path: cache._taken(path)])     # pylint: disable=protected-access
@pytest.mark.parametrize("before", [None, 0o644])
def test_another_user_cannot_open_the_file_of_a_lock(tmp_path, take, before):
    """flock(2) locks a file that is open only for reading."""
    file = tmp_path / "lock"
    if before:
        file.touch()
        file.chmod(before)
    with take(file):
        assert file.stat().st_mode & 0o777 == 0o600
