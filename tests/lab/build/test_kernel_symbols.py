# SPDX-License-Identifier: GPL-2.0-or-later
"""Symbols of kernels that were built in a tree: the user's own, and the lab's kernels with checks."""

import json
import pathlib
import struct

import pytest

from lab.base import ui
from lab.build import debug_kernel, elf, kernel_symbols, kernel_tree
from lab.develop import crash, dump, gdb, kernel_place
from lab.fabric.wanted import Wanted
from lab.guests import vm

VERSION = "7.0.1-mine"
ID = bytes(range(20))
NOTES_AT = 0xffffffff826d3994
CONFIG = "CONFIG_DEBUG_INFO=y\nCONFIG_DEBUG_INFO_DWARF5=y\n"
MAP = "ffffffff81e01030 T asm_exc_divide_error\n0000000000000000 D __per_cpu_start\n"
REGISTERS = "IDT=     fffffe0000000000 00000fff\n"
GATE = "fffffe0000000000: 0x00101030 0x8e208e00 0xffffffff 0x00000000\n"
MOVED = 0xffffffff8e201030 - 0xffffffff81e01030     # by GATE and MAP
MODULE = "drivers/infiniband/core/ib_core"


def note(owner: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<III", len(owner), len(value), kind) + b"".join(
        part + bytes(-len(part) % 4) for part in (owner, value))


def elf_file(notes: bytes) -> bytes:
    """An ELF file with one segment of notes."""
    head = struct.pack("<4sBB10xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 4, 4, 120, NOTES_AT, 0, len(notes), len(notes), 4) + notes


def vmlinux(build_id: bytes = ID) -> bytes:
    return elf_file(note(b"Xen\0", 3, b"12345") + note(b"GNU\0", 3, build_id))


def lay_out(tree: pathlib.Path) -> None:
    """Puts into a directory what the debuggers need of a built tree."""
    for name in (kernel_tree.RELEASE, f"{MODULE}.ko", "scripts/gdb/vmlinux-gdb.py", "scripts/gdb/linux/Makefile"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("")
    (tree / kernel_tree.RELEASE).write_text(f"{VERSION}\n")
    (tree / kernel_tree.ORDER).write_text(f"{MODULE}.o\n")
    (tree / ".config").write_text(CONFIG)
    (tree / "System.map").write_text(MAP)
    (tree / "vmlinux").write_bytes(vmlinux())


def an_image(directory: pathlib.Path) -> pathlib.Path:
    (directory / "builder").mkdir(parents=True)
    (directory / "kernel-version").write_text(f"{VERSION}\n")
    return directory


@pytest.fixture(name="made")
def constants_that_were_made(monkeypatch, tmp_path):
    """The sources for which constants.py was asked."""
    asked: list[pathlib.Path] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache" / "pib-hca").mkdir(parents=True)
    monkeypatch.setattr(kernel_symbols, "_make_constants", lambda _tools, source, _version: asked.append(source))
    return asked


@pytest.fixture(name="tree")
def built_tree(tmp_path):
    lay_out(tmp_path / "linux")
    return tmp_path / "linux"


@pytest.fixture(name="base")
def image_with_the_tree(tmp_path, tree):
    base = an_image(tmp_path / "guest-trixie-0123456789ab-own-0123456789ab")
    (base / kernel_tree.MARK).write_text(str(tree))
    return base


# -- build IDs ----------------------------------------------------------------------

def test_the_build_id_of_a_file_is_found_among_its_notes(tmp_path):
    file = tmp_path / "vmlinux"
    file.write_bytes(vmlinux())
    assert elf.build_id(file) == elf.BuildId(NOTES_AT + 12 + 4 + 8 + 12 + 4, ID)


@pytest.mark.parametrize("contents, said", [
    (b"", "cannot be read"), (b"#!/bin/sh\n" + bytes(100), "no 64-bit ELF file"),
    (elf_file(note(b"Xen\0", 3, b"12345")), "has no build ID"),
    (elf_file(note(b"GNU\0", 3, ID))[:70], "cannot be read")])
def test_a_file_without_a_build_id_is_refused(tmp_path, contents, said):
    (tmp_path / "vmlinux").write_bytes(contents)
    with pytest.raises(ui.LabError, match=f"{said}.*uild it again"):
        elf.build_id(tmp_path / "vmlinux")


# -- trees --------------------------------------------------------------------------

def test_the_symbols_of_an_own_kernel_are_those_of_its_tree(base, tree, made):
    known = kernel_symbols.ensure(base)
    assert (known.vmlinux, known.source, known.sources) == (tree / "vmlinux", tree, {})
    assert known.address("asm_exc_divide_error") == 0xffffffff81e01030
    assert [path.resolve() for path in known.modules.iterdir()] == [tree / f"{MODULE}.ko"]
    assert (known.scripts / "vmlinux-gdb.py").is_file() and not known.scripts.is_relative_to(tree)
    assert known.again == f"./pib up --kernel-dir {tree}"
    assert kernel_symbols.ensure(base) == known and len(made) == 1
    (tree / "vmlinux").write_bytes(vmlinux(ID[::-1]))
    assert kernel_symbols.ensure(base).directory != known.directory


def test_a_tree_of_o_has_its_source_elsewhere(base, tree, made, tmp_path):
    (tree / "scripts").rename(tmp_path / "scripts")
    assert kernel_symbols.ensure(base).scripts is None and not made
    lay_out(tmp_path / "source")
    (tmp_path / "source" / "Makefile").write_text("")
    (tree / "source").symlink_to(tmp_path / "source")
    (tree / kernel_tree.ORDER).write_text(f"kernel/{MODULE}.ko\n")
    known = kernel_symbols.ensure(base)
    assert known.source == tree / "source" and known.scripts


@pytest.mark.parametrize("config, said", [
    ("", "lacks CONFIG_DEBUG_INFO=y"), (CONFIG + "CONFIG_DEBUG_INFO_REDUCED=y\n", "has CONFIG_DEBUG_INFO_REDUCED=y"),
    (CONFIG + "CONFIG_DEBUG_INFO_SPLIT=y\n", "has CONFIG_DEBUG_INFO_SPLIT=y")])
def test_a_kernel_without_debug_information_is_refused_with_the_options(base, tree, made, config, said):
    (tree / ".config").write_text(config)
    options = r"--enable DEBUG_KERNEL --enable DEBUG_INFO_DWARF_\w+ && make olddefconfig bzImage modules"
    with pytest.raises(ui.LabError, match=f"{said}.*scripts/config .*{options} .*pib up --kernel-dir"):
        kernel_symbols.ensure(base)
    assert not made


@pytest.mark.parametrize("name", [".config", "vmlinux", "System.map"])
def test_a_tree_that_was_cleaned_is_refused(base, tree, made, name):
    (tree / name).unlink()
    with pytest.raises(ui.LabError, match=rf"has no {name},.*make bzImage modules .*pib up --kernel-dir"):
        kernel_symbols.ensure(base)
    assert not made


@pytest.mark.parametrize("kind", debug_kernel.KINDS)
def test_the_symbols_of_a_kernel_with_checks_are_in_the_labs_tree(tmp_path, made, kind):
    base = an_image(tmp_path / f"guest-trixie-{kind}-0123456789ab")
    tree = base / "builder" / "usr" / "src" / "linux"
    lay_out(tree)
    known = kernel_symbols.ensure(base)
    assert known.vmlinux == tree / "vmlinux" and len(made) == 1 and known.again == f"./pib up --kernel {kind}"
    assert known.sources == {"/usr/src/linux": str(tree)}
    assert "CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y" in debug_kernel.wanted_config(kind).splitlines()
    assert "CONFIG_PROC_KCORE=y" in debug_kernel.wanted_config(kind).splitlines(), "for VMCOREINFO"


def test_a_kernel_with_checks_of_an_older_pib_is_not_for_the_user_to_build(tmp_path, made):
    """Guests with this kernel may still run after an update of pib. Advice to run make in the cache would be wrong."""
    base = an_image(tmp_path / "guest-trixie-kasan-0123456789ab")
    lay_out(base / "builder" / "usr" / "src" / "linux")
    (base / "builder" / "usr" / "src" / "linux" / "vmlinux").unlink()
    with pytest.raises(ui.LabError, match=r"made by an older pib.*of this pib:  \./pib up --kernel kasan$"):
        kernel_symbols.ensure(base)
    assert not made


def test_the_labs_tree_keeps_its_symbols(tmp_path, monkeypatch):
    """The tree is tidied after the build, because its objects take gigabytes."""
    tree = tmp_path / "usr" / "src" / "linux"
    lay_out(tree)
    for name in ("vmlinux.o", "vmlinux.map", ".tmp_vmlinux1", "kernel/fork.o", "scripts/x.o"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("")

    class Tools:
        def __init__(self):
            self.tree = tmp_path

        def sh(self, title, script, log):
            if title.startswith("tidying"):
                ui.run(title, ["sh", "-ec", script.replace("/usr/src", str(tmp_path / "usr" / "src"))], log)
    monkeypatch.setattr(ui, "log_path", lambda name: tmp_path / name)
    assert debug_kernel._compile(Tools()) == VERSION
    left = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    assert {"vmlinux", "System.map", "scripts/x.o"} <= left
    assert not left & {"vmlinux.o", "vmlinux.map", ".tmp_vmlinux1", "kernel/fork.o"}


# -- the running kernel -------------------------------------------------------------

@pytest.fixture(name="memory")
def memory_of_a_guest(monkeypatch):
    """The build ID in a guest's memory, which a test may change."""
    found = {"id": ID}

    def line(_monitor, words):
        if words.startswith("info"):
            return REGISTERS
        if words.endswith("0xfffffe0000000000"):
            return GATE
        assert words == f"x /5wx {NOTES_AT + MOVED + 40:#x}"
        numbers = struct.unpack("<5I", found["id"])
        return (f"{NOTES_AT + 40:016x}: " + " ".join(f"{number:#010x}" for number in numbers[:4])
                + f"\r\n{NOTES_AT + 56:016x}: {numbers[4]:#010x}\r\n")
    monkeypatch.setattr(vm, "monitor_line", line)
    return found


def test_the_place_of_an_own_kernel_is_found_by_its_tree(base, made, memory):
    assert memory and kernel_place.offset(pathlib.Path("x"), kernel_symbols.ensure(base)) == MOVED and len(made) == 1


def test_a_kernel_that_was_built_again_since_the_boot_is_noticed(base, tree, made, memory):
    memory["id"] = ID[::-1]
    with pytest.raises(ui.LabError, match=f"another build than {tree}/vmlinux. Boot .*pib up --kernel-dir {tree}"):
        kernel_place.offset(pathlib.Path("x"), kernel_symbols.ensure(base))
    (tree / "System.map").write_text(MAP.replace("1030 T", "1040 T"))
    with pytest.raises(ui.LabError, match=f"does not run the Linux {VERSION} of {tree}.*pib up --kernel-dir {tree}"):
        kernel_place.offset(pathlib.Path("x"), kernel_symbols.ensure(base))
    assert len(made) == 1


def test_a_dump_whose_kernel_was_built_again_is_refused(lab, base, tree, made, monkeypatch, tmp_path):
    """The symbols that are there now are of another kernel than the memory."""
    lab.up(Wanted(1), [])
    monkeypatch.setattr(dump, "notes", lambda *_: "OSRELEASE=7.0.1")
    monkeypatch.setattr(dump.evidence, "objects", lambda _monitor: [])
    monkeypatch.setattr(crash.drgn, "ensure", lambda: pathlib.Path("/drgn"))
    monkeypatch.setattr(crash.relay, "run", lambda _argv: 7)
    facts = dump._facts(lab, "vm0", kernel_symbols.ensure(base), pathlib.Path("x"))
    dump.about(tmp_path / "kept").write_text(json.dumps(facts))
    assert made and crash.open_dump(tmp_path / "kept", []) == 7
    (tree / "vmlinux").write_bytes(vmlinux(ID[::-1]))
    refused = "kept is of a kernel whose symbols are gone.*pib crash --output FILE NODE"
    with pytest.raises(ui.LabError, match=refused):
        crash.open_dump(tmp_path / "kept", [])
    (tree / "vmlinux").unlink()
    with pytest.raises(ui.LabError, match=refused):
        crash.open_dump(tmp_path / "kept", [])


def test_gdb_gets_the_places_of_a_tree(lab, base, tree, made, request, tmp_path):
    lab.up(Wanted(1), [])
    memory = request.getfixturevalue("memory")
    known = kernel_symbols.ensure(base)
    found = gdb.parameters_of(lab, "vm0", known, tmp_path / "socket")
    assert memory and made and found["offset"] == MOVED and found["per_cpu_from_0"]
    assert (found["vmlinux"], found["source"]) == (str(tree / "vmlinux"), str(tree))
    assert found["scripts"] == str(known.scripts) and found["modules"][-1] == str(known.modules)
    (tree / "System.map").write_text(MAP.replace("0000000000000000 D", "ffffffff83e00000 D"))
    assert not gdb.parameters_of(lab, "vm0", known, tmp_path / "socket")["per_cpu_from_0"]
