# SPDX-License-Identifier: GPL-2.0-or-later
"""The tree in which guest programs are built."""

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
