# SPDX-License-Identifier: GPL-2.0-or-later
"""The tree in which guest programs are built."""

import os
import pathlib

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
