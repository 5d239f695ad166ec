# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib exec ends its command in the guest when a signal ends ./pib exec, or when its output is closed."""

import contextlib
import os
import pathlib
import pty
import signal
import subprocess
import sys

import pytest

from lab.base import paths, ui, waiting
from lab.guests import guest, relay

ATTACH = """
import pathlib, sys
from lab.base import signals
from lab.guests import guest
signals.raise_on_end()
directory = pathlib.Path(sys.argv[1])
one = guest.Guest("vm0", 1, directory / "key", directory / "vm0.ssh", directory / "log")
sys.exit(one.attach(sys.argv[2:], terminal=False))
"""


BACKGROUND = """
import pathlib, subprocess, sys
from lab.guests import relay
pathlib.Path("/proc/self/comm").write_text(sys.argv[1])     # this process leads the session
print("in front", relay.in_background(), flush=True)
subprocess.run([sys.executable, "-c", "from lab.guests import relay; behind = relay.in_background(); "
                "print('behind', behind, relay.run(['cat']) if behind else '')"], process_group=0)
"""


@pytest.fixture
def attach(tmp_path, monkeypatch):
    """Runs a command by attach() in a process of its own; its guest is this machine."""
    end = paths.ROOT / "lab/guests/files/rootfs/usr/local/lib/lab/end"
    monkeypatch.setenv("PATH", f"{pathlib.Path(__file__).parents[1] / 'programs'}:{os.environ['PATH']}")
    code = ATTACH.replace("signals.raise", f"guest.END = {str(end)!r}\nsignals.raise")

    def start(*command, **options):
        return subprocess.Popen([sys.executable, "-c", code, tmp_path, *command], cwd=paths.ROOT,
                                stdin=subprocess.DEVNULL, **options)
    return start


def runs(marker):
    done = subprocess.run(["pgrep", "-f", f"^sleep {marker}"], capture_output=True, check=False)
    return done.returncode == 0


def test_the_status_is_returned_by_a_server_that_makes_a_session():
    """Some ssh servers let the command lead a session. setsid then starts another process, and has to wait for it."""
    line = guest._with_token("exit 7", "token")             # pylint: disable=protected-access
    assert subprocess.run(["sh", "-c", line], check=False, start_new_session=True).returncode == 7


def test_streams_and_status_are_passed_through(attach):
    one = attach("echo out; echo err >&2; exit 7", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert one.communicate(timeout=60) == (b"out\n", b"err\n") and one.returncode == 7


@pytest.mark.parametrize("leader, wanted", [("bash", "behind True 0"), ("sudo", "behind False ")])
def test_a_job_in_the_background_takes_no_keys_from_the_one_in_front(leader, wanted):
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(paths.ROOT)
        os.execv(sys.executable, [sys.executable, "-c", BACKGROUND, leader])
    said = b""
    with contextlib.suppress(OSError):      # EIO: the last program has ended
        while part := os.read(terminal, 4096):
            said += part
    os.close(terminal)
    assert os.waitpid(child, 0)[1] == 0
    lines = said.decode().split("\r\n")
    assert lines[0] == "in front False" and lines[1].startswith(wanted), said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_and_its_children(attach, number):
    marker = f"43210.{os.getpid()}{number.value}"
    one = attach(f"(sleep {marker} & wait) & sleep {marker}")
    waiting.poll("the command", lambda: runs(marker), 60)
    one.send_signal(number)
    assert one.wait(60) != 0
    waiting.poll("its end", lambda: not runs(marker), 60)


def test_a_closed_output_ends_the_command(attach):
    marker = f"43211.{os.getpid()}"
    one = attach(f"echo y; sleep {marker}; true", stdout=subprocess.PIPE)
    assert one.stdout.readline() == b"y\n"
    one.stdout.close()
    assert one.wait(60) == relay.NOT_READ
    waiting.poll("its end", lambda: not runs(marker), 60)


def test_background_processes_of_a_command_survive_it(attach):
    marker = f"43212.{os.getpid()}"
    one = attach(f"sleep {marker} >/dev/null 2>&1 &", stdout=subprocess.PIPE)
    assert one.wait(60) == 0 and runs(marker)
    subprocess.run(["pkill", "-f", f"^sleep {marker}"], check=True)


def test_a_started_command_is_ended(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{pathlib.Path(__file__).parents[1] / 'programs'}:{os.environ['PATH']}")
    monkeypatch.setattr(guest, "END", str(paths.ROOT / "lab/guests/files/rootfs/usr/local/lib/lab/end"))
    one = guest.Guest("vm0", 1, tmp_path / "key", tmp_path / "vm0.ssh", tmp_path / "log")
    marker = f"43213.{os.getpid()}"
    started = one.start([f"trap '' TERM; sleep {marker} & sleep {marker}"])
    waiting.poll("the command", lambda: runs(marker), 60)
    started.end()
    assert started.returncode is not None and not runs(marker)


def test_commands_of_a_guest_that_does_not_answer_end_on_this_machine(tmp_path, monkeypatch, capfd):
    """The guest's kernel may have died. attach() still raises the user's interrupt, which also ends other commands."""
    monkeypatch.setenv("PATH", f"{pathlib.Path(__file__).parents[1] / 'programs'}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SSH", "hangs")
    monkeypatch.setattr(guest, "END_S", 0.2)
    one = guest.Guest("vm0", 1, tmp_path / "key", tmp_path / "vm0.ssh", tmp_path / "log")
    started = one.start(["true"])
    started.end()
    assert started.returncode is not None
    assert "vm0 does not answer" in capfd.readouterr().err

    def interrupt(_argv):
        raise KeyboardInterrupt
    monkeypatch.setattr(relay, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        one.attach(["true"], terminal=False)


def test_two_commands_open_one_connection(tmp_path, monkeypatch):
    """The first command opens the connection while the other waits."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ssh").write_text(f"""#!/bin/sh
case "$*" in *" -M "*) echo opened >>{tmp_path}/opened; sleep 0.2; : >{tmp_path}/vm0.ssh ;; esac
""")
    (tools / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    code = ATTACH.replace("sys.exit(one.attach(sys.argv[2:], terminal=False))", "one.connect()")
    both = [subprocess.Popen([sys.executable, "-c", code, tmp_path], cwd=paths.ROOT) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    assert (tmp_path / "opened").read_text() == "opened\n"


def test_a_guest_that_does_not_answer_is_reported_with_sshs_message(tmp_path, monkeypatch):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ssh").write_text("#!/bin/sh\necho Connection refused >&2\nexit 255\n")
    (tools / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr(guest, "CONNECT_S", 0)
    one = guest.Guest("vm0", 1, tmp_path / "key", tmp_path / "vm0.ssh", tmp_path / "log")
    with pytest.raises(ui.LabError, match="vm0: not ready .*Connection refused"):
        one.connect()


def test_an_attempt_that_hangs_is_made_again(tmp_path, monkeypatch):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ssh").write_text(f"#!/bin/sh\n[ -e {tmp_path}/tried ] || {{ : >{tmp_path}/tried; exec sleep 1000; }}\n")
    (tools / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr(guest, "ATTEMPT_S", 0.2)
    guest.Guest("vm0", 1, tmp_path / "key", tmp_path / "vm0.ssh", tmp_path / "log").connect()
    assert (tmp_path / "tried").exists()
