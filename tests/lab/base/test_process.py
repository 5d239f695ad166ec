# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes that outlive the command that has started them."""

import fcntl
import os
import pathlib
import signal
import sys
import threading
import time

import pytest

from lab.base import process, ui

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('up', flush=True)
time.sleep(1000)
"""


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(*argv):
        started.append(process.start(list(argv), tmp_path / "log", directory=tmp_path, name="one"))
        return started[-1]
    yield begin
    for one in started:
        one.stop()


def test_a_recycled_process_number_is_not_ours(start):
    ours = start("sleep", "1000")
    assert ours.alive()
    other = process.Process(ours.pid, ours.started + 1)
    assert not other.alive() and other.stop() and ours.alive()
    assert ours.stop() and not ours.alive()


def test_a_process_that_ignores_the_first_signal_is_killed(start, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "STOP_S", 1)
    stubborn = start(sys.executable, "-c", STUBBORN)
    process.wait_for("it", lambda: (tmp_path / "log").read_text(), stubborn, tmp_path / "log", 60)
    assert stubborn.stop(signal.SIGTERM) and not stubborn.alive()


def test_a_process_that_cannot_be_ended_is_reported(start, monkeypatch):
    def refused(*_):
        raise PermissionError
    ours = start("sleep", "1000")
    with monkeypatch.context() as patched:
        patched.setattr(signal, "pidfd_send_signal", refused)
        assert not ours.stop()


def test_a_process_is_marked_with_its_lab(start, tmp_path):
    ours = start("sleep", "1000")
    assert (tmp_path, "one", ours) in list(process.marked())


def test_the_mark_of_a_new_process_is_readable_at_once(start):
    """execve() may write the environment after Popen() has returned: one of about fifty reads came too early."""
    for _ in range(300):
        ours = start("sleep", "1000")
        assert f"{process.MARK}=".encode() in pathlib.Path(f"/proc/{ours.pid}/environ").read_bytes()
        assert ours.stop(signal.SIGKILL)


def test_a_process_that_ends_is_reported_with_its_output(start, tmp_path):
    ended = start("sh", "-c", "echo no such thing")
    with pytest.raises(ui.LabError, match="(?s)ended after .*no such thing"):
        process.wait_for("it", lambda: False, ended, tmp_path / "log", 60)


def test_a_process_without_output_is_reported(start, tmp_path):
    with pytest.raises(ui.LabError, match="nothing is in"):
        process.wait_for("it", lambda: False, start("true"), tmp_path / "log", 60)


def test_only_the_owner_reads_the_log_of_a_process(start, tmp_path):
    start("true")
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_a_cleaner_of_old_files_skips_the_directory_of_a_running_process(start, tmp_path):
    """A cleaner such as systemd-tmpfiles takes an exclusive lock of each directory."""
    ours = start("sleep", "1000")
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert ours.stop()
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(directory)


# -- processor time --------------------------------------------------------------------

PATIENCE_S = 60


@pytest.mark.parametrize("seconds, which", [(process.cpu_s, os.getpid()),
                                            (process.thread_cpu_s, threading.get_native_id())])
def test_processor_time_grows(seconds, which):
    first, end = seconds(which), time.monotonic() + PATIENCE_S
    while seconds(which) <= first:
        assert time.monotonic() < end
    assert seconds(2 ** 22 + 1) == 0


def test_processor_time_of_a_thread_is_not_that_of_its_process():
    """The other thread has not worked, its process has."""
    ended, waits = threading.Event(), threading.Thread(target=lambda: ended.wait())
    waits.start()
    end = time.monotonic() + PATIENCE_S
    while process.cpu_s(os.getpid()) < 0.1:
        assert time.monotonic() < end
    assert process.thread_cpu_s(waits.native_id) < 0.1
    ended.set()
    waits.join()
