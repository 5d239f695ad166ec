# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab itself: commands in guests, names, modules that udev has loaded."""

import dataclasses
import hashlib
import os
import pty
import random
import signal
import subprocess
import sys

import pytest

import diags
from lab import reach
from lab.base import paths
from lab.fabric import counters
from rdma import sh, switch_port, wait_active, wait_until
from test_rdmacm import pair

# Runs a command as ./pib exec does; arguments: the fields of a Guest, whether with a terminal, and a command.
ATTACH = """
import pathlib, sys
from lab.base import signals
from lab.guests.guest import Guest
signals.raise_on_end()
name, port, key, control, log, terminal, *command = sys.argv[1:]
sys.exit(Guest(name, int(port), *map(pathlib.Path, (key, control, log))).attach(command, terminal=terminal == "t"))
"""


def test_streams_and_status_are_passed_through(vm0):
    done = vm0.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_the_disk_has_no_initramfs(vm0):
    """Guests boot with the lab's own initramfs; making Debian's would take a long time."""
    files = vm0.run(["ls", "/boot"]).stdout.decode()
    assert "vmlinuz-" in files and "initrd" not in files


def test_words_arrive_as_they_are(vm0):
    words = ["a b", "c'd", '"', "$HOME", "*", ""]
    assert vm0.run(["printf", "%s|", *words]).stdout.decode() == "".join(f"{w}|" for w in words)


def test_standard_input_is_binary_safe(vm0):
    data = random.Random(1).randbytes(1 << 20)
    out = vm0.run(["sha256sum"], stdin=data).stdout.decode()
    assert out.split()[0] == hashlib.sha256(data).hexdigest()


def test_commands_run_at_the_same_time(vm0):
    """Each of eight commands waits until all others have started."""
    vm0.run(["rm", "-rf", "/tmp/meet"])
    vm0.run(["mkdir", "/tmp/meet"])
    started = [vm0.start([f"touch /tmp/meet/{i}; until [ $(ls /tmp/meet | wc -l) = 8 ]; "
                          "do sleep 0.1; done; echo met"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for i in range(8)]
    assert [one.communicate(timeout=120)[0] for one in started] == [b"met\n"] * 8


def test_guests_know_each_other_by_name(nodes):
    for node in nodes:
        for other in nodes:
            assert node.run(["ping", "-c", "1", "-W", "10", other.name]).returncode == 0


def test_udev_has_loaded_the_modules(nodes):
    for node in nodes:
        # Checks the files that the modules create, because a kernel may have the modules built in.
        made = node.run(["ls /dev/infiniband /sys/class/net"]).stdout.decode().split()
        for module, name in (("ib_uverbs", "uverbs0"), ("ib_umad", "issm0"), ("rdma_ucm", "rdma_cm"),
                             ("ib_ipoib", "ib0")):
            assert name in made, f"{module} is not loaded in {node.name}"


def attach(guest, *command, terminal="", **options):
    fields = [str(field) for field in dataclasses.astuple(guest)]
    return subprocess.Popen([sys.executable, "-c", ATTACH, *fields, terminal, *command], cwd=paths.ROOT, **options)


def test_ip_over_infiniband_is_there_from_the_first_moment(nodes):
    """Programs that resolve names by rdma_cm work without any preparation."""
    for node in nodes:
        for other in nodes:
            sh(node, f"ping -c 1 -W 10 {other.name}-ib")
    pair(nodes[0], nodes[1], "rping -s -a vm0-ib -C 5", "rping -c -a vm0-ib -V -C 5")


def test_guests_reach_each_other_by_ssh(vm0, vm1):
    """ssh asks neither for a password nor about the host's key."""
    for node, other, name in ((vm0, "vm1", "vm1"), (vm1, "vm0", "vm0"), (vm0, "vm1-ib", "vm1"),
                              (vm0, "192.168.213.2", "vm1"), (vm0, "192.168.214.2", "vm1"), (vm1, "localhost", "vm1")):
        assert sh(node, f"ssh {other} hostname").split() == [name]


def test_files_go_into_guests_and_come_back(lab, vm0, vm1, tmp_path):
    """Copies a tree with a program from here to a guest, to the other guest, and back."""
    data = random.Random(2).randbytes(1 << 20)
    (tmp_path / "a tree").mkdir()
    (tmp_path / "a tree" / "data").write_bytes(data)
    (tmp_path / "a tree" / "program").write_text("#!/bin/sh\necho from the host\n")
    (tmp_path / "a tree" / "program").chmod(0o755)
    for node in (vm0, vm1):
        sh(node, "rm -rf /tmp/copied /tmp/copied-on")
    assert reach.copy(lab, [str(tmp_path / "a tree"), "vm0:/tmp/copied"]) == 0
    assert reach.copy(lab, ["vm0:/tmp/copied", "vm1:/tmp/copied-on"]) == 0
    assert reach.copy(lab, ["vm1:/tmp/copied-on", str(tmp_path / "back")]) == 0
    assert sh(vm1, "/tmp/copied-on/program") == "from the host\n"
    assert (tmp_path / "back" / "data").read_bytes() == data
    assert reach.copy(lab, ["vm1:/tmp/not-there", str(tmp_path)]) != 0


def test_a_command_in_all_guests(lab, nodes, capfdbinary):
    assert reach.exec_all(lab, ["hostname"]) == 0
    assert sorted(capfdbinary.readouterr().out.split()) == sorted(
        word.encode() for node in nodes for word in (f"{node.name}:", node.name))


def test_error_counters_are_cleared(lab, vm0, vm1, capfd):
    """After a link was down, clears the counters as ./pib up does at its end."""
    port = switch_port(lab, vm1)
    lab.switch().ctl("link", port, "down")
    lab.switch().ctl("link", port, "up")
    wait_active(vm1)
    assert "LinkDowned" in sh(vm0, "ibqueryerrors", check=False)[1]
    with diags.quiet((vm0, vm1)):
        counters.clear_errors(vm0, 0)
        assert "not every error counter" not in capfd.readouterr().err
        said = sh(vm0, "ibqueryerrors")
    assert "GUID" not in said and "0 bad found" in said.replace(" nodes", ""), said


def runs(guest, line):
    return line in sh(guest, "ps -eo args")


def wait_gone(guest, line):
    """Waits until no process shows the line. A killed process shows it until its parent has reaped it."""
    wait_until(lambda: not runs(guest, line), f"the end of {line}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_ends_with_the_one_that_attached_it(vm0, number):
    line = f"sleep 4321.{number.value}"
    one = attach(vm0, *line.split(), stdin=subprocess.DEVNULL)
    wait_until(lambda: runs(vm0, line), line)
    one.send_signal(number)
    assert one.wait(60) != 0
    wait_gone(vm0, line)


def test_a_command_ends_when_its_output_has_no_reader(vm0):
    one = attach(vm0, "yes", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert one.stdout.readline() == b"y\n"
    one.stdout.close()
    assert one.wait(60) != 0
    wait_gone(vm0, "yes")


def test_a_terminal_is_known_in_the_guest_and_hands_on_ctrl_c(vm0):
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-kitty"}
    one = attach(vm0, "tty; echo $TERM; exec sleep 9876", terminal="t", stdin=theirs, stdout=theirs, stderr=theirs,
                 env=env)
    os.close(theirs)
    said = b""
    while b"xterm-256color" not in said:
        said += os.read(ours, 1000)
    assert b"/dev/pts/" in said
    wait_until(lambda: runs(vm0, "sleep 9876"), "the command")
    os.write(ours, b"\x03")
    assert one.wait(60) != 0
    wait_gone(vm0, "sleep 9876")
    os.close(ours)
