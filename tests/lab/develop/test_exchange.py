# SPDX-License-Identifier: GPL-2.0-or-later
"""Exchanges of drivers that fail: the guest's program with simulated modules, and what the lab restores afterwards."""

import contextlib
import pathlib
import subprocess
import sys

import pytest

from lab.base import paths, ui
from lab.build import kernel_module
from lab.develop import exchange, ipoib
from lab.fabric.wanted import Wanted

PROGRAM = paths.ROOT / "lab/guests/files/rootfs/usr/local/lib/lab/exchange"
# Stands for the programs of kmod, and for others that `exchange` calls. The file "stuck" names modules that cannot be
# unloaded, "broken" those that cannot be loaded, and "driver" the one that binds to the HCA. A line of "uses" names a
# module and the module that it uses.
KMOD = """#!{python} -IB
import os, pathlib, shutil, sys
top, name = pathlib.Path({top!r}), os.path.basename(sys.argv[0])
modules, hca = top / "sys/module", top / "sys/bus/pci/devices/hca/driver"
words = lambda file: (top / file).read_text().split()
uses = dict(line.split() for line in (top / "uses").read_text().splitlines())

def load(module, file):
    if module in words("broken"):
        sys.exit(f"{{name}}: cannot load {{module}}")
    (modules / module / "holders").mkdir(parents=True)
    if module in uses:
        if not (modules / uses[module]).exists():
            shutil.rmtree(modules / module)
            sys.exit(f"{{name}}: {{module}}: unknown symbol")
        (modules / uses[module] / "holders" / module).touch()
    if module in words("driver") and not hca.exists():
        hca.mkdir()
        (hca / "module").symlink_to(modules / module)
    (top / "loaded").open("a").write(f"{{module}} {{pathlib.Path(file).read_text()}}\\n")

def unload(module):
    if module in words("stuck") or list((modules / module / "holders").iterdir()):
        sys.exit(f"rmmod: {{module}} is in use")
    if (hca / "module").is_symlink() and (hca / "module").readlink() == modules / module:
        shutil.rmtree(hca)
    shutil.rmtree(modules / module)
    if module in uses:
        (modules / uses[module] / "holders" / module).unlink()

given = [word for word in sys.argv[1:] if word[0] != "-"]
if name == "rmmod":
    unload(given[0])
elif name == "insmod":
    load(pathlib.Path(given[0]).stem, given[0])
elif name == "modprobe":
    for module in given:
        file = top / "installed" / (module + ".ko")
        if not (modules / module).exists():
            load(module, file) if file.exists() else sys.exit(f"modprobe: FATAL: Module {{module}} not found.")
"""


class Modules:
    """A guest with one HCA."""

    def __init__(self, top):
        self.top = top
        for name in ("stuck", "broken", "uses", "loaded", "driver"):
            (top / name).write_text("")
        for name in ("bin", "installed", "sys/module", "sys/bus/pci/devices/hca", "run"):
            (top / name).mkdir(parents=True)
        for name, text in (("vendor", "0x1"), ("device", "0x2"), ("driver_override", "(null)")):
            (top / "sys/bus/pci/devices/hca" / name).write_text(f"{text}\n")
        for name in ("rmmod", "insmod", "modprobe", "modinfo", "fuser"):
            (top / "bin" / name).write_text(KMOD.format(python=sys.executable, top=str(top)))
            (top / "bin" / name).chmod(0o755)
        self.text = PROGRAM.read_text().replace("/sys/", f"{top}/sys/").replace("/run/", f"{top}/run/")
        self.set("driver", "core")
        self.set("uses", "ib core\nmine core\n")

    def set(self, name, text):
        (self.top / name).write_text(text)

    def exchange(self, version, *modules):
        """Returns the program's status, its output, and the loaded modules with their versions."""
        files = [self.top / version / f"{name}.ko" for name in modules]
        files[0].parent.mkdir(exist_ok=True)
        for file in files:
            file.write_text(version)
        done = subprocess.run(["sh", "-c", self.text, "exchange", "0x1", "0x2", *files], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={"PATH": f"{self.top}/bin:/usr/bin:/bin"})
        return done.returncode, done.stdout, self.running()

    def running(self):
        versions = dict(line.split() for line in (self.top / "loaded").read_text().splitlines())
        return {path.name: versions[path.name] for path in (self.top / "sys/module").iterdir()}


@pytest.fixture(name="guest")
def guest_with_a_driver_of_two_modules(tmp_path):
    guest = Modules(tmp_path)
    assert guest.exchange("old", "core", "ib") == (0, "", {"core": "old", "ib": "old"})
    return guest


def test_modules_of_a_driver_are_exchanged_together(guest):
    assert guest.exchange("new", "core", "ib") == (0, "", {"core": "new", "ib": "new"})


def test_modules_that_were_unloaded_before_one_that_is_in_use_are_loaded_again(guest):
    """The files of the new modules have the same names."""
    guest.set("installed/mine.ko", "mine")
    subprocess.run([guest.top / "bin" / "modprobe", "mine"], check=True)
    guest.set("stuck", "core")
    status, said, running = guest.exchange("new", "core", "ib")
    assert status == exchange.UNDONE and "rmmod: core is in use" in said
    assert running == {"core": "old", "ib": "old", "mine": "mine"}


def test_a_driver_whose_other_module_is_in_use_is_loaded_again(tmp_path):
    """No module of the driver uses the one that is in use, so the driver is unloaded before rmmod refuses that one."""
    guest = Modules(tmp_path)
    guest.set("stuck", "helper")
    guest.exchange("old", "core", "helper")
    status, said, running = guest.exchange("new", "core", "helper")
    assert status == exchange.UNDONE and "rmmod: helper is in use" in said
    assert running["core"] == running["helper"] == "old"


def test_a_driver_that_cannot_be_loaded_again_and_its_device_are_named(tmp_path):
    """The driver's author has loaded it with insmod."""
    guest = Modules(tmp_path)
    for name in ("core", "helper"):
        guest.set(f"{name}.ko", "own")
        subprocess.run([guest.top / "bin" / "insmod", guest.top / f"{name}.ko"], check=True)
    guest.set("stuck", "helper")
    status, said, running = guest.exchange("new", "core", "helper")
    assert status == exchange.UNDONE and running == {"helper": "own"}
    assert said.endswith("core is not loaded again\nhca has no driver\n")


def test_a_driver_stays_unchanged_if_no_module_was_unloaded(tmp_path):
    guest = Modules(tmp_path)
    guest.exchange("old", "core")
    guest.set("stuck", "core")
    status, said, running = guest.exchange("new", "core")
    assert status == exchange.UNCHANGED and "core is in use" in said and running == {"core": "old"}


def test_modules_that_used_the_driver_come_back_after_a_new_one_that_could_not_be_loaded(guest):
    guest.set("installed/mine.ko", "mine")
    subprocess.run([guest.top / "bin" / "modprobe", "mine"], check=True)
    guest.set("broken", "ib")
    assert guest.exchange("new", "core", "ib")[::2] == (3, {"core": "new"})
    guest.set("broken", "core")
    assert guest.exchange("new", "core", "ib")[::2] == (3, {})
    guest.set("broken", "")
    assert guest.exchange("newer", "core", "ib") == (0, "", {"core": "newer", "ib": "newer", "mine": "mine"})
    subprocess.run([guest.top / "bin" / "rmmod", "mine"], check=True)
    assert guest.exchange("newest", "core", "ib") == (0, "", {"core": "newest", "ib": "newest"})


def test_a_module_of_the_users_own_that_modprobe_does_not_find_is_named(guest):
    guest.set("mine.ko", "mine")
    subprocess.run([guest.top / "bin" / "insmod", guest.top / "mine.ko"], check=True)
    assert guest.exchange("new", "core", "ib") == (
        0, "not loaded again: mine, which used the former driver: modprobe: FATAL: Module mine not found.\n",
        {"core": "new", "ib": "new"})


# -- the lab ----------------------------------------------------------------------

IB0 = ipoib.Interface("ib0", True, 2044, "datagram", "", "0xffff", ("10.0.0.1/24",))


class Said:
    """Runs an exchange in vm0, whose program ends with a status and has an output. has_device: whether the guest has an
    InfiniBand device then. done: what was restored."""

    def __init__(self, lab, monkeypatch):
        lab.up(Wanted(1), [])
        self.lab, self.done, self.has_device, self.fails = lab, [], True, []
        monkeypatch.setattr(exchange.Guest, "run", self._run)
        monkeypatch.setattr(exchange.ipoib, "look", lambda _node: ([IB0], []))
        monkeypatch.setattr(exchange, "_manager", lambda _node: ["opensm", "-B"])
        monkeypatch.setattr(exchange, "_messages", lambda *_: "")
        monkeypatch.setattr(exchange, "_restart_manager", lambda _node, words: self.done.append(words[0]))
        monkeypatch.setattr(exchange.ipoib, "restore", self._restore)
        self._monkeypatch = monkeypatch

    def _run(self, command, **_):
        answer = self.has_device and command[0].startswith(ipoib.IF_ANY)
        return subprocess.CompletedProcess(command, int(answer), b"", b"")

    def _restore(self, _node, interfaces, _routes):
        self.done += [found.name for found in interfaces]
        for error in self.fails:
            raise error
        return ""

    def exchange(self, status, said="", modules=()):
        self._monkeypatch.setattr(exchange, "_run", lambda *_: (status, said))
        return exchange.exchange(self.lab, "vm0", kernel_module.Compiled(pathlib.Path("/x"), "/x", [*modules]))


@pytest.fixture(name="said")
def exchange_with_a_simulated_program(lab, monkeypatch):
    return Said(lab, monkeypatch)


@pytest.mark.parametrize("status", [3, 4, 5, 6])
def test_after_a_failure_addresses_and_manager_are_those_of_before(said, status):
    with pytest.raises(ui.LabError, match="a reason\n.*pib (driver|reboot)|a reason\n\n.*pib (driver|reboot)"):
        said.exchange(status, "a reason")
    assert said.done == ["opensm", "ib0"]


@pytest.mark.parametrize("status, has_device", [(exchange.UNCHANGED, True), (3, False), (4, False)])
def test_a_failure_that_left_all_or_no_device_restores_nothing(said, status, has_device):
    said.has_device = has_device
    with pytest.raises(ui.LabError, match="a reason"):
        said.exchange(status, "a reason")
    assert said.done == []


@pytest.mark.parametrize("fails", [ui.LabError("no"), subprocess.TimeoutExpired(["ssh"], 120)])
def test_the_failure_is_told_although_nothing_can_be_restored(said, capfd, fails):
    said.fails = [fails]
    with pytest.raises(ui.LabError, match="a reason"):
        said.exchange(6, "a reason")
    assert "vm0: IPoIB and the subnet manager are not restored" in capfd.readouterr().err


def test_modules_that_are_not_loaded_again_are_named(said, capfd):
    said.exchange(0, f"modprobe: noise\n{exchange.LOST}mine, which used the former driver: why\n")
    told = capfd.readouterr().err
    assert "vm0: not loaded again: mine" in told and "./pib shell vm0" in told and "noise" not in told
    assert said.done == ["opensm", "ib0"]


@pytest.mark.parametrize("status", [0, exchange.UNCHANGED, 3, exchange.UNDONE])
def test_symbols_are_those_of_the_driver_that_is_loaded(said, tmp_path, status):
    """./pib gdb, crash and reports read them."""
    kept = said.lab.symbols("vm0")
    kept.mkdir(parents=True)
    (kept / "core.ko").write_text("old")
    for name in ("core.ko", "more-of-it.ko"):
        (tmp_path / name).write_text("new")
    modules = [kernel_module.Module(tmp_path / name, tmp_path / name, (), ()) for name in ("core.ko", "more-of-it.ko")]
    with pytest.raises(ui.LabError) if status else contextlib.nullcontext():
        said.exchange(status, modules=modules)
    found = {file.name: file.read_text() for file in kept.glob("*.ko")}
    is_old = status in (exchange.UNCHANGED, exchange.UNDONE)
    assert found == ({"core.ko": "old"} if is_old else {"core.ko": "new", "more_of_it.ko": "new"})


def test_symbols_stay_if_the_guest_does_not_take_the_modules(said, monkeypatch, tmp_path):
    def full(*_):
        raise ui.LabError("no space")
    monkeypatch.setattr(exchange, "_put", full)
    (tmp_path / "core.ko").write_text("new")
    with pytest.raises(ui.LabError, match="no space"):
        said.exchange(0, modules=[kernel_module.Module(tmp_path / "core.ko", tmp_path / "core.ko", (), ())])
    assert not said.lab.symbols("vm0").exists()
