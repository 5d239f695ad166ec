# SPDX-License-Identifier: GPL-2.0-or-later
"""The tree in which guest programs are built."""

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


def test_a_tree_without_a_system_uses_this_machines_compiler(tmp_path):
    (tmp_path / "builder").mkdir()
    (tmp_path / "builder" / builder.HERE).touch()
    tools = builder.Builder(tmp_path)
    tools.sh("compiling", "cc --version >version; pwd >place", "test")
    assert (tools.work / "version").read_text() and tools.work == pathlib.Path(tools.inside)
    assert (tools.work / "place").read_text() == f"{tools.inside}\n"
