# SPDX-License-Identifier: GPL-2.0-or-later
"""A failed command prints one sentence; a command whose output is closed ends quietly."""

import contextlib
import os
import pathlib
import select
import signal
import subprocess
import sys
import threading

import pytest

from checkouts import pib
from lab.base import errors, paths, signals, ui, waiting


@pytest.mark.parametrize("error, expected", [
    (ui.LabError("say this"), "say this"),
    (subprocess.TimeoutExpired(["ssh", "x"], 30), "ssh did not end within 30 s. What runs:  ./pib status"),
    (subprocess.CalledProcessError(2, ["cpio"], stderr=b"no room\n"), "cpio failed (status 2): no room"),
    (FileNotFoundError(2, "No such file or directory", "x/map.svg"), "x/map.svg: No such file or directory"),
    (OSError(28, "No space left on device"), "No space left on device"),
])
def test_a_failure_is_a_sentence(error, expected):
    assert errors.sentence(error) == expected


@pytest.mark.parametrize("word, said", [
    ("statsu", "pib: error: statsu is not a command; maybe status. All commands:  ./pib help\n"),
    ("stat'us", 'pib: error: "stat\'us" is not a command; maybe status. All commands:  ./pib help\n'),
    ("it's \"so\"", "pib: error: 'it\\'s \"so\"' is not a command. All commands:  ./pib help\n"),
    ("frobnicate", "pib: error: frobnicate is not a command. All commands:  ./pib help\n")])
def test_a_word_that_is_not_a_command_is_refused_in_one_line(checkout, word, said):
    done = pib(checkout, word)
    assert done.returncode == 2 and done.stderr.endswith(f"COMMAND ...\n{said}")


def test_a_failing_program_is_shown_without_earlier_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUN", tmp_path)
    ui.run("one", ["echo", "earlier words"], "steps")
    with pytest.raises(ui.LabError, match="another: failed .status 3.\nlater words\n") as failed:
        ui.run("another", ["sh", "-c", "echo later words; exit 3"], "steps")
    assert "earlier" not in str(failed.value) and "earlier" in (tmp_path / "log" / "steps.log").read_text()


def test_the_owner_of_files_made_by_sudo_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    said = errors.sentence(PermissionError(13, "Permission denied", str(tmp_path)))
    assert said.startswith(f"{tmp_path}: Permission denied") and "chown" in said


def test_chown_is_not_advised_for_files_outside_the_lab(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert errors.sentence(PermissionError(13, "Permission denied", "/etc/shadow")) == "/etc/shadow: Permission denied"


def test_an_internal_error_names_pib_debug(checkout):
    (checkout / "lab" / "status.py").write_text(
        "def status(_lab):\n    return {}['x']\n\n\ndef down(_every):\n    return 0\n")
    done = pib(checkout, "status")
    assert done.returncode == 1 and done.stderr.startswith("pib: this is a mistake in pib: KeyError")
    assert "PIB_DEBUG=1" in done.stderr and "Traceback" not in done.stderr
    assert "Traceback" in pib(checkout, "status", env={**os.environ, "PIB_DEBUG": "1"}).stderr


def test_a_directory_of_another_user_is_named(checkout):
    if os.getuid() == 0:
        pytest.skip("root may write everywhere")
    checkout.chmod(0o500)
    assert "Permission denied" in pib(checkout, "status").stderr


@pytest.mark.parametrize("words", [["status"], ["--help"], ["topology", "fat-tree"]])
def test_a_closed_output_is_not_reported(checkout, words):
    there, here = os.pipe()
    os.close(there)
    with open(here, "wb") as closed:
        done = pib(checkout, *words, capture_output=False, stdout=closed, stderr=subprocess.PIPE)
    assert done.returncode == errors.NOT_READ and done.stderr == ""


def test_a_full_disk_is_reported(checkout):
    with open("/dev/full", "wb") as full:
        done = pib(checkout, "topology", "fat-tree", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1 and done.stderr.startswith("pib: ") and "No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_no_other_file_gets_the_number_of_a_closed_stream(checkout, stream):
    """Otherwise the next file that is opened gets the number, and output goes there: to a lock, to a guest's disk."""
    (checkout / "lab" / "status.py").write_text(
        "import os, sys\nfrom lab.base import ui\n\n\ndef status(_lab):\n    ui.say('told')\n"
        "    with open('/etc/hostname') as file:\n        print(file.fileno() > 2, sys.stdout.fileno(), flush=True)\n"
        "    return 0\n\n\ndef down(_every):\n    return 0\n")
    done = subprocess.run(["sh", "-c", f"exec {checkout}/pib status {stream}>&-"], capture_output=True, text=True,
                          check=False)
    assert (done.returncode, done.stdout) == (0, "" if stream == 1 else "True 1\n")
    assert "told" in done.stderr or stream == 2


LATIN_1 = """import sys
sys.stdout.reconfigure(encoding="latin-1")
sys.path.insert(0, sys.argv.pop(1))
from lab import __main__
sys.exit(__main__.main())"""


def test_a_locale_without_the_characters_is_not_a_failure(checkout):
    (checkout / "lab" / "status.py").write_text(
        "def status(_lab):\n    print('────')\n    return 0\n\n\ndef down(_every):\n    return 0\n")
    done = subprocess.run([sys.executable, "-I", "-B", "-c", LATIN_1, checkout, "status"],
                          capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"????\n"), done.stderr.decode()


@pytest.mark.parametrize("words, said", [
    (["metrics", "--port", "99999"], "--port 99999: expected 1 to 65535"),
    (["up", "--memory", "32"], "--memory 32: expected at least 256"),
    (["up", "-n", "0"], "--nodes 0: expected 1 to 32")])
def test_a_number_out_of_range_is_reported(checkout, words, said):
    done = pib(checkout, *words)
    assert (done.returncode, done.stderr) == (1, f"pib: {said}\n")


def test_the_exit_status_names_the_signal():
    assert errors.status(KeyboardInterrupt()) == 130
    assert errors.status(signals.Stopped(signal.SIGTERM)) == 143


def test_text_for_terminals_has_no_control_characters(tmp_path):
    log = pathlib.Path(tmp_path / "log")
    log.write_bytes(b"x" * (1 << 20) + b"\none\n\x1b[2Jtwo\xff\n")
    assert ui.tail(log, 2) == "one\ntwo�"
    assert ui.tail(tmp_path / "none") == ""


def test_output_to_a_non_blocking_pipe_is_written_whole():
    """ssh, node and others set this mode of a pipe or terminal, which all of its users share."""
    there, here = os.pipe()
    os.set_blocking(here, False)
    probe = os.dup(here)
    text = bytes(range(256)) * 4096

    def write():
        with os.fdopen(here, "wb"), contextlib.suppress(OSError):
            ui.write(here, text)
    writer = threading.Thread(target=write)
    writer.start()
    waiting.poll("a full pipe", lambda: not select.select([], [probe], [], 0)[1], 60)
    os.close(probe)
    with open(there, "rb") as file:
        found = file.read()
    writer.join()
    assert found == text


def test_the_size_of_a_log_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(ui.paths, "RUN", tmp_path)
    monkeypatch.setattr(ui, "LOG_BYTES", 10)
    for _ in range(5):
        ui.log_path("x").open("a").write("12345678")
    assert sum(path.stat().st_size for path in (tmp_path / "log").iterdir()) <= 32


@pytest.mark.parametrize("words", [["clean"], ["help"], ["--version"], ["topology", "--help"],
                                   ["topology", "fat-tree"], ["ssh-config", "--help"]])
def test_output_that_cannot_be_written_is_one_line_and_a_failure(words, tmp_path):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([paths.ROOT / "pib", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                              env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    assert (done.returncode, done.stderr) == (1, "pib: No space left on device\n")
