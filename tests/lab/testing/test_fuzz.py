# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib fuzz: its targets, its corpus as text, and the table of its runs."""

import re

import pytest

from lab import __main__ as command
from lab.base import paths, ui
from lab.build import host_build
from lab.fabric import up
from lab.testing import fuzz, fuzz_corpus, fuzz_report
from lab.testing.fuzz import Wanted
from lab.testing.fuzz_report import Row

OUTPUT = """INFO: Loaded 1 modules   (5000 inline 8-bit counters): 5000 [0x1, 0x2),
#2\tINITED cov: 281 ft: 523 corp: 6/4736b exec/s: 0 rss: 35Mb
#628972\tDONE   cov: 353 ft: 853 corp: 57/37Kb lim: 6970 exec/s: 39310 rss: 485Mb
stat::number_of_executed_units: 628972
"""
# A program in place of a target's: lists its inputs in the file `seen`, prints `output` and ends with `status`.
PROGRAM = """#!/bin/sh
case "$*" in *--write-seeds*) printf seed >"$2/seed"; exit 0;; esac
case "$*" in *set_cover_merge*) cp "$4"/seed "$3"; exit 0;; esac
for word; do work="$word"; done
ls "$work" >"$work/../seen"
cat <<'END'
{output}
END
exit {status}
"""


def test_each_target_is_in_meson_build_and_says_what_it_covers():
    declared = re.findall(r"^ *(?:fuzz_targets \+= \{)?'(\w+)': \{'sources'", (fuzz.FOLDER / "meson.build").read_text(),
                          re.MULTILINE)
    found = fuzz.targets()
    assert sorted(declared) == sorted(found)
    assert {name: words for name, words in found.items() if not words.endswith(".")} == {}


def test_without_arguments_the_targets_are_listed(capsys, monkeypatch):
    monkeypatch.setattr(fuzz_report, "load", lambda: {"burst": Row(1_000_000, 60, 400, 5000)})
    monkeypatch.setattr("sys.argv", ["pib", "fuzz"])
    assert command.main() == 0
    shown = capsys.readouterr().out
    assert "burst: Bursts of packets" in shown
    assert "1,000,000 executions, 400 of 5,000 edges" in shown and "no recorded run" in shown


@pytest.mark.parametrize("words, seconds", [([], fuzz.DEFAULT_S), (["--seconds", "5"], 5), (["--hours", "0.5"], 1800)])
def test_options_set_the_time_of_a_target(monkeypatch, words, seconds):
    seen = []
    monkeypatch.setattr(fuzz, "fuzz", lambda wanted: seen.append(wanted) or 0)
    monkeypatch.setattr("sys.argv", ["pib", "fuzz", "burst", *words])
    assert command.main() == 0
    assert seen == [Wanted("burst", seconds)]


def test_an_unknown_target_is_an_error():
    with pytest.raises(ui.LabError, match="no target nothing.*burst.*or all"):
        fuzz.fuzz(Wanted("nothing"))


def test_figures_of_a_run_are_parsed():
    assert fuzz_report.parse(OUTPUT, 15) == Row(628_972, 15, 353, 5000)
    with pytest.raises(ui.LabError):
        fuzz_report.parse("nothing", 1)


def test_runs_add_up_in_the_table(tmp_path):
    file = tmp_path / "fuzzing.md"
    file.write_text(f"before\n\n{fuzz_report.HEAD}| all | 0 | 0 | | |\n\nafter\n")
    fuzz_report.add("mad", Row(1000, 10, 90, 200), file)
    fuzz_report.add("burst", Row(5, 1, 30, 100), file)
    fuzz_report.add("mad", Row(2000, 20, 95, 210), file)
    assert fuzz_report.load(file) == {"burst": Row(5, 1, 30, 100), "mad": Row(3000, 30, 95, 210)}
    assert file.read_text() == (f"before\n\n{fuzz_report.HEAD}| `burst` | 5 | 1 | 30 | 100 |\n"
                                "| `mad` | 3,000 | 30 | 95 | 210 |\n| all | 3,005 | 31 | | |\n\nafter\n")


def test_the_table_of_the_tree_can_be_added_to(tmp_path):
    file = tmp_path / "fuzzing.md"
    file.write_text(fuzz_report.FILE.read_text())
    before = fuzz_report.load(file)
    fuzz_report.add("burst", Row(7, 1, 30, 100), file)
    assert fuzz_report.load(file)["burst"].executions == before.get("burst", Row(0, 0, 0, 0)).executions + 7
    assert set(before) <= set(fuzz.targets())


def test_a_corpus_is_text(tmp_path):
    path = tmp_path / "corpus" / f"mad{fuzz_corpus.SUFFIX}"
    inputs = [b"\xff\x00longer", b"\x01", b"", b"\x01", bytes(fuzz_corpus.MOST_BYTES + 1)]
    assert fuzz_corpus.load(path) == []
    assert fuzz_corpus.save(path, inputs) == 2
    assert fuzz_corpus.load(path) == [b"\x01", b"\xff\x00longer"]
    assert path.read_text().isascii()


def test_a_corpus_has_a_limit(tmp_path):
    path = tmp_path / "x.inputs"
    kept = fuzz_corpus.save(path, (number.to_bytes(2) * 200 for number in range(1, 1000)))
    assert 0 < kept < 999 and path.stat().st_size < 2 * fuzz_corpus.MOST_TEXT


def test_recorded_inputs_are_parsed():
    for path in (fuzz.FOLDER / "recorded").rglob("*.hex"):
        assert fuzz_corpus.recorded(path), path


@pytest.fixture(name="program")
def a_program(tmp_path, monkeypatch):
    """Makes a target's programs, with the output and the status that a test gives."""
    def make(output, status=0):
        for kind in ("fuzz", "replay"):
            path = tmp_path / "build" / "tests" / "fuzz" / f"burst-{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(PROGRAM.format(output=output, status=status))
            path.chmod(0o755)
    monkeypatch.setattr(paths, "RUN", tmp_path / "run")
    monkeypatch.setattr(up, "machine", lambda *_lists, **_rest: None)
    monkeypatch.setattr(fuzz.shutil, "which", lambda _name: "/bin/true")
    monkeypatch.setattr(host_build, "build", lambda _directory, more: tmp_path / "build")
    return make


def test_a_run_begins_with_all_inputs_and_keeps_few(program, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fuzz, "FOLDER", tmp_path / "fuzz")
    (tmp_path / "fuzz" / "recorded" / "burst").mkdir(parents=True)
    (tmp_path / "fuzz" / "burst_fuzz.cc").write_text("// SPDX\n// Bursts.\n")
    (tmp_path / "fuzz" / "recorded" / "burst" / "x.hex").write_text("# one\n00 01 # two\n")
    monkeypatch.setattr(fuzz_report, "FILE", tmp_path / "fuzzing.md")
    program(OUTPUT)
    assert fuzz.fuzz(Wanted("burst", 1, keep=True)) == 0
    assert "628,972 executions, 353 of 5,000 edges" in capsys.readouterr().out
    assert len((tmp_path / "run" / "fuzz" / "seen").read_text().split()) == 2
    assert fuzz_corpus.load(tmp_path / "fuzz" / "corpus" / "burst.inputs") == [b"seed"]


def test_an_input_that_fails_is_printed_as_text(program, tmp_path):
    failing = tmp_path / "crash-1"
    failing.write_bytes(bytes(range(30)))
    program(f"==1==ERROR: AddressSanitizer\\nTest unit written to {failing}", status=77)
    with pytest.raises(ui.LabError) as told:
        fuzz.fuzz(Wanted("burst", 1))
    assert "tests/fuzz/recorded/burst/WHAT_IT_IS.hex" in str(told.value)
    assert "00 01 02" in str(told.value) and "18 19 1a 1b 1c 1d" in str(told.value)
