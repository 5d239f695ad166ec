# SPDX-License-Identifier: GPL-2.0-or-later
"""gdb and drgn without guests: symbols of kernels, places in memory, command lines, dumps, and errors."""

import errno
import importlib
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import types
from unittest import mock

import pytest

from lab import __main__ as command_line
from lab.base import paths, ui
from lab.build import debian, kernel_symbols, symbols
from lab.develop import crash, debug_commands, dump, gdb, gdb_server, kernel_place
from lab.fabric.wanted import Wanted
from lab.guests import vm

VERSION = "6.12.1+deb13-amd64"
STATUS = f"Package: linux-image-{VERSION}\nStatus: install ok installed\nVersion: 6.12.1-1\n"
MAP = ("ffffffff81e01030 T asm_exc_divide_error\nffffffff837c80a0 B vmcoreinfo_data\n"
       "0000000000000000 D __per_cpu_start\n")
REGISTERS = "LDT=0000 0000000000000000 000fffff 00000000\nIDT=     fffffe0000000000 00000fff\nCR0=80050033\n"
GATE = "fffffe0000000000: 0x00101030 0x8e208e00 0xffffffff 0x00000000\n"


@pytest.fixture(name="base")
def an_image(tmp_path):
    directory = tmp_path / "guest-trixie-0123456789ab"
    (directory / debian.STATUS).parent.mkdir(parents=True)
    (directory / debian.STATUS).write_text(STATUS)
    (directory / "kernel-version").write_text(f"{VERSION}\n")
    return directory


@pytest.fixture(name="kernel")
def symbols_of_a_kernel(tmp_path):
    boot = tmp_path / "symbols" / kernel_symbols.DEBUG / "boot"
    boot.mkdir(parents=True)
    (boot / f"System.map-{VERSION}").write_text(MAP)
    return kernel_symbols.Kernel(tmp_path / "symbols", VERSION)


# -- symbols ----------------------------------------------------------------------

@pytest.mark.parametrize("name, release", [
    ("guest-trixie-0123456789ab", "trixie"), ("guest-bookworm-0123456789ab", "bookworm"),
    ("guest-trixie-backports-0123456789ab", "trixie-backports")])
def test_the_release_of_an_image_is_that_of_its_kernel(name, release):
    assert kernel_symbols.release_of(pathlib.Path("/cache") / name) == release


def test_an_image_of_unknown_origin_has_no_symbols_to_fetch():
    with pytest.raises(ui.LabError, match="made by another pib.*pib up"):
        kernel_symbols.release_of(pathlib.Path("/cache/guest-trixie-other-0123456789ab"))


@pytest.mark.parametrize("version, source", [
    (VERSION, "linux-source-6.12"), ("6.1.0-56-amd64", "linux-source-6.1"), ("7.3.4+deb13-amd64", "linux-source-7.3")])
def test_packages_are_named_by_the_kernel(version, source):
    assert kernel_symbols.packages_of(version) == (f"linux-image-{version}-dbg", source)


def fetched(monkeypatch, base, shown="Package: x\nSize: 1000000000\n", free=1 << 40):
    """The commands with which the symbols of an image are fetched, without running them."""
    ran = []

    def run(title, argv, *_rest, **_options):
        ran.append((title, [str(word) for word in argv]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(base.parent / "cache"))
    (base.parent / "cache" / "pib-hca").mkdir(parents=True)
    monkeypatch.setattr(kernel_symbols.ui, "run", run)
    monkeypatch.setattr(kernel_symbols.debian, "output", lambda *_words, **_options: shown)
    monkeypatch.setattr(kernel_symbols.debian, "release_suites", lambda _release: [])
    monkeypatch.setattr(kernel_symbols.shutil, "disk_usage", lambda _path: types.SimpleNamespace(free=free))
    monkeypatch.setattr(kernel_symbols, "_make_constants", lambda *_words: None)
    return ran


def test_symbols_of_the_images_own_package_are_fetched_once(base, monkeypatch):
    ran = fetched(monkeypatch, base)
    found = kernel_symbols.ensure(base)
    titles = [title for title, _ in ran]
    assert any("2000 MB" in title and f"linux-image-{VERSION}-dbg" in title for title in titles)
    assert any(f"linux-image-{VERSION}-dbg=6.12.1-1" in argv for _, argv in ran)
    assert found.vmlinux.name == f"vmlinux-{VERSION}"
    count = len(ran)
    assert kernel_symbols.ensure(base) == found and len(ran) == count


def test_symbols_that_the_mirror_has_no_more_are_named(base, monkeypatch):
    fetched(monkeypatch, base, shown="")
    with pytest.raises(ui.LabError, match=r"no linux-image-6.12.1\+deb13-amd64-dbg 6.12.1-1 any more.*pib clean"):
        kernel_symbols.ensure(base)


def test_symbols_that_have_no_room_are_not_fetched(base, monkeypatch):
    ran = fetched(monkeypatch, base, free=1 << 20)
    with pytest.raises(ui.LabError, match="1 MB are free.*pib clean"):
        kernel_symbols.ensure(base)
    assert not any("fetching" in title for title, _ in ran)


def test_an_image_without_a_list_of_packages_must_be_made_again(base):
    (base / debian.STATUS).unlink()
    with pytest.raises(ui.LabError, match=f"pib clean {base.name}"):
        kernel_symbols.ensure(base)


def test_an_unknown_symbol_is_named(kernel):
    assert kernel.address("vmcoreinfo_data") == 0xffffffff837c80a0
    with pytest.raises(ui.LabError, match="no symbol vmcoreinfo_dat,"):
        kernel.address("vmcoreinfo_dat")


# -- the place of the kernel --------------------------------------------------------

@pytest.fixture(name="monitor")
def a_monitor(monkeypatch):
    """Answers of QEMU's monitor, by the first word of the command."""
    answers = {"info": REGISTERS, "x": GATE}
    monkeypatch.setattr(vm, "monitor_line", lambda _monitor, line: answers[line.split()[0]])
    return answers


def test_the_offset_of_a_kernel_is_that_of_its_first_interrupt_handler(monitor, kernel):
    assert monitor and kernel_place.offset(pathlib.Path("x"), kernel) == 0xffffffff8e201030 - 0xffffffff81e01030


@pytest.mark.parametrize("gate, said", [
    (GATE.replace("1030", "1040"), "does not run the Linux .*pib reboot NODE"),
    (GATE.replace("8e20", "0000"), "does not run the Linux"),
    ("Cannot access memory\n", "no memory at 0xfffffe0000000000 .Cannot access memory")])
def test_another_kernel_is_noticed(monitor, kernel, gate, said):
    monitor["x"] = gate
    with pytest.raises(ui.LabError, match=said):
        kernel_place.offset(pathlib.Path("x"), kernel)


def test_the_kernels_notes_are_read_from_its_memory(monitor, kernel, monkeypatch):
    text = b"OSRELEASE=6.12\nPAGESIZE=4096\n."
    memory = {0x1000: text, 0xffffffff837c80a0: (0x1000).to_bytes(8, "little"),
              0xffffffff837c8098: (len(text) - 1).to_bytes(8, "little")}

    def words(_monitor, address, count):
        return [int.from_bytes(memory[address][4 * place:4 * place + 4], "little") for place in range(count)]
    (kernel.directory / kernel_symbols.DEBUG / "boot" / f"System.map-{VERSION}").write_text(
        MAP + "ffffffff837c8098 B vmcoreinfo_size\n")
    monkeypatch.setattr(kernel_place, "words", words)
    monkeypatch.setattr(kernel_place, "offset", lambda *_: 0)
    assert monitor and dump.notes(pathlib.Path("x"), kernel) == text[:-1].decode()


def test_a_kernel_without_notes_is_told_its_option(monitor, kernel):
    with pytest.raises(ui.LabError, match="no symbol vmcoreinfo_size.*--enable PROC_KCORE.*pib reboot NODE"):
        dump.notes(pathlib.Path("x"), kernel)
    assert monitor


# -- command lines ------------------------------------------------------------------

@pytest.fixture(name="asked")
def commands_that_were_asked(lab, monkeypatch):
    """The calls that ./pib gdb and crash make."""
    asked = []
    lab.up(Wanted(1), [])
    for module, name in ((gdb, "kernel"), (gdb, "device"), (crash, "crash"), (crash, "open_dump")):
        monkeypatch.setattr(module, name, lambda *words, name=name: asked.append((name, *words[1:])) or 0)

    def run(*words):
        options = command_line.parser().parse_args([*words])
        return options.function(options)
    return run, asked


@pytest.mark.parametrize("words, called", [
    (("vm0",), ("kernel", "vm0", [])),
    (("vm0", "--", "-batch", "-ex", "bt"), ("kernel", "vm0", ["-batch", "-ex", "bt"])),
    (("vm0", "--device"), ("device", "vm0", [])),
    (("--device", "vm0", "--", "-ex", "pib-qps"), ("device", "vm0", ["-ex", "pib-qps"])),
    (("vm0", "--device", "--", "-ex", "pib-qps"), ("device", "vm0", ["-ex", "pib-qps"]))])
def test_arguments_after_the_dashes_are_passed_to_gdb(asked, words, called):
    run, passed = asked
    assert run("gdb", *words) == 0
    name, node, *rest = passed[0]
    assert (name, node, rest[-1]) == called


def test_arguments_after_the_dashes_are_a_command_for_the_dump(asked, tmp_path):
    run, passed = asked
    assert run("crash", "vm0", "--", "qps") == 0 and run("crash", "--output", "kept", "vm0") == 0
    assert [(one[1], *one[3:]) for one in passed] == [("vm0", None, ["qps"]), ("vm0", pathlib.Path("kept"), [])]
    (tmp_path / "kept").touch()
    assert run("crash", str(tmp_path / "kept"), "--", "dmesg") == 0
    assert passed[-1] == ("open_dump", ["dmesg"])
    with pytest.raises(ui.LabError, match="--output must come before the guest"):
        run("crash", "vm0", "--output", "kept")


def test_the_kernel_of_an_own_image_has_no_symbols(lab):
    lab.up(Wanted(1), [])
    lab.record.own_image = "/my/disk"
    with pytest.raises(ui.LabError, match="/my/disk.*pib gdb NODE --device"):
        debug_commands.image_of(lab)


def test_gdb_gets_the_guests_newest_symbols_first(lab, kernel, monkeypatch, tmp_path):
    lab.up(Wanted(1), [])
    monkeypatch.setattr(kernel_place, "offset", lambda *_: 0x200000)
    for directory, source in ((lab.symbols(), "/boot"), (lab.symbols("vm0"), "/new")):
        directory.mkdir()
        (directory / symbols.PLACES).write_text(json.dumps({"/work/x": source}))
    found = gdb.parameters_of(lab, "vm0", kernel, tmp_path / "socket")
    assert found["modules"] == [str(lab.symbols("vm0")), str(lab.symbols()), str(kernel.modules)]
    assert found["sources"] == {"/work/x": "/new"} and found["offset"] == 0x200000


@pytest.fixture(name="own_gdb")
def a_program_in_place_of_gdb(tmp_path, monkeypatch):
    def make(text):
        place = tmp_path / "gdb"
        place.write_text(f"#!/bin/sh\n{text}\n")
        place.chmod(0o755)
        monkeypatch.setattr(gdb, "program", lambda: str(place))
    return make


def test_the_users_arguments_come_last_and_the_status_is_gdbs(own_gdb, capfd):
    own_gdb('echo "$PIB_GDB"; shift 7; echo "$@"; exit 3')
    assert gdb._run("in_gdb_device.py", {"pid": 7}, ["-batch", "-ex", "a b"]) == 3
    assert capfd.readouterr().out == '{"pid": 7}\n-batch -ex a b\n'


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is missing")
def test_gdb_runs_no_file_of_the_working_directory(tmp_path, monkeypatch, capfd):
    """The directory may be another user's, or a copy of a stranger's sources."""
    (tmp_path / ".gdbinit").write_text("shell echo begun by .gdbinit\n")
    monkeypatch.chdir(tmp_path)
    gdb._run("in_gdb_device.py", {"pid": 0}, ["-batch"])
    assert "begun by .gdbinit" not in capfd.readouterr().out


def test_an_interrupt_is_left_to_gdb(own_gdb):
    own_gdb("kill -INT $PPID; exit 0")
    before = signal.getsignal(signal.SIGINT)
    assert gdb._run("in_gdb_device.py", {}, []) == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_a_missing_gdb_is_named_in_an_installed_lab(monkeypatch):
    monkeypatch.setattr(paths, "INSTALLED", {"version": "1"})
    monkeypatch.setattr(gdb.shutil, "which", lambda _name: None)
    with pytest.raises(ui.LabError, match="apt-get install gdb"):
        gdb.program()


def test_a_missing_gdb_is_installed_in_a_checkout(monkeypatch):
    asked = []
    monkeypatch.setattr(paths, "INSTALLED", {})
    monkeypatch.setattr(gdb.deps, "install", lambda *lists: asked.extend(lists))
    monkeypatch.setattr(gdb.shutil, "which", lambda _name: "/usr/bin/gdb")
    assert gdb.program() == "/usr/bin/gdb" and asked == [gdb.deps.DEBUGGER_LIST]


# -- QEMU under gdb -----------------------------------------------------------------

@pytest.mark.parametrize("maps, said", [
    ("7f0-7f1 r-xp 0 0:0 1 /b/glue/pib-hca-device.so (deleted)\n", "rebuilt.*pib reboot vm1"),
    ("7f0-7f1 r-xp 0 0:0 1 /usr/bin/qemu\n", "vm1 has no device of ours")])
def test_a_device_without_its_symbols_is_noticed(maps, said):
    gdb.check_current("7f0-7f1 r-xp 0 0:0 1 /b/glue/pib-hca-device.so\n", "vm1")
    with pytest.raises(ui.LabError, match=said):
        gdb.check_current(maps, "vm1")


def test_a_user_who_may_not_attach_is_told_what_to_do():
    for scope, root in (("", False), ("0\n", False), ("1\n", True)):
        gdb.check_allowed(scope, root)
    with pytest.raises(ui.LabError, match="ptrace_scope=0.*SYS_PTRACE"):
        gdb.check_allowed("1\n", False)


def test_keys_are_scrambled_as_the_device_does_it(monkeypatch):
    """The device's function returns 0xf5021e00 for number 1."""
    quiet = mock.MagicMock(error=RuntimeError, Command=type("Command", (), {"__init__": lambda *_: None}))
    monkeypatch.setitem(sys.modules, "gdb", quiet)
    monkeypatch.setenv(gdb.VARIABLE, json.dumps({"pid": 1, "advice": ""}))
    monkeypatch.delitem(sys.modules, "lab.develop.in_gdb_device", raising=False)
    script = importlib.import_module("lab.develop.in_gdb_device")
    assert script.key_of(0) == 0 and script.key_of(1) == 0xf5021e00


# -- the kernel under gdb -----------------------------------------------------------

class Head:
    """The list of modules, which is empty."""

    def __getitem__(self, _name):
        return self


@pytest.fixture(name="in_gdb")
def script_of_gdb(monkeypatch, capsys):
    """Runs the script with a simulated gdb; returns gdb's commands and the script's messages."""
    def run(**parameters):
        commands = []
        simulated = mock.MagicMock(Command=type("Command", (), {"__init__": lambda *_: None}),
                                   parse_and_eval=lambda _text: Head(),
                                   execute=lambda line, to_string=False: commands.append(line))
        monkeypatch.setitem(sys.modules, "gdb", simulated)
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.setenv(gdb.VARIABLE, json.dumps({
            "vmlinux": "/tree/vmlinux", "offset": 0x200000, "per_cpu_from_0": True, "socket": "/s", "modules": [],
            "sources": {}, "source": "/tree", "scripts": "", "index": "/nowhere", **parameters}))
        monkeypatch.delitem(sys.modules, "lab.develop.in_gdb_kernel", raising=False)
        importlib.import_module("lab.develop.in_gdb_kernel")
        return commands, capsys.readouterr().err
    return run


def test_gdb_says_what_the_user_waits_for(in_gdb, tmp_path):
    said = in_gdb()[1].splitlines()
    assert [line[:16] for line in said] == ["pib: reading the", "pib: connecting ", "pib: reading the",
                                            "pib: the kernel'"]
    assert "/tree/vmlinux; the first time that takes" in said[0] and "stands still from now on" in said[1]
    (tmp_path / "0123.gdb-index").touch()
    assert "first time" not in in_gdb(index=str(tmp_path))[1]


def test_gdb_moves_the_kernels_variables_of_each_processor_as_its_version_needs(in_gdb):
    commands, _ = in_gdb()
    assert 'add-symbol-file "/tree/vmlinux" -o 0x200000 -s .data..percpu 0' in commands
    assert 'add-symbol-file "/tree/vmlinux" -o 0x200000 ' in in_gdb(per_cpu_from_0=False)[0]


def test_gdb_runs_the_scripts_of_the_kernel_once_it_is_connected(in_gdb, tmp_path):
    (tmp_path / "vmlinux-gdb.py").write_text("gdb.execute('the scripts')\n")
    commands, said = in_gdb(scripts=str(tmp_path))
    assert commands.index("set auto-load python-scripts off") < commands.index("target remote /s")
    assert commands[-1] == "the scripts" and "no commands" not in said


def test_scripts_of_the_kernel_that_fail_do_not_end_gdb(in_gdb, tmp_path):
    """A kernel under development may have scripts that do not match its structures."""
    (tmp_path / "vmlinux-gdb.py").write_text("raise KeyError('slab')\n")
    commands, said = in_gdb(scripts=str(tmp_path))
    assert "target remote /s" in commands and "quit 1" not in commands
    assert f"scripts in {tmp_path} failed, so commands lx-… may be missing: KeyError: 'slab'" in said


# -- QEMU's gdb server --------------------------------------------------------------

class Stub:
    """A gdb server that has one breakpoint, and a guest that it has stopped."""

    def __init__(self, place):
        self.got = b""
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(place))
        self.listening.listen()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        one, _ = self.listening.accept()
        with one:
            for packet, answer in ((b"$?#3f", b"+$T05thread:01;#07"), (b"$D;1#b0", b"+$OK#9a")):
                while packet not in self.got:
                    self.got += one.recv(100)
                one.sendall(answer)


@pytest.fixture(name="qemu")
def a_qemu(lab, monkeypatch):
    """A simulated QEMU: its states, one for each query, and the lines that its monitor received."""
    lab.up(Wanted(1), [])
    known = types.SimpleNamespace(running=[True], lines=[], stub=None)

    def line(_monitor, text):
        known.lines.append(text)
        if text.startswith("gdbserver unix:"):
            known.stub = Stub(text.removeprefix("gdbserver unix:").partition(",")[0])
        return ""
    monkeypatch.setattr(vm, "monitor_line", line)
    monkeypatch.setattr(vm, "monitor_command", lambda *_: {"running": known.running.pop(0)})
    return known


def test_the_gdb_server_is_a_private_socket_and_ends(lab, qemu):
    qemu.running = [True, True]
    with gdb_server.started(lab, "vm0") as place:
        assert place.parent == lab.sockets() and qemu.lines == [f"gdbserver unix:{place},server=on,wait=off"]
    assert qemu.lines[1:] == ["gdbserver none"] and not place.exists() and not qemu.stub.got


def test_a_guest_that_a_killed_gdb_has_stopped_runs_again(lab, qemu):
    qemu.running = [True, False]
    with gdb_server.started(lab, "vm0"):
        pass
    qemu.stub.thread.join(60)
    assert qemu.stub.got.replace(b"+", b"") == b"$?#3f$D;1#b0"


def test_a_guest_that_stood_still_before_stands_still(lab, qemu):
    qemu.running = [False, False]
    with gdb_server.started(lab, "vm0"):
        pass
    assert not qemu.stub.got


def test_a_qemu_without_a_gdb_server_is_reported(lab, qemu, monkeypatch):
    monkeypatch.setattr(vm, "monitor_line", lambda *_: "unknown command: 'gdbserver'\r\n")
    with pytest.raises(ui.LabError, match="unknown command: 'gdbserver'.*pib reboot vm0"):
        with gdb_server.started(lab, "vm0"):
            pass
    assert qemu.running == []


# -- dumps --------------------------------------------------------------------------

@pytest.fixture(name="dumped")
def qemu_that_dumps(lab, monkeypatch):
    """A simulated QEMU that notes the commands that it receives. Its dump is completed at the second query."""
    lab.up(Wanted(1), [])
    given, states = [], ["active", "completed"]

    def command(_monitor, name, **arguments):
        given.append(name)
        if name == "dump-guest-memory":
            pathlib.Path(arguments["protocol"].removeprefix("file:")).write_bytes(b"memory")
        if name == "query-dump":
            return {"status": states.pop(0)}
        return {"running": True} if name == "query-status" else {}
    monkeypatch.setattr(vm, "monitor_command", command)
    monkeypatch.setattr(dump, "notes", lambda *_: "OSRELEASE=6.12")
    monkeypatch.setattr(dump.evidence, "objects", lambda _monitor: [{"qps": {}}])
    return types.SimpleNamespace(given=given, states=states)


def test_a_dump_is_private_and_taken_while_the_guest_stands_still(lab, dumped, kernel, tmp_path):
    file = tmp_path / "kept"
    dump.take(lab, "vm0", kernel, file)
    assert file.read_bytes() == b"memory" and file.stat().st_mode & 0o777 == 0o600
    assert dumped.given == ["query-status", "stop", "dump-guest-memory", "query-dump", "query-dump", "cont"]
    assert json.loads(dump.about(file).read_text())["hcas"] == [{"qps": {}}]
    with pytest.raises(ui.LabError, match="exists already"):
        dump.take(lab, "vm0", kernel, file)


def test_a_guest_runs_on_after_a_dump_that_failed(lab, dumped, kernel, tmp_path):
    """The unfinished file would keep the next command from this name."""
    dumped.states[:] = ["failed"]
    with pytest.raises(ui.LabError, match="Is there room.*pib crash --output FILE NODE"):
        dump.take(lab, "vm0", kernel, tmp_path / "kept")
    assert dumped.given[-1] == "cont" and not (tmp_path / "kept").exists()


def test_a_dump_whose_second_file_cannot_be_written_is_removed(lab, dumped, kernel, monkeypatch, tmp_path):
    """The dump has filled the disk. Without that file it cannot be opened."""
    original = pathlib.Path.write_text

    def full(path, text, **options):
        if path == dump.about(tmp_path / "kept"):
            original(path, text[:1], **options)
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(path, text, **options)
    monkeypatch.setattr(pathlib.Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        dump.take(lab, "vm0", kernel, tmp_path / "kept")
    assert dumped.given[-1] == "cont" and not list(tmp_path.glob("kept*"))


def test_a_file_that_is_not_a_dump_is_refused_with_a_command_that_makes_one(tmp_path):
    with pytest.raises(ui.LabError, match="is not a dump of .*Make one:  ./pib crash --output FILE NODE"):
        crash.open_dump(tmp_path / "memory", [])


def test_a_guest_runs_on_after_an_interrupt_of_its_dump(lab, dumped, kernel, monkeypatch, tmp_path):
    """QEMU lets no guest run before its dump has ended."""
    answer = vm.monitor_command

    def command(monitor, name, **arguments):
        if name == "cont" and dumped.states:
            raise ui.LabError("cont: There is a dump in process, please wait.")
        if name == "query-dump" and name not in dumped.given:
            dumped.given.append(name)
            raise KeyboardInterrupt
        return answer(monitor, name, **arguments)
    monkeypatch.setattr(vm, "monitor_command", command)
    with pytest.raises(KeyboardInterrupt):
        dump.take(lab, "vm0", kernel, tmp_path / "kept")
    assert dumped.given[-1] == "cont" and not dumped.states


def test_a_second_dump_waits_for_the_session_of_the_first(lab, dumped, kernel, base, monkeypatch):
    """Two dumps would use the same temporary file."""
    def session(argv):
        lock = argv[5] + ".lock"
        assert subprocess.run(["flock", "--nonblock", lock, "true"], check=False).returncode
        return 0
    monkeypatch.setattr(kernel_symbols, "ensure", lambda _base: kernel)
    monkeypatch.setattr(crash.drgn, "ensure", lambda: pathlib.Path("/drgn"))
    monkeypatch.setattr(crash.relay, "run", session)
    assert dumped and crash.crash(lab, "vm0", base, None, ["qps"]) == 0


def test_a_dump_goes_with_the_session_unless_it_is_kept(lab, dumped, kernel, base, monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(kernel_symbols, "ensure", lambda _base: kernel)
    monkeypatch.setattr(crash.drgn, "ensure", lambda: pathlib.Path("/drgn"))
    monkeypatch.setattr(crash.relay, "run", lambda argv: seen.append((argv[5], pathlib.Path(argv[5]).exists())) or 0)
    assert crash.crash(lab, "vm0", base, None, ["qps"]) == 0
    assert seen == [(f"{lab.directory}/vm0.dump", True)]
    assert [file.name for file in lab.directory.glob("vm0.dump*")] == ["vm0.dump.lock"]
    dumped.states[:] = ["completed"]
    assert crash.crash(lab, "vm0", base, tmp_path / "kept", []) == 0 and dumped.given[-1] == "cont"
    assert (tmp_path / "kept").exists() and dump.about(tmp_path / "kept").exists()


def test_another_file_is_not_a_dump(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ui.LabError, match="not a dump of ./pib crash"):
        crash.open_dump(tmp_path / "file", [])


# -- the driver's objects beside the device's ---------------------------------------

@pytest.fixture(name="in_drgn", scope="module")
def script_of_drgn():
    """The script, with empty modules in place of drgn's, which a host of the tests need not have."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("drgn", "drgn.cli", "drgn.helpers", "drgn.helpers.linux", "drgn.helpers.linux.pid",
                     "drgn.helpers.linux.module", "drgn.helpers.linux.xarray"):
            module = types.ModuleType(name)
            module.__dict__.update(dict.fromkeys(("cast", "container_of", "list_for_each_entry", "printk", "sched",
                                                  "for_each_task", "for_each_module", "xa_for_each")))
            patch.setitem(sys.modules, name, module)
        yield importlib.import_module("lab.develop.in_drgn")


def test_each_command_of_the_script_is_documented(in_drgn):
    assert in_drgn.COMMANDS.keys() == crash.COMMANDS.keys()


@pytest.mark.parametrize("words", [["qp"], ["qps", "0x40"], ["python"], ["python", "1", "2"]])
def test_an_unknown_command_is_refused_before_a_dump_is_written(words):
    for good in ([], ["qps"], ["python", "print(1)"]):
        crash.check(good)
    with pytest.raises(ui.LabError, match=f"not understood: {' '.join(words)}. Commands: qps: all QPs"):
        crash.check(words)


DRIVER = {"state": "RTS", "sq posted": 7, "rq posted": 5}


def marked(in_drgn, driver, device):
    return [line.split()[0] for line in in_drgn.compared("qp", driver, device) if line.endswith(in_drgn.DIFFERS)]


def test_equal_objects_have_no_mark(in_drgn):
    device = {0x40: {"state": "RTS", "sq posted": 7, "rq posted": 3, "more": 1}}
    assert marked(in_drgn, {0x40: DRIVER}, device) == []
    assert "    more       -          1" in in_drgn.compared("qp", {0x40: DRIVER}, device)


@pytest.mark.parametrize("change, name", [({"state": "ERR"}, "state"), ({"sq posted": 6}, "sq"),
                                          ({"rq posted": 6}, "rq")])
def test_a_difference_is_marked(in_drgn, change, name):
    assert marked(in_drgn, {0x40: DRIVER}, {0x40: DRIVER | change}) == [name]


def test_the_counter_of_a_receive_queue_wraps(in_drgn):
    assert not in_drgn.differ("rq posted", 1, 0xffffffff) and in_drgn.differ("rq posted", 0xffffffff, 1)


def test_an_object_of_one_side_is_marked(in_drgn):
    lines = in_drgn.compared("qp", {0x40: DRIVER}, {0x41: DRIVER})
    assert lines == ["qp 0x40: only the driver has it  <- differs", "qp 0x41: only the device has it  <- differs"]
