# SPDX-License-Identifier: GPL-2.0-or-later
"""The tree in which guest programs are built."""

import os
import pathlib
import subprocess

import pytest

from lab.build import builder


def test_only_changed_sources_are_touched(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a.c", "b.c", "c.o"):
        (source / name).write_text(name)
    tools = builder.Builder(tmp_path)
    tools.bring(source, "x")
    kept = (tools.work / "x" / "a.c").stat().st_mtime_ns
    (tools.work / "x" / "a.o").write_text("product")
    (source / "b.c").unlink()
    (source / "d.c").write_text("d")
    tools.bring(source, "x")
    assert sorted(path.name for path in (tools.work / "x").iterdir()) == ["a.c", "a.o", "d.c"]
    assert (tools.work / "x" / "a.c").stat().st_mtime_ns == kept


def test_files_with_unusual_names_are_brought_and_no_others_are_removed(tmp_path):
    """A name may have a newline, and after it the path of another file."""
    source, other = tmp_path / "source", tmp_path / "other"
    other.write_text("not a copy")
    trap = source / f"a\n{other}"
    trap.parent.mkdir(parents=True)
    trap.write_text("trap")
    (source / os.fsdecode(b"b\xfccher.c")).write_text("latin-1")
    tools = builder.Builder(tmp_path)
    for _ in range(2):
        tools.bring(source, "x")
    assert other.read_text() == "not a copy" and len(builder.wanted(tools.work / "x")) == 2
    (source / os.fsdecode(b"b\xfccher.c")).unlink()
    tools.bring(source, "x")
    assert builder.wanted(tools.work / "x") == {trap.relative_to(source)}


def test_a_tree_without_a_system_uses_this_machines_compiler(tmp_path):
    (tmp_path / "builder").mkdir()
    (tmp_path / "builder" / builder.HERE).touch()
    tools = builder.Builder(tmp_path)
    tools.sh("compiling", "cc --version >version; pwd >place", "test")
    assert (tools.work / "version").read_text() and tools.work == pathlib.Path(tools.inside)
    assert (tools.work / "place").read_text() == f"{tools.inside}\n"


@pytest.mark.parametrize("allowed", ["unshare", "nothing"])
def test_programs_in_the_tree_find_the_map_of_their_memory_where_proc_cannot_be_mounted(tmp_path, allowed):
    """objtool looks for the line of the stack. allowed: a container may let root make a mount namespace, and yet deny
    mounts in it."""
    tree, programs = tmp_path / "tree", tmp_path / "programs"
    for directory in (tree / "proc", programs):
        directory.mkdir(parents=True)
    for name, script in {"unshare": 'shift; exec "$@"' if allowed == "unshare" else "exit 1", "mount": "exit 32",
                         "chroot": 'cd "$1"; shift; exec "$@"'}.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    argv = ["sh", "-ec", builder.AS_ROOT, "sh", tree, "grep stack proc/self/maps"]
    for _ in range(2):
        done = subprocess.run(argv, env={"PATH": f"{programs}:{os.environ['PATH']}"}, stdout=subprocess.PIPE, text=True,
                              check=False)
        assert done.returncode == 0 and "[stack]" in done.stdout
    assert [path.name for path in (tree / "proc" / "self").iterdir()] == ["maps"]
