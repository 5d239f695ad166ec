# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib replay: its arguments are those of pib-replay; ./pib up --record: each HCA has a file of its own."""

import pathlib
import signal

import pytest

from lab import __main__ as command_line
from lab.base import paths, ui
from lab.develop import gdb, replay
from lab.fabric.wanted import Wanted


@pytest.fixture(name="played")
def programs_that_are_started(tmp_path, monkeypatch):
    """The command lines of started programs. The recording is run.rec in the working directory."""
    started = []

    def run(words):
        started.append(words)
        return 1
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.rec").write_bytes(b"")
    monkeypatch.setattr(replay, "program", lambda: pathlib.Path("pib-replay"))
    monkeypatch.setattr(replay.relay, "run", run)
    return started


def pib(*words):
    options = command_line.parser().parse_args(words)
    return options.function(options)


def test_options_are_passed_on(played):
    status = pib("replay", "run.rec", "--until", "2s", "--dump", "qp", "0x40", "--dump", "trace", "--list", "--log",
                 "--tolerant")
    assert status == 1
    assert played == [["pib-replay", "run.rec", "--until", "2s", "--dump", "qp 0x40", "--dump", "trace", "--list",
                       "--log", "--tolerant"]]


def test_a_replay_in_gdb_leaves_ctrl_c_to_gdb(played, monkeypatch):
    """Python's handler of Ctrl-C would end pib, and gdb with it; gdb's handler interrupts the replay."""
    handlers = []

    def relayed(words):
        handlers.append(signal.getsignal(signal.SIGINT))
        played.append(words)
        return 3
    monkeypatch.setattr(gdb, "program", lambda: "/usr/bin/gdb")
    monkeypatch.setattr(gdb.relay, "run", relayed)
    before = signal.getsignal(signal.SIGINT)
    assert pib("replay", "run.rec", "--gdb") == 3
    assert played[0][0] == "/usr/bin/gdb" and played[0][-3:] == ["--args", "pib-replay", "run.rec"]
    assert handlers != [before] and signal.getsignal(signal.SIGINT) == before


def test_the_usage_names_the_file_before_words_that_would_take_it(capsys):
    with pytest.raises(SystemExit):
        pib("replay", "--help")
    assert capsys.readouterr().out.startswith("usage: pib replay [-h] FILE [--until TIME] [--dump WHAT [NUMBER]]... ")


def test_a_missing_recording_is_an_error(played):
    with pytest.raises(ui.LabError, match="none.rec: there is no such recording.*--record"):
        pib("replay", "none.rec")
    assert not played


def test_recordings_of_guests_are_named_in_place_of_the_name_that_was_given_to_up(played, tmp_path):
    for name in ("two[1]-vm1.rec", "two[1]-vm0.rec", "two1-vm0.rec"):
        (tmp_path / name).touch()
    with pytest.raises(ui.LabError, match=r"guest: two\[1\]-vm0.rec, two\[1\]-vm1.rec\. .*replay 'two\[1\]-vm0.rec'$"):
        pib("replay", "two[1].rec")
    assert not played


def test_a_missing_installed_program_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "INSTALLED", {"x": "y"})
    monkeypatch.setattr(paths, "REPLAY", tmp_path / "pib-replay")
    with pytest.raises(ui.LabError, match="Install the package qemu-pib-hca"):
        replay.program()


def test_each_hca_records_to_a_file_of_its_own(tmp_path):
    wanted = Wanted(2, "ports=2", record=tmp_path / "a,b.rec")
    words = [wanted.hcas_of(number, tmp_path)[0].argv(0)[-1] for number in (0, 1)]
    for number, word in enumerate(words):
        assert word.endswith(f",ports=2,record={tmp_path}/a,,b-vm{number}.rec")
    assert ",record=" not in Wanted(1).hcas_of(0, tmp_path)[0].argv(0)[-1]
