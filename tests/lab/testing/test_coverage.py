# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of ./pib test coverage, and the reasons for branches without a test."""
import json

import pytest

from lab.base import paths, ui
from lab.base.counts import Count
from lab.build import host_build
from lab.testing import coverage, runners


def file(name, *lines):
    """A file of gcovr's report. lines: the count of each, and the counts of its branches."""
    return {"file": name, "lines": [{"line_number": number, "count": line[0],
                                     "branches": [{"count": count} for count in line[1:]]}
                                    for number, line in enumerate(lines, 1)]}


def test_files_count_for_their_folder_their_part_and_the_total():
    shares = coverage.by_folder({"files": [
        file("ib/wire/crc.cc", (1, 1, 0), (1,), (0,)), file("ib/wire/mad.h", (1,)), file("ib/link/x.cc", (0, 0)),
        file("qemu-hw/core/device.cc", (5, 1, 1, 0)), file("qemu-hw/core/port/sma.cc", (0, 0))]})
    assert {name: (str(lines), str(branches)) for name, (lines, branches) in shares.items() if lines.total} == {
        "ib/wire": ("75.0 %", "50.0 %"), "ib/link": ("0.0 %", "0.0 %"), "ib, all": ("60.0 %", "33.3 %"),
        "qemu-hw/core": ("100.0 %", "66.7 %"), "qemu-hw/core/port": ("0.0 %", "0.0 %"),
        "qemu-hw/core, all": ("50.0 %", "50.0 %"), "all": ("57.1 %", "42.9 %")}


def test_lines_without_code_do_not_count():
    one = file("ib/wire/crc.cc", (1,), (0, 0))
    one["lines"][1]["gcovr/noncode"] = True
    assert coverage.markdown(coverage.by_folder({"files": [one]})) == "\n".join([
        "| folder | lines | branches |", "|---|---|---|",
        "| ib/wire | 100.0 % | – |", "| ib, all | 100.0 % | – |", "| all | 100.0 % | – |"])


def test_a_condition_of_a_parser_without_a_test_is_found():
    name = coverage.PARSERS[0]
    source = (paths.ROOT / name).read_text().splitlines()
    lines = [(1,)] * len(source)
    lines[10] = (1, 1, 0)
    other = file("ib/wire/crc.cc", (1, 0))
    assert coverage.unreached({"files": [file(name, *lines), other]}) == [
        coverage.Condition(name, 11, source[10].strip())]


def test_reasons_are_read_by_file():
    text = "# Title\n\n## a/b.cc\n\n* `if (x) {`: never,\n  because\n* `y`: no\n\n## c.cc\n* `z`:\n  far\n* `none`:\n"
    assert coverage.reasons(text) == {"a/b.cc": {"if (x) {", "y"}, "c.cc": {"z"}}


def test_each_reason_is_of_a_condition_in_a_parser():
    given = coverage.reasons((paths.ROOT / coverage.REASONS).read_text())
    assert given
    for name, conditions in given.items():
        assert name in coverage.PARSERS
        lines = {line.strip() for line in (paths.ROOT / name).read_text().splitlines()}
        assert conditions <= lines, name


def test_each_parser_exists():
    assert [name for name in coverage.PARSERS if not (paths.ROOT / name).is_file()] == []


def test_the_guide_for_contributors_has_the_table_of_all_folders():
    table = (paths.ROOT / "CONTRIBUTING.md").read_text()
    for name in (*coverage.FOLDERS, *(f"{part}, all" for part in coverage.PARTS), "all"):
        assert f"\n| {name} | " in table, f"{name}: put the table of ./pib test coverage into CONTRIBUTING.md"


def test_each_folder_of_measured_parts_is_a_row_of_its_own():
    """A folder without a row would count in the row of the folder above it, or in none."""
    sources = [path.relative_to(paths.ROOT) for part in (*coverage.PARTS, "link-memory", "qemu-hw/replay")
               for path in (paths.ROOT / part).rglob("*.cc")]
    assert len(sources) > 200
    assert {str(path.parent) for path in sources} - set(coverage.FOLDERS) == set()


def test_lines_that_an_earlier_run_has_executed_do_not_count(monkeypatch, tmp_path, capsys):
    build = tmp_path / "build"
    (build / "ib").mkdir(parents=True)
    counts = build / "ib" / "crc.gcda"
    counts.touch()
    monkeypatch.setattr(host_build, "COVERAGE", build)
    monkeypatch.setattr(paths, "RUN", tmp_path)
    monkeypatch.setattr(runners, "meson", lambda *_: Count(passed=int(not counts.exists())))
    monkeypatch.setattr(ui, "run", lambda *_, **_options: (tmp_path / coverage.REPORT).write_text('{"files": []}'))
    assert coverage.coverage(None) == Count(passed=2) and "| folder |" in capsys.readouterr().out


@pytest.mark.parametrize("compiler, version, expected", [
    ("gcc", "12.2.0", Count(failed=1)), ("gcc", "14.2.0", Count()), ("clang", "12.0.1", Count())])
def test_a_missing_reason_is_a_failure_with_the_compiler_of_the_list_only(monkeypatch, tmp_path, compiler, version,
                                                                         expected):
    info = tmp_path / "meson-info"
    info.mkdir()
    (info / "intro-compilers.json").write_text(json.dumps({"host": {"cpp": {"id": compiler, "version": version}}}))
    report = json.dumps({"files": [file(coverage.PARSERS[0], (1, 1, 0))]})
    monkeypatch.setattr(host_build, "COVERAGE", tmp_path)
    monkeypatch.setattr(paths, "RUN", tmp_path)
    monkeypatch.setattr(runners, "meson", lambda *_: Count())
    monkeypatch.setattr(ui, "run", lambda *_, **_options: (tmp_path / coverage.REPORT).write_text(report))
    assert coverage.coverage(None) == expected
