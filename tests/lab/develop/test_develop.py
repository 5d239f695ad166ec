# SPDX-License-Identifier: GPL-2.0-or-later
"""Directories with drivers, their modules, addresses of interfaces, and reports of kernels, without a guest."""

import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading

import pytest

from lab import __main__ as command_line
from lab.base import paths, ui, waiting
from lab.build import builder, kernel_module, symbols
from lab.develop import commands, exchange, ipoib, watch
from lab.fabric import cluster, report, subnet
from lab.fabric.wanted import Wanted

ALIAS = "pci:v00001234d00001B0Csv*sd*bc*sc*i*"
LOCKUP = "watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [insmod:380]"
OOPS = """\
[   12.1] pci 0000:01:00.0: faulty has found the HCA
[   12.2] BUG: kernel NULL pointer dereference, address: 0000000000000000
[   12.2] Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI
[   12.2] RIP: 0010:work+0x4/0x10 [example]
[   12.2]  outer+0x9/0x20 [example]
[   12.2]  local_pci_probe+0x42/0x80
[   12.3] ---[ end trace 0000000000000000 ]---
[   12.4] something else
"""


# -- directories and modules ----------------------------------------------------

def module(name, depends=(), aliases=()):
    return kernel_module.Module(pathlib.Path(f"{name}.ko"), pathlib.Path(f"{name}.ko"), tuple(depends), tuple(aliases))


def test_without_a_directory_the_driver_is_that_of_the_checkout():
    assert kernel_module.directory(None) == paths.ROOT / "guest-driver"


@pytest.mark.parametrize("made, said", [(False, "no such directory"), (True, "no Kbuild and no Makefile")])
def test_a_directory_without_a_driver_is_refused(tmp_path, made, said):
    where = tmp_path / "driver"
    if made:
        where.mkdir()
    with pytest.raises(ui.LabError, match=said):
        kernel_module.directory(where)


def test_the_hardware_interface_beside_a_driver_is_its_own(tmp_path):
    (tmp_path / "driver").mkdir()
    assert kernel_module.common(tmp_path / "driver") == paths.ROOT / "hw-interface"
    (tmp_path / "hw-interface").mkdir()
    assert kernel_module.common(tmp_path / "driver") == tmp_path / "hw-interface"


@pytest.mark.parametrize("alias, binds", [
    (ALIAS, True), ("pci:v*d*sv*sd*bc0Csc06i*", True), ("pci:v*d*sv*sd*bc02sc00i*", False),
    ("pci:v00001234d00001B0Dsv*sd*bc*sc*i*", False), ("of:N*", False)])
def test_a_module_binds_by_its_table(alias, binds):
    assert module("x", aliases=[alias]).binds() == binds


def test_a_module_without_a_device_table_is_refused_with_the_missing_line():
    with pytest.raises(ui.LabError, match=r"x\.ko.*PCI_DEVICE\(0x1234, 0x1b0c\)"):
        kernel_module.check_binds(kernel_module.Compiled(pathlib.Path("/x"), "/work/x", [module("x")]))


def test_modules_are_loaded_after_their_dependencies():
    order = kernel_module._in_loading_order([module("top", ["mid", "ib_core"]), module("low"), module("mid", ["low"])])
    assert [one.name for one in order] == ["low", "mid", "top"]


class Tools:
    """A build tree of this machine: a script runs in its working directory."""

    def __init__(self, work):
        self.work = work
        self.inside = str(work)
        self.flags = ""
        self.ran = []

    bring = builder.Builder.bring
    headers = builder.Builder.headers

    def sh(self, _title, script, _log):
        self.ran.append(script)
        subprocess.run(["sh", "-ec", script], cwd=self.work, check=True)


def test_an_error_of_the_compiler_names_the_users_own_file(tmp_path):
    source = tmp_path / "my driver"
    source.mkdir()
    (source / "Kbuild").write_text("obj-m := a.o\n")
    tools = Tools(tmp_path / "work")

    def fail(_title, script, _log):
        place = script.split(" M=")[1].split()[0]
        raise ui.LabError(f"compiling: failed\n{place}/a.c:3:1: error: x")
    tools.sh = fail
    with pytest.raises(ui.LabError, match=rf"\n{source}/a\.c:3:1: error"):
        kernel_module.compile_for("6.12", tools, source)


def test_the_arguments_are_a_directory_and_guests(lab):
    lab.up(Wanted(2), [])
    assert commands.Target.of([], lab) == commands.Target(None, ["vm0", "vm1"])
    assert commands.Target.of(["vm1", "vm1"], lab) == commands.Target(None, ["vm1"])
    assert commands.Target.of(["a/vm1", "vm0"], lab) == commands.Target(pathlib.Path("a/vm1"), ["vm0"])
    for words, said in ((["a", "b"], "one directory"), (["vm7"], "vm7 is not running")):
        with pytest.raises(ui.LabError, match=said):
            commands.Target.of(words, lab)
    lab.down()
    with pytest.raises(ui.LabError, match="pib up"):
        commands.Target.of([], lab)


def test_guests_that_hang_do_not_keep_a_driver_from_others(lab, monkeypatch, capfd):
    """A driver that hangs each guest has been loaded in all of them, and one was rebooted."""
    lab.up(Wanted(2), [])
    asked = []

    def ports_of(node, timeout_s):
        asked.append((node.name, timeout_s))
        if node.name == "vm0":
            raise subprocess.TimeoutExpired(["ssh"], timeout_s)
        return [subnet.Port("vm1", "pib_0", 1, "0x1", 1, 1, "ACTIVE", "LinkUp", "100 Gb/sec (4X EDR)")]
    monkeypatch.setattr(subnet, "ports_of", ports_of)
    monkeypatch.setattr(exchange, "check_answers", lambda *_: None)
    monkeypatch.setattr(exchange, "exchange", lambda _lab, name, _compiled: exchange.Exchanged(name, "loaded", 1.0))
    monkeypatch.setattr(commands, "_compile", lambda *_: kernel_module.Compiled(pathlib.Path("/x"), "/x", []))
    commands.exchange_driver(lab, pathlib.Path("/x"), ["vm1"])
    said = capfd.readouterr()
    assert "vm0 does not answer. Start anew:  ./pib reboot vm0" in said.err and "ACTIVE" in said.out
    assert [limit for name, limit in asked if name == "vm0"] == [exchange.ANSWER_S]


class Build:
    """A build tree with a module and a library, which another command removes as soon as the tree's lock is free."""

    def __init__(self, directory, monkeypatch):
        self.work = directory
        (directory / "stripped").mkdir(parents=True)
        monkeypatch.setattr(commands, "image_of", lambda _lab: directory)
        monkeypatch.setattr(commands.image, "kernel_version", lambda _image: "6.12")
        monkeypatch.setattr(commands.kernel_tree, "tools", lambda _image: self)
        monkeypatch.setattr(commands.provider.builder, "Builder", lambda _image: self)
        monkeypatch.setattr(kernel_module, "compile_for", self._driver)
        monkeypatch.setattr(commands.guest_build, "compile_provider", self._provider)

    @contextlib.contextmanager
    def locked(self):
        yield
        for file in filter(pathlib.Path.is_file, self.work.rglob("*")):
            file.unlink()

    def _driver(self, *_):
        for file in (made := (self.work / "a.ko", self.work / "stripped" / "a.ko")):
            file.write_text(f"in {file.parent.name}")
        return kernel_module.Compiled(self.work, "/x", [kernel_module.Module(*made, (), (ALIAS,))])

    def _provider(self, *_):
        (self.work / "liba-rdmav34.so").write_text("library")
        return self.work / "liba-rdmav34.so"


def test_a_driver_that_another_command_compiles_anew_is_exchanged_as_it_was_compiled(lab, monkeypatch, tmp_path):
    lab.up(Wanted(1), [])
    Build(tmp_path / "work", monkeypatch)
    taken = []

    def exchanged(_lab, name, compiled):
        taken.extend(file.read_text() for module in compiled.modules for file in (module.file, module.stripped))
        return exchange.Exchanged(name, "loaded", 1.0)

    def look(asked, *_):
        with open(asked.directory / "lock", encoding="utf-8") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return {"vm0": []}
    monkeypatch.setattr(exchange, "check_answers", lambda *_: None)
    monkeypatch.setattr(exchange, "exchange", exchanged)
    monkeypatch.setattr(subnet, "look", look)       # not while another exchange takes the ports away
    monkeypatch.setattr(subnet, "ports", lambda *_: [])
    commands.exchange_driver(lab, tmp_path, ["vm0"])
    assert taken == ["in work", "in stripped"]


def test_a_provider_that_another_command_compiles_anew_is_exchanged_as_it_was_compiled(lab, monkeypatch, tmp_path):
    lab.up(Wanted(1), [])
    Build(tmp_path / "work", monkeypatch)
    taken = []

    def exchanged(_node, library, _name):
        taken.append((library.name, library.read_text()))
        with open(lab.directory / "lock", encoding="utf-8") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    monkeypatch.setattr(commands.provider, "exchange", exchanged)
    options = command_line.parser().parse_args(["provider", "vm0"])
    assert options.function(options) == 0 and taken == [("liba-rdmav34.so", "library")]


# -- changes --------------------------------------------------------------------

def test_a_saved_source_is_a_change_and_a_product_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "POLL_S", 0.01)
    source = tmp_path / "a.c"
    source.write_text("1")
    before = watch.look(tmp_path)
    seen = []
    waiter = threading.Thread(target=lambda: seen.append(watch.wait(before, tmp_path)))
    waiter.start()
    (tmp_path / "a.o").write_text("product")
    for name in (".a.c.swp", "#a.c#", "a.c~", ".cache/clangd/a.idx"):       # editors write these while one types
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert watch.look(tmp_path) == before and not seen
    new = tmp_path / ".new"
    new.write_text("22")
    new.rename(source)      # editors save in this way
    waiter.join(60)
    assert seen and seen[0] != before and seen[0] == watch.look(tmp_path)


def test_a_saved_header_of_the_interface_compiles_again(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "POLL_S", 0.01)
    source, header = tmp_path / "driver", tmp_path / "hw-interface" / "regs.h"
    for directory in (source, header.parent):
        directory.mkdir()
    done = []

    def compile_and_save():
        done.append(header.exists())
        if len(done) == 3:
            raise KeyboardInterrupt
        header.write_text("x" * len(done))
    with pytest.raises(KeyboardInterrupt):
        commands._again(source, compile_and_save)       # pylint: disable=protected-access
    assert done == [False, True, True]


def test_watching_goes_on_if_a_directory_vanishes_during_a_look(tmp_path, monkeypatch):
    """git changes to another branch, for example."""
    monkeypatch.setattr(watch, "POLL_S", 0.01)
    (tmp_path / "a.c").write_text("1")
    wanted, gone = builder.wanted, [FileNotFoundError(2, "No such file or directory", "old")]

    def look(directory):
        if gone:
            raise gone.pop()
        return wanted(directory)
    monkeypatch.setattr(watch.builder, "wanted", look)
    assert list(watch.look(tmp_path)) == [tmp_path / "a.c"] and not gone


@pytest.mark.parametrize("failure", [
    ui.LabError("does not compile"), FileNotFoundError(2, "No such file or directory", "4913"),
    subprocess.TimeoutExpired(["ssh"], 120)])
def test_watching_goes_on_after_a_failure(tmp_path, monkeypatch, capfd, failure):
    """A guest may hang with the new driver, and an editor removes its temporary file while the sources are copied."""
    monkeypatch.setattr(watch, "POLL_S", 0.01)
    monkeypatch.setattr(watch, "wait", lambda *_: None)
    outcomes = [failure, KeyboardInterrupt()]

    def once():
        raise outcomes.pop(0)
    with pytest.raises(KeyboardInterrupt):
        commands._again(tmp_path, once)         # pylint: disable=protected-access
    assert not outcomes and str(failure.args[-1]).split(maxsplit=1)[0] in capfd.readouterr().err


@pytest.mark.parametrize("command", ["driver", "provider"])
def test_watching_goes_on_with_a_guest_that_was_rebooted(lab, monkeypatch, tmp_path, command):
    """A driver crashes a guest, which is rebooted in another terminal."""
    lab.up(Wanted(1), [])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "Kbuild").write_text("obj-m := a.o\n")
    (tmp_path / "mine" / "CMakeLists.txt").write_text("rdma_provider(a a.c)\n")
    rounds, reboots = [], ["vm0"]

    def exchanged(given, *_):
        given.node("vm0")               # raises LabError if the guest does not run
        rounds.append(given.record.processes["vm0"].pid)
        if len(rounds) == 2:
            raise KeyboardInterrupt
    monkeypatch.setattr(commands, "exchange_driver", exchanged)
    monkeypatch.setattr(commands, "image_of", exchanged)
    monkeypatch.setattr(commands.provider, "compile_in", lambda *_: tmp_path / "a.so")
    monkeypatch.setattr(commands.provider, "exchange", lambda *_: None)
    monkeypatch.setattr(watch, "wait", lambda *_: cluster.Cluster().reboot(reboots.pop()))
    options = command_line.parser().parse_args([command, str(tmp_path / "mine"), "vm0", "--watch"])
    with pytest.raises(KeyboardInterrupt):
        options.function(options)
    assert len(set(rounds)) == 2


# -- IPoIB ----------------------------------------------------------------------

def test_addresses_modes_children_and_routes_are_restored():
    links = [{"ifname": "ib0.8001", "flags": ["UP"], "mtu": 2044, "link": "ib0",
              "linkinfo": {"info_data": {"pkey": "0x8001", "mode": "datagram"}}, "addr_info": []},
             {"ifname": "ib0", "flags": ["BROADCAST", "UP"], "mtu": 65520,
              "linkinfo": {"info_data": {"pkey": "0xffff", "mode": "connected"}},
              "addr_info": [{"local": "10.0.0.1", "prefixlen": 24, "scope": "global"},
                            {"local": "fe80::1", "prefixlen": 64, "scope": "link"},
                            {"local": "2001:db8::9", "prefixlen": 64, "scope": "global", "dynamic": True}]}]
    routes = [{"dst": "10.1.0.0/16", "gateway": "10.0.0.2", "dev": "ib0", "flags": []},
              {"dst": "default", "dev": "eth0"},
              {"dst": "10.1.0.0/16", "gateway": "10.0.0.3", "dev": "ib0", "prefsrc": "10.0.0.1", "metric": 9,
               "flags": ["onlink", "linkdown"]}]
    of_6 = [{"dst": "default", "dev": "ib0.8001", "metric": 1024, "flags": [], "pref": "medium"},
            {"dst": "2001:db8:1::/48", "gateway": "2001:db8::2", "dev": "ib0", "metric": 1024}]
    lines = ipoib.commands(*ipoib.parse(
        f"{json.dumps(links)}\n4\n{json.dumps(routes)}\n[ ]\n6\n{json.dumps(of_6[:1])}\n{json.dumps(of_6[1:])}\n"))
    assert "until [ -e /sys/class/net/ib0 ]" in lines[0]
    assert lines[1:] == ["ip link set ib0 type ipoib mode connected", "ip link set ib0 mtu 65520 up",
                         "ip addr replace 10.0.0.1/24 dev ib0",
                         "[ -e /sys/class/net/ib0.8001 ] || ip link add link ib0 name ib0.8001 type ipoib pkey 0x8001",
                         "ip link set ib0.8001 type ipoib mode datagram", "ip link set ib0.8001 mtu 2044 up",
                         "ip -4 route replace 10.1.0.0/16 via 10.0.0.2 dev ib0",
                         "ip -4 route replace 10.1.0.0/16 via 10.0.0.3 dev ib0 src 10.0.0.1 metric 9 onlink",
                         "ip -6 route replace default dev ib0.8001 metric 1024",
                         "ip -6 route replace 2001:db8:1::/48 via 2001:db8::2 dev ib0 metric 1024"]


@pytest.mark.parametrize("layers, status", [((), 0), (("Ethernet",), 0), (("Ethernet", "InfiniBand"), 1)])
def test_a_device_of_soft_roce_has_no_interfaces_that_replace_the_saved_ones(tmp_path, layers, status):
    for number, layer in enumerate(layers):
        (place := tmp_path / f"infiniband/dev{number}/ports/1").mkdir(parents=True)
        (place / "link_layer").write_text(f"{layer}\n")
    (tmp_path / "ipoib").write_text("saved\n")

    def run(script):
        script = script.replace("/sys/class", str(tmp_path)).replace("/run/lab", str(tmp_path))
        return subprocess.run(["sh", "-c", f"ip() {{ echo new; }}; {script}"], check=False, capture_output=True,
                              text=True)
    assert run(f"{ipoib.IF_ANY}exit 1").returncode == status
    assert ("new" if status else "saved") in run(ipoib.LOOK).stdout


@pytest.mark.parametrize("text", ["", "4\n6\n", "[]\n4\n[]\n[]\n6\n[]\n[]\n", "[{},{}]\n4\n[ ]\n[ ]\n6\n"])
def test_a_guest_without_interfaces_needs_no_command(text):
    assert ipoib.commands(*ipoib.parse(text)) == []


MADE = ("ip link set lo up; ip route add 10.9.0.0/16 dev lo metric 7; "
        "ip route add 10.10.0.0/16 via 10.9.0.1 dev lo onlink proto static; ip -6 route add 2001:db8:1::/48 dev lo")


def routes_after(script):
    """The routes in a new network namespace after a script, as the lab reads them."""
    done = subprocess.run(["unshare", "--map-root-user", "--net", "sh", "-ec", f"{script}; {ipoib.ROUTES}"],
                          capture_output=True, text=True, check=False)
    if done.stderr.startswith("unshare:"):
        pytest.skip("no user namespaces here")
    assert done.returncode == 0, done.stderr
    return ipoib.parse(done.stdout)[1]


@pytest.mark.skipif(not shutil.which("ip"), reason="no iproute2")
def test_routes_as_the_program_ip_prints_them_are_restored():
    """The interface lo stands for ib0."""
    routes = routes_after(MADE)
    assert [(route["family"], route["dst"]) for route in routes] == [
        ("4", "10.9.0.0/16"), ("4", "10.10.0.0/16"), ("6", "2001:db8:1::/48")]
    restored = routes_after("; ".join(ipoib.commands([ipoib.Interface("lo", True, 65536, "", "", "", ())], routes)))
    assert sorted(map(str, restored)) == sorted(map(str, routes))


# -- reports --------------------------------------------------------------------

def test_a_kernel_report_is_cut_out_of_the_console():
    found = report.first(OOPS)
    assert found.startswith("[   12.2] BUG: ") and found.endswith("]---") and report.whole(OOPS)
    assert report.first("[    1.0] all is well\n") == ""
    assert len(report.first("BUG: x\n" + "line\n" * 1000).splitlines()) == report.MOST_LINES


def test_only_fatal_kernel_faults_end_a_command():
    assert report.FATAL.search(OOPS) and report.BEGIN.search("[ 1.0] WARNING: CPU: 0 PID: 1")
    assert not report.FATAL.search("[ 1.0] WARNING: CPU: 0 PID: 1 at x.c:1")


@pytest.fixture(name="example")
def symbols_of_an_example(tmp_path):
    """An object file, in the place of a module, whose functions are work() and outer(), and its source."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "example.c").write_text("void stop(void);\nint work(int *p)\n{\n\treturn *p;\n}\n"
                                      "int outer(int *p)\n{\n\tstop();\n\treturn work(p) + 1;\n}\n")
    work = tmp_path / "work"
    (work / "inside").mkdir(parents=True)
    (work / "inside" / "example.c").write_text((source / "example.c").read_text())
    subprocess.run(["gcc", "-c", "-g", "-O1", "-fno-inline", "-o", work / "example.ko", work / "inside" / "example.c"],
                   check=True)
    compiled = kernel_module.Compiled(source, str(work / "inside"),
                                      [kernel_module.Module(work / "example.ko", work / "example.ko", (), ())])
    symbols.keep(compiled, tmp_path / "symbols")
    return symbols.Symbols(Tools(work), tmp_path / "none", tmp_path / "symbols"), source


def test_addresses_in_a_module_get_their_lines_of_source(example):
    known, source = example
    text = "RIP: 0010:work+0x0/0x10 [example]\n outer+0x9/0x20 [example]\n local_pci_probe+0x42/0x80\n"
    lines = report.annotated(text, known).splitlines()
    assert lines[0].startswith("RIP") and re.fullmatch(rf" +{source}/example\.c:4:  return \*p;", lines[1])
    assert lines[2].startswith(" outer") and re.match(rf" +{source}/example\.c:[789]:  \S", lines[3])
    assert lines[4] == " local_pci_probe+0x42/0x80" and len(lines) == 5


def test_lines_are_looked_up_in_a_directory_of_their_own(example):
    """Several guests report at the same time, and several commands use one build tree."""
    known, source = example
    tools, sh, text = known._tools, known._tools.sh, " outer+0x9/0x20 [example]\n"

    def disturbed(*words):
        sh(*words)
        tools.sh = sh
        report.annotated("RIP: 0010:work+0x0/0x10 [example]\n", known)
        tools.sh = disturbed
    tools.sh = disturbed
    assert f"{source}/example.c:" in report.annotated(text, known) and "return *p" not in report.annotated(text, known)
    assert not list(tools.work.glob(".symbols*"))


def test_an_unknown_module_or_symbol_has_no_lines(example):
    known, _ = example
    text = "RIP: 0010:work+0x4/0x10 [other]\n nothing+0x1/0x2 [example]\n"
    assert report.annotated(text, known) == text.rstrip("\n")


@pytest.fixture(name="watched")
def console_that_is_watched(lab):
    lab.up(Wanted(1), [])
    one = report.Watch(lab, "vm0")
    yield one, one.console


def test_a_fault_on_the_console_ends_a_command_at_once(watched):
    one, console = watched
    one.check()
    with open(console, "a", encoding="utf-8") as file:
        file.write("[   12.0] all is well\r\n")
    one.check()
    with open(console, "a", encoding="utf-8") as file:
        file.write(OOPS.replace(" [example]", "").replace("\n", "\r\n"))
    with pytest.raises(report.Faulted, match=r"(?s)vm0 reports:\n.*BUG: .*---\n.*pib reboot vm0") as said:
        one.check()
    assert "something else" not in str(said.value)


class Hanging:
    """The guest vm0 of a lab, whose kernel hangs. asked: commands for its QEMU. reports: its console has a panic after
    the NMI."""

    def __init__(self, lab, monkeypatch, reports):
        lab.up(Wanted(1), [])
        self.lab, self.watch, self.reports, self.asked = lab, report.Watch(lab, "vm0"), reports, []
        monkeypatch.setattr(exchange.Guest, "run", self._run)
        monkeypatch.setattr(exchange.vm, "monitor_command", self._command)

    def say(self, text):
        with open(self.watch.console, "a", encoding="utf-8") as file:
            file.write(text)

    def _command(self, _path, command, /):
        self.asked.append(command)
        if self.reports:
            self.say("[   80.0] Kernel panic - not syncing: NMI: Not continuing\n[   80.0] RIP: 0010:hang+0x1/0x2\n")

    def _run(self, command, *, timeout_s=None, **_options):
        raise subprocess.TimeoutExpired(command, timeout_s)

    def wait(self):
        """Waits for an exchange that never ends, after the line of a lockup."""
        self.say(f"[   79.0] {LOCKUP}\n")
        with subprocess.Popen(["sleep", "60"]) as running:
            try:
                exchange._wait(self.lab, self.lab.node("vm0"), running, self.watch)
            finally:
                running.kill()


def test_a_lockup_leads_to_an_nmi_that_tells_the_place(lab, monkeypatch):
    """A console that is quiet shows one line of a lockup."""
    guest = Hanging(lab, monkeypatch, reports=True)
    with pytest.raises(report.Faulted, match="(?s)NMI: Not continuing.*RIP: 0010:hang"):
        guest.wait()
    assert guest.asked == ["inject-nmi"]


def test_a_guest_that_ignores_the_nmi_gets_it_once(lab, monkeypatch):
    guest = Hanging(lab, monkeypatch, reports=False)
    monkeypatch.setattr(exchange, "NMI_S", 0.1)
    with pytest.raises(ui.LabError, match="its console says nothing"):
        guest.wait()
    assert guest.asked == ["inject-nmi"]


def test_a_guest_that_answers_after_a_lockup_gets_no_nmi(lab, monkeypatch):
    """The host may have been busy for as long as the kernel's watchdog waits. The guest's log tells the place."""
    guest = Hanging(lab, monkeypatch, reports=False)
    dmesg = f"[   70.0] WARNING: before\n[   79.0] {LOCKUP}\n[   79.0] RIP: 0010:slow+0x1/0x2\n".encode()
    monkeypatch.setattr(exchange.Guest, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, dmesg, b""))
    monkeypatch.setattr(exchange, "_interrupt", lambda *_: pytest.fail("an NMI ends the guest"))
    with pytest.raises(report.Faulted, match="(?s)vm0 answers.*soft lockup.*RIP: 0010:slow") as said:
        guest.wait()
    assert "before" not in str(said.value)


def test_a_guest_that_hangs_already_is_named_before_the_driver_is_compiled(lab, monkeypatch):
    guest = Hanging(lab, monkeypatch, reports=True)

    def start(_node, _command, **_options):
        guest.say(f"[   79.0] {LOCKUP}\n")
        return subprocess.Popen(["sleep", "60"])    # pylint: disable=consider-using-with
    monkeypatch.setattr(exchange.Guest, "start", start)
    monkeypatch.setattr(commands, "_compile", lambda *_: pytest.fail("the driver was compiled"))
    with pytest.raises(ui.LabError, match="(?s)NMI: Not continuing.*RIP: 0010:hang"):
        commands.exchange_driver(lab, paths.ROOT / "guest-driver", ["vm0"])


def test_an_earlier_fault_does_not_count(lab):
    lab.up(Wanted(1), [])
    first = report.Watch(lab, "vm0")
    first.console.write_text("[    1.0] Kernel panic - not syncing\n")
    report.Watch(lab, "vm0").check()


def test_a_fault_is_reported_during_a_command_and_at_its_end(watched, lab, capfd):
    _, console = watched
    with report.told(lab, "vm0"):
        with open(console, "a", encoding="utf-8") as file:
            file.write("[    9.0] BUG: first\n[    9.0] ---[ end trace 0 ]---\n")
        waiting.poll("the report", lambda: "BUG: first" in capfd.readouterr().err, 60)
        with open(console, "a", encoding="utf-8") as file:
            file.write("[    9.9] BUG: second\n[    9.9] ---[ end trace 0 ]---\n")
    said = capfd.readouterr().err
    assert "BUG: second" in said and "BUG: first" not in said and "pib reboot vm0" in said


# -- guests ---------------------------------------------------------------------

def test_a_restart_of_a_guest_leaves_the_others_alone(lab):
    lab.up(Wanted(2), [])
    before = dict(lab.state.processes)
    lab.symbols("vm1").mkdir()
    lab.reboot("vm1")
    assert lab.state.processes["vm0"] == before["vm0"] and lab.state.processes["hub"] == before["hub"]
    assert lab.alive("vm1") and not before["vm1"].alive() and lab.node("vm1").connected()
    assert not lab.symbols("vm1").exists()


def test_a_guest_that_has_died_is_started_again(lab):
    lab.up(Wanted(2), [])
    lab.state.processes["vm1"].stop()
    lab.reboot("vm1")
    assert lab.alive("vm1")
    with pytest.raises(ui.LabError, match="vm7 is not a guest.*vm0, vm1"):
        lab.reboot("vm7")


def test_without_a_terminal_the_text_of_a_console_is_printed(lab, capsys, monkeypatch):
    lab.up(Wanted(1), [])
    monkeypatch.setattr(commands.sys, "stdin", open(os.devnull, encoding="utf-8"))
    commands.show_console(argparse.Namespace(node="vm0"))
    assert capsys.readouterr().out == "starting\nlab: ready\n\n"
    with pytest.raises(ui.LabError, match="vm3 is not a guest"):
        commands.show_console(argparse.Namespace(node="vm3"))


def test_one_error_names_each_guest_that_failed():
    done = []

    def do(name):
        done.append(name)
        if name != "vm1":
            raise ui.LabError(f"{name} is ill")
    with pytest.raises(ui.LabError, match="vm0 is ill\nvm2 is ill"):
        commands._each(["vm0", "vm1", "vm2"], do)
    assert sorted(done) == ["vm0", "vm1", "vm2"]
