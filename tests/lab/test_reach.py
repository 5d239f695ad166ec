# SPDX-License-Identifier: GPL-2.0-or-later
"""Many guests at once, copies of files, and the configuration for ssh. The guests are this machine."""

import contextlib
import dataclasses
import os
import re
import socket
import subprocess
import sys
import threading

import pytest

from checkouts import pib
from lab import reach
from lab.base import paths, ui
from lab.fabric.wanted import Wanted
from lab.guests import guest, vm

LIMIT_S = 60
EXEC_ALL = """
import pathlib, sys
from lab import reach
from lab.base import paths
from lab.fabric import cluster
from lab.guests import guest
guest.END = str(paths.ROOT / "lab/guests/files/rootfs/usr/local/lib/lab/end")
sys.exit(reach.exec_all(cluster.Cluster(pathlib.Path(sys.argv[1])), sys.argv[2:]))
"""


@pytest.fixture(name="two")
def _two(lab, monkeypatch):
    monkeypatch.setattr(guest, "END", str(paths.ROOT / "lab/guests/files/rootfs/usr/local/lib/lab/end"))
    lab.up(Wanted(2), [])
    return lab


def test_a_command_runs_in_all_guests(two, capfdbinary):
    assert reach.exec_all(two, ["sh", "-c", "printf 'a\\nb'; echo c >&2"]) == 0
    out, err = capfdbinary.readouterr()
    assert sorted(out.splitlines()) == [b"vm0: a", b"vm0: b", b"vm1: a", b"vm1: b"]
    assert sorted(line for line in err.splitlines() if line.endswith(b"c")) == [b"vm0: c", b"vm1: c"]


def test_a_line_without_an_end_is_printed_in_parts(two, capfdbinary):
    assert reach.exec_all(two, ["sh", "-c", f"yes | head -c {4 * reach.MOST_LINE} | tr '\\n' y"]) == 0
    lines = capfdbinary.readouterr().out.splitlines()
    assert len(lines) == 8 and {len(line) for line in lines} == {len("vm0: ") + reach.MOST_LINE}


def test_a_failure_in_one_guest_is_the_status(two, tmp_path):
    assert reach.exec_all(two, [f"mkdir {tmp_path}/only-one 2>/dev/null || exit 7"]) == 7
    assert reach.exec_all(two, ["true"]) == 0


def test_a_fault_of_a_kernel_is_reported_during_a_command(two, capfd):
    console = vm.Files("vm1", two.sockets()).console
    assert reach.exec_all(two, [f"echo '[ 9.0] BUG: mine' >>{console}"]) == 0
    assert re.search(r"(?s)the kernel of vm1 reports:.*BUG: mine.*pib reboot vm1", capfd.readouterr().err)


def test_commands_end_when_their_output_is_closed(two):
    with subprocess.Popen([sys.executable, "-c", EXEC_ALL, two.directory, "yes", "pib"], cwd=paths.ROOT,
                          stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as one:
        assert one.stdout.readline().endswith(b"pib\n")
        one.stdout.close()
        assert one.wait(LIMIT_S) == 141


def test_without_guests_no_command_runs(lab):
    for call in (lambda: reach.exec_all(lab, ["true"]), lambda: reach.ssh_config(lab)):
        with pytest.raises(ui.LabError, match="no guest runs"):
            call()


def understood(file, host):
    """A configuration as ssh understands it."""
    return subprocess.run(["/usr/bin/ssh", "-F", file, "-G", host], capture_output=True, text=True, check=True).stdout


def test_the_configuration_names_each_guest(two, tmp_path):
    said = reach.ssh_config(two)
    assert re.findall(r"^Host (\S+)$", said, re.MULTILINE) == ["vm0", "vm1"]
    file = tmp_path / "config"
    file.write_text(said)
    parsed = understood(file, "vm1")
    for line in ("hostname 127.0.0.1", "port 4321", "user root", f"identityfile {two.key()}",
                 f"controlpath {two.sockets()}/vm1.ssh", "batchmode yes"):
        assert line in parsed.splitlines()


def test_paths_with_unusual_characters_are_quoted(tmp_path):
    odd = tmp_path / "a b%h"
    one = guest.Guest("vm0", 1, odd / "key", odd / "vm0.ssh", odd / "log")
    file = tmp_path / "config"
    file.write_text(one.ssh_config())
    parsed = understood(file, "vm0")
    assert f"controlpath {odd}/vm0.ssh" in parsed.splitlines()


@pytest.mark.parametrize("name", ["a b%h", "branch%2Fx"])
def test_ssh_finds_socket_and_key_in_a_path_with_unusual_characters(tmp_path, name):
    """Jenkins names the workspace of the branch a/b  a%2Fb. If ssh expands that wrongly, it answers before it
    connects."""
    odd = tmp_path / name
    odd.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", odd / "key"], check=True)
    one = guest.Guest("vm0", 1, odd / "key", odd / "vm0.ssh", odd / "log")
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = dataclasses.replace(one, port=server.getsockname()[1])
        threading.Thread(target=_greet_and_hang_up, args=(server,), daemon=True).start()
        done = subprocess.run(["/usr/bin/ssh", "-v", *one.argv(["true"])[1:]], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False)
    assert f"identity file {odd}/key type" in done.stderr and "unknown key" not in done.stderr


def _greet_and_hang_up(server):
    with contextlib.suppress(OSError), server.accept()[0] as client:    # ssh may end before it connects
        client.sendall(b"SSH-2.0-Test\r\n")
        client.recv(1 << 16)


def test_files_are_copied_by_scp(two, tmp_path, monkeypatch, capfd):
    (tmp_path / "bin").mkdir()
    scp = tmp_path / "bin" / "scp"
    scp.write_text('#!/bin/sh\ngrep -c ^Host "$2"\nshift 2\necho "$@"\nexit 3\n')
    scp.chmod(0o755)
    monkeypatch.setenv("PATH", f"{scp.parent}:{os.environ['PATH']}")
    assert reach.copy(two, ["a b", "vm1:/tmp/"]) == 3
    assert capfd.readouterr().out.endswith("2\n-r -- a b vm1:/tmp/\n")
    assert reach.copy(two, ["run-10:30.log", "a/b:c", "/d:e", "vm0:f:g", "scp://h"]) == 3
    assert capfd.readouterr().out.endswith("2\n-r -- ./run-10:30.log ./a/b:c /d:e vm0:f:g ./scp://h\n")


@pytest.mark.parametrize("files, said", [(["a", "b"], "at least one of them in a guest"), (["vm0:a"], "a target"),
                                         (["vm7:a", "."], "vm7 is not running")])
def test_a_copy_without_a_guest_or_a_target_is_refused(two, files, said):
    with pytest.raises(ui.LabError, match=said):
        reach.copy(two, files)


@pytest.mark.parametrize("words", [["exec"], ["exec", "vm0"], ["exec", "--all"], ["exec", "--", "true"]])
def test_exec_without_a_command_is_refused(checkout, words):
    done = pib(checkout, *words)
    assert done.returncode == 1 and "no command, or no guest" in done.stderr


@pytest.mark.parametrize("words, said", [(["exec", "vm0", "--", "ls", "--all"], "vm0 is not running"),
                                         (["exec", "vm0", "ls"], "vm0 is not running"),
                                         (["exec", "--all", "--", "ls", "-l"], "no guest runs"),
                                         (["exec", "--all", "ls"], "no guest runs"), (["ssh-config"], "no guest runs")])
def test_the_command_line_is_parsed(checkout, words, said):
    done = pib(checkout, *words)
    assert done.returncode == 1 and said in done.stderr
