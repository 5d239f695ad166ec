# SPDX-License-Identifier: GPL-2.0-or-later
"""A signal to ./pib up ends its guests at any time before they form a subnet, and a signal to any command ends the
program that the command is just starting."""

import os
import pty
import signal
import subprocess
import sys
import threading
import types

import pytest

from lab.base import paths, process, signals, ui, waiting
from lab.bench import bench_load, bench_web
from lab.fabric import cluster, switch_process, up
from lab.fabric.wanted import Wanted
from lab.guests import kvm, relay, vm

LIMIT_S = 60


def strays(lab):
    return sorted(name for directory, name, _ in process.marked() if directory == lab.directory)


@pytest.fixture(name="booting")
def _booting(fabric, monkeypatch):
    """A lab whose guests boot without a device, so that up waits for the subnet."""
    monkeypatch.setattr(ui, "HEARTBEAT_S", 0.2)
    return fabric


@pytest.fixture
def handled():
    """Signals as ./pib handles them; SIGINT as well, which a shell's background job ignores."""
    handlers = {ending: signal.getsignal(ending) for ending in signals.ENDING}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signals.raise_on_end()
    yield
    for ending, handler in handlers.items():
        signal.signal(ending, handler)


def boots(lab):
    return lambda: "vm0" in strays(lab) and lab.file.exists() and cluster.Cluster().record.ssh_ports


@pytest.mark.parametrize("number", signals.ENDING)
def test_a_signal_during_the_wait_for_the_subnet_ends_the_guests(booting, handled, capfd, number):
    def interrupt():
        waiting.poll("vm0", boots(booting), LIMIT_S)
        os.kill(os.getpid(), number)
    teller = threading.Thread(target=interrupt)
    teller.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            up.boot(booting, Wanted(1))
    finally:
        teller.join()
    assert not strays(booting) and not booting.file.exists()
    assert "ending what this command had started: hub, switch, vm0" in capfd.readouterr().err


def test_guests_of_an_earlier_command_stay(booting, handled, monkeypatch):
    monkeypatch.setattr(up, "make_subnet", lambda _lab: [])
    up.boot(booting, Wanted(1))
    before = strays(booting)

    def interrupt(_lab):
        assert strays(booting) == sorted([*before, "vm1"])
        raise KeyboardInterrupt
    monkeypatch.setattr(up, "make_subnet", interrupt)
    with pytest.raises(KeyboardInterrupt):
        up.boot(cluster.Cluster(), Wanted(2))
    assert strays(booting) == before == sorted(cluster.Cluster().state.processes)


def test_guests_stay_after_another_failure(booting, monkeypatch):
    def fail(_lab):
        raise ui.LabError("no port is ACTIVE")
    monkeypatch.setattr(up, "make_subnet", fail)
    with pytest.raises(ui.LabError, match="ACTIVE"):
        up.boot(booting, Wanted(1))
    assert strays(booting) == ["hub", "switch", "vm0"]


def test_a_closed_terminal_does_not_stop_the_ending(booting):
    """Ending continues although messages cannot be printed."""
    child, terminal = pty.fork()
    if not child:
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        signals.raise_on_end()
        try:
            up.boot(booting, Wanted(1))
        finally:
            os._exit(1)
    waiting.poll("vm0", boots(booting), LIMIT_S)
    os.close(terminal)
    os.waitpid(child, 0)
    assert not strays(booting) and not booting.file.exists()


SLEEP = ["sleep", "600"]


@pytest.fixture(name="begun")
def _begun(handled, monkeypatch, tmp_path):
    """SIGTERM arrives when a program runs and Popen() has not returned it yet. Yields the programs. QEMU, pib and
    pib-switch only sleep."""
    programs = []

    class Popen(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            programs.append(self)
            signal.raise_signal(signal.SIGTERM)
    script = tmp_path / "pib"
    script.write_text("#!/bin/sh\nexec sleep 600\n")
    script.chmod(0o755)
    monkeypatch.setattr(vm, "QEMU", str(script))
    monkeypatch.setattr(switch_process.Switch, "argv", lambda *_: SLEEP)
    for name in ("ROOT", "RUN", "BUILD"):
        monkeypatch.setattr(paths, name, tmp_path)
    monkeypatch.setattr(bench_load.bench_host, "FABRIC_LOAD", script.name)
    monkeypatch.setattr(subprocess, "Popen", Popen)
    yield programs
    for one in programs:
        one.kill()
        one.wait()


def _run_load(directory):
    with bench_load.Load(directory, 64):
        pass


def _send(directory):
    load = bench_load.Load(directory, 64)
    try:
        load.begin()
    finally:
        load.process = types.SimpleNamespace(stop=lambda: None)
        load.__exit__()


def _show_page(directory):
    with bench_web.shown(bench_load.Load(directory, 64)):
        pass


@pytest.mark.parametrize("start", [
    lambda _: ui.run("step", SLEEP, "x"), lambda _: ui.run("step", SLEEP, "x", stdin=subprocess.DEVNULL),
    lambda _: relay.run(SLEEP), lambda place: kvm._boot(place, place),      # pylint: disable=protected-access
    _run_load, _send, _show_page], ids=["step", "sudo", "exec", "kvm", "switch", "sender", "page"])
def test_a_signal_while_a_program_is_started_ends_it(begun, tmp_path, start):
    with pytest.raises(signals.Stopped):
        start(tmp_path)
    assert len(begun) == 1 and begun[0].poll() is not None
