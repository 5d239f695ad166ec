# SPDX-License-Identifier: GPL-2.0-or-later
"""The patches that add the device to QEMU's tree apply and are complete."""

import pathlib
import re
import subprocess

import pytest

from lab import clean
from lab.base import paths, ui
from lab.build import cache, debian, qemu_tree

PATCHES = paths.ROOT / "packaging" / "qemu"
# Parts of two files of QEMU: the lines that the third patch needs as context, and what follows them.
KCONFIG = """config ROCKER
    bool
    default y if PCI_DEVICES
    depends on PCI && MSI_NONBROKEN

config CAN_BUS
    bool

config CAN_SJA1000
    bool
    default y if PCI_DEVICES
"""
MESON = """), if_false: files('rocker/qmp-norocker.c'))
system_ss.add(files('rocker/rocker-hmp-cmds.c'))

subdir('can')
"""


def _files(tree: pathlib.Path) -> dict[pathlib.Path, bytes]:
    return {path.relative_to(tree): path.read_bytes() for path in tree.rglob("*") if path.is_file()}


@pytest.fixture(name="source")
def patched(tmp_path):
    """A QEMU tree with the patches."""
    net = tmp_path / "qemu" / "hw" / "net"
    net.mkdir(parents=True)
    (net / "Kconfig").write_text(KCONFIG)
    (net / "meson.build").write_text(MESON)
    qemu_tree.patch(tmp_path / "qemu", tmp_path)
    return tmp_path / "qemu"


def test_qemu_finds_the_folder(source):
    assert (source / "hw" / "net" / "meson.build").read_text() == f"{MESON}subdir('pib-hca')\n"
    entry = "source pib-hca/Kconfig\n\nconfig CAN_BUS"
    assert (source / "hw" / "net" / "Kconfig").read_text() == KCONFIG.replace("config CAN_BUS", entry)


def test_the_program_patch_applies_the_patches_to_a_tarball(source, tmp_path):
    """patch finds a hunk with fewer lines of context behind it than before it only at the end of a file."""
    net = tmp_path / "tarball" / "hw" / "net"
    net.mkdir(parents=True)
    (net / "Kconfig").write_text(KCONFIG)
    (net / "meson.build").write_text(MESON)
    for file in sorted((tmp_path / "series").glob("*.patch")):
        subprocess.run(["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "--input", file],
                       cwd=tmp_path / "tarball", check=True)
    assert _files(tmp_path / "tarball") == _files(source)


def test_the_whole_glue_is_compiled_there(source):
    folder = source / "hw" / "net" / "pib-hca"
    listed = set(re.findall(r"'(\w+\.c)'", (folder / "meson.build").read_text()))
    assert listed == {path.name for path in (paths.ROOT / "qemu-hw" / "glue").glob("pib_hca_*.c")}
    assert {path.name for path in folder.glob("*.c")} == listed and "config PIB_HCA" in (folder / "Kconfig").read_text()


def test_headers_of_the_glue_are_there(source):
    there = {path.name for path in source.rglob("*.h")}
    asked = {name for path in (source / "hw" / "net" / "pib-hca").glob("*.[ch]")
             for name in re.findall(r'^#include "((?:pib_|idle|short)\w+\.h)"', path.read_text(), re.MULTILINE)}
    assert asked and asked <= there


def test_the_core_configures_by_itself(source):
    core = source / "subprojects" / "pib-hca"
    said = subprocess.run(["meson", "setup", core / "build", core], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert sorted(path.name for path in core.glob("*/meson.build")) == ["meson.build"] * 3


def test_warnings_of_the_core_are_no_errors_in_a_clone_of_qemu(source):
    """QEMU's configure makes all warnings errors if its source has .git; Debian's source has none."""
    (source / "meson.build").write_text("project('qemu', 'cpp')\nsubproject('pib-hca')\n")
    subprocess.run(["meson", "setup", "-Dwerror=true", source / "build", source], check=True, capture_output=True)
    commands = (source / "build" / "compile_commands.json").read_text()
    assert commands.count("-std=c++23") > 50 and "-Werror" not in commands


def test_the_same_files_make_the_same_patches(source, tmp_path):
    subprocess.run([PATCHES / "series.py", tmp_path / "again"], check=True)
    made = {path.name: path.read_bytes() for path in sorted((tmp_path / "series").iterdir())}
    assert made == {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} and source
    assert [name[:5] for name in sorted(made)] == ["0001-", "0002-", "0003-"]


def test_a_tree_that_has_changed_is_a_failure(tmp_path):
    (tmp_path / "qemu" / "hw" / "net").mkdir(parents=True)
    with pytest.raises(ui.LabError, match="applying 0003-"):
        qemu_tree.patch(tmp_path / "qemu", pathlib.Path(tmp_path))


def test_nothing_frees_the_tree_while_it_is_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(debian.Archive, "update", lambda _self, _log: None)
    monkeypatch.setattr(qemu_tree.qemu_headers, "fetch", lambda work, _version, _archive: work / "source")
    monkeypatch.setattr(qemu_tree, "patch", lambda _source, _work: None)
    monkeypatch.setattr(qemu_tree, "_compile", lambda _source, build: build.mkdir())
    with qemu_tree.compiled("1:10.0.2+ds-2", []) as build:
        clean.clean([], None, True)
        assert build.is_dir()
    assert cache.entries() == []
