# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib ci returns the status of its command, keeps results, and always ends the lab."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import threading
import xml.etree.ElementTree as xml

import pytest

from checkouts import pib
from lab import __main__ as command_line, ci, junit
from lab.base import lock, process, signals, ui, waiting
from lab.fabric import cluster, counters, subnet, up
from lab.fabric.wanted import Wanted
from lab.guests import guest

LIMIT_S = 60


@pytest.fixture(name="job")
def _job(fabric, tmp_path, monkeypatch):
    """Runs ci with a shell line; guests boot at once, and are a subnet."""
    monkeypatch.setattr(up, "make_subnet", lambda _lab: [])
    folder = tmp_path / "results"
    folder.mkdir()

    def run(line, limit_s=None, **options):
        return ci.ci(Wanted(2, **options), ci.Job(["sh", "-c", line], folder, limit_s))
    yield run
    assert not [name for directory, name, _ in process.marked() if directory == fabric.directory]
    assert not fabric.file.exists()


@pytest.fixture(name="results")
def _results(tmp_path):
    return tmp_path / "results"


def verdict(results):
    """Name and failure of each case."""
    suite = xml.parse(results / "junit.xml").getroot()
    cases = {case.get("name"): failed.get("message") if (failed := case.find("failure")) is not None else ""
             for case in suite.iter("testcase")}
    assert suite.get("tests") == str(len(cases)) and suite.get("failures") == str(sum(map(bool, cases.values())))
    return cases


def test_a_command_that_passes_leaves_its_results(job, results, capfdbinary):
    assert job('echo "$PIB_NODES"; test -x "$PIB" && grep -c ^Host "$PIB_SSH_CONFIG"; : >"$PIB_RESULTS/mine"') == 0
    assert capfdbinary.readouterr().out == b"vm0 vm1\n2\n" == (results / "command.log").read_bytes()
    assert list(verdict(results).values()) == ["", ""] and (results / "switch.status").exists()
    assert "starting" in (results / "vm1.console").read_text()


def test_the_status_of_the_command_is_returned(job, results, capfd):
    assert job("echo no; exit 7") == 7
    assert "the command has failed (status 7)" in capfd.readouterr().err
    assert list(verdict(results).values()) == ["", "exit status 7"]
    assert "no" in xml.parse(results / "junit.xml").getroot().findtext(".//system-out")


def test_error_counters_are_cleared_before_the_command(job, results, monkeypatch):
    monkeypatch.setattr(subnet, "ports", lambda _lab: ["a port"])
    monkeypatch.setattr(counters, "clear_errors",
                        lambda node, _nodes, quiet_s: (results / "cleared").write_text(node.name) if quiet_s else None)
    assert job('test "$(cat "$PIB_RESULTS/cleared")" = vm0') == 0


def test_a_command_that_removes_the_results_keeps_its_status(job, results, capfd):
    assert job('rm -rf "$PIB_RESULTS"; exit 7') == 7
    assert list(verdict(results).values()) == ["", "exit status 7"] and (results / "vm0.console").exists()
    assert f"the command has removed {results}" in capfd.readouterr().err


@pytest.mark.parametrize("line, missing, kept", [
    ('rm -rf "$PIB_RESULTS"; : >"$PIB_RESULTS"', "results: File exists", ""),
    ('mkdir "$PIB_RESULTS/vm0.dmesg"', "vm0.dmesg: Is a directory", "junit.xml"),
    ('mkdir "$PIB_RESULTS/junit.xml"', "junit.xml: Is a directory", "vm0.console")])
def test_a_result_that_cannot_be_written_is_reported(job, results, capfd, line, missing, kept):
    assert job(f"{line}; exit 7") == 7
    assert re.search(f"a result is missing: .*{missing}", capfd.readouterr().err) and (results / kept).is_file()


def test_a_command_that_removes_the_labs_sockets_keeps_its_status(job, results, fabric, capfd):
    """A user may run  rm -rf /tmp/*  in a test."""
    sockets = f"""$(tr -d '\\n' <{fabric.file} | sed 's/.*"sockets": *"\\([^"]*\\)".*/\\1/')"""
    assert job(f'test -S "{sockets}/hub" && rm -r "{sockets}" && exit 7') == 7
    assert list(verdict(results).values()) == ["", "exit status 7"]
    assert "a result is missing: " in capfd.readouterr().err


def test_output_without_the_end_of_a_line_is_written_at_once(job, results, tmp_path):
    def answer():
        waiting.poll("the prompt", lambda: "name? " in ui.tail(results / "command.log"), LIMIT_S)
        (tmp_path / "answered").touch()
    user = threading.Thread(target=answer, daemon=True)
    user.start()
    assert job(f"printf 'name? '; until [ -e {tmp_path}/answered ]; do sleep 0.05; done", LIMIT_S) == 0
    user.join()


def test_a_missing_command_fails(job, results, lab, tmp_path):
    assert ci.ci(Wanted(1), ci.Job(["/no/such/program"], results)) == 127
    assert verdict(results)["/no/such/program"] == "exit status 127"


def test_a_command_that_hangs_is_ended(job, results):
    assert job("echo begun; sleep 1000", 1) == 124
    assert verdict(results)["sh -c 'echo begun; sleep 1000'"] == "exit status 124"


def test_a_boot_that_fails_is_reported(job, results, monkeypatch):
    monkeypatch.setenv("FAKE_QEMU", "ends")
    with pytest.raises(ui.LabError, match="a bad option"):
        job("true")
    assert "a bad option" in verdict(results)["boot"]
    assert "a bad option" in (results / "vm0.log").read_text() and (results / "switch.log").exists()


def test_guests_that_do_not_answer_are_reported(job, results, monkeypatch):
    monkeypatch.setattr(ci, "ANSWER_S", 1)
    monkeypatch.setattr(ci, "_environment", lambda *_: monkeypatch.setenv("FAKE_SSH", "hangs") or dict(os.environ))
    assert job("exit 3") == 3
    assert "did not end within 1 s" in (results / "vm0.dmesg").read_text()


def test_guests_are_asked_side_by_side_and_once_if_they_do_not_answer(job, results, monkeypatch):
    """ci writes all consoles before it asks the guests, because a user who loses patience may interrupt it."""
    both, asked, run = threading.Barrier(2, timeout=LIMIT_S), [], guest.Guest.run

    def hangs(node, command, *, timeout_s, **options):
        if command[0] not in ci.GUEST_FILES.values():
            return run(node, command, timeout_s=timeout_s, **options)
        both.wait()
        asked.append((node.name, (results / "vm1.console").exists()))
        raise subprocess.TimeoutExpired(["ssh", *command], timeout_s)
    monkeypatch.setattr(guest.Guest, "run", hangs)
    assert job("true") == 0
    assert sorted(asked) == [("vm0", True), ("vm1", True)]
    assert all("ssh did not end within 20 s" in (results / one).read_text() for one in ("vm0.dmesg", "vm1.opensm.log"))


def test_empty_files_of_the_command_are_kept(job, results):
    assert job(': >"$PIB_RESULTS/passed"') == 0
    assert (results / "passed").exists() and not (results / "vm0.opensm.log").exists()


@contextlib.contextmanager
def interrupted(when):
    """A block that SIGTERM ends as soon as when() is true."""
    handlers = {ending: signal.getsignal(ending) for ending in signals.ENDING}
    signals.raise_on_end()

    def interrupt():
        waiting.poll("the moment of a signal", when, LIMIT_S)
        os.kill(os.getpid(), signal.SIGTERM)
    teller = threading.Thread(target=interrupt)
    teller.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        teller.join()
        for ending, handler in handlers.items():
            signal.signal(ending, handler)


def test_a_signal_during_the_boot_leaves_the_consoles(job, results, monkeypatch):
    monkeypatch.setenv("FAKE_QEMU", "no-boot")

    def boots():
        state = cluster.Cluster().state
        return state and "vm0" in state.processes and (pathlib.Path(state.sockets) / "vm0.console").exists()
    with interrupted(boots):
        job("true")
    assert (results / "vm0.console").read_text() == "starting\n" and (results / "switch.log").exists()
    assert "vm0 has not booted" in (results / "vm0.dmesg").read_text()


def test_a_signal_ends_the_lab(job, results, tmp_path):
    with interrupted((tmp_path / "begun").exists):
        job(f"touch {tmp_path}/begun; sleep 1000")
    assert list(verdict(results).values()) == ["", "a signal has ended it"] and (results / "vm0.console").exists()


def test_binary_output_gives_valid_xml(job, results):
    assert job(r"printf '\000\033[1m\377<&]]>'; exit 1") == 1
    assert "<&]]>" in xml.parse(results / "junit.xml").getroot().findtext(".//system-out")


def test_packets_are_captured(job, results):
    assert job("true", capture=results / "fabric.pcap") == 0
    assert f"--pcap {results}/fabric.pcap --pcap-format erf" in (results / "switch.log").read_text()


def test_a_lab_that_runs_is_left_alone(job, lab, results):
    lab.up(Wanted(1), [])
    junit.Report("pib ci").write(results / "junit.xml")
    with pytest.raises(ui.LabError, match="a lab runs here already"):
        job("true")
    assert lab.nodes() == ["vm0"] and (results / "junit.xml").exists()
    lab.down()


def test_guests_that_another_command_has_just_booted_are_left_alone(job, lab, monkeypatch):
    """Two ./pib ci in one checkout: the second one began before the first one's guests ran."""
    take, others = lock._take, []

    def late(file):
        if not others:
            others.append(cluster.Cluster())
            others[0].up(Wanted(1), [])
        take(file)
    monkeypatch.setattr(lock, "_take", late)
    with pytest.raises(ui.LabError, match="a lab runs here already"):
        job("true")
    assert cluster.Cluster().nodes() == ["vm0"]
    lab.down()


def test_other_commands_wait_only_until_the_boot_has_ended(job, lab, results):
    assert job(f"flock --nonblock --exclusive {lab.directory}/lock true") == 0
    assert list(verdict(results).values()) == ["", ""]


def test_only_results_of_an_earlier_run_are_replaced(tmp_path):
    folder = tmp_path / "a" / "results"
    ci._fresh(folder)
    (folder / "mine").write_text("")
    with pytest.raises(ui.LabError, match="not empty"):
        ci._fresh(folder)
    for other in ("", '<testsuite name="pytest"/>'):
        (folder / "junit.xml").write_text(other)
        with pytest.raises(ui.LabError, match="not empty"):
            ci._fresh(folder)
    junit.Report("pib ci").write(folder / "junit.xml")
    ci._fresh(folder)
    assert not list(folder.iterdir())


def test_a_folder_that_cannot_be_written_is_refused_before_the_boot(tmp_path, monkeypatch):
    """A volume of a container is often root's."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ui.LabError, match="file: that is no directory .* name another"):
        ci._fresh(tmp_path / "file")
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path / "volume")
    (tmp_path / "volume").mkdir()
    with pytest.raises(ui.LabError, match="volume: that is no directory to which you can write"):
        ci._fresh(tmp_path / "volume")
    ci._fresh(tmp_path / "new")


def test_the_working_directory_is_never_emptied(tmp_path, monkeypatch):
    inner = tmp_path / "results" / "inner"
    inner.mkdir(parents=True)
    junit.Report("pib ci").write(tmp_path / "results" / "junit.xml")
    monkeypatch.chdir(inner)
    for folder in (inner.parent, inner, tmp_path / "results" / "inner" / ".."):
        with pytest.raises(ui.LabError, match="working directory is in it"):
            ci._fresh(folder)
    assert inner.is_dir()


def test_a_link_to_the_folder_of_the_results_stays(tmp_path):
    """The folder may also be a mount point of a container, which cannot be removed either."""
    folder, link = tmp_path / "results", tmp_path / "link"
    for place in (folder / "vm0", folder / "old"):
        place.mkdir(parents=True)
    (folder / "old" / "file").write_text("")
    (folder / "to-old").symlink_to("old")
    junit.Report("pib ci").write(folder / "junit.xml")
    link.symlink_to(folder)
    before = folder.stat().st_ino
    ci._fresh(link)
    assert link.is_symlink() and folder.stat().st_ino == before and not list(folder.iterdir())


@pytest.mark.parametrize("words, folder, captured", [
    ([], "pib-ci", True), (["--output", "mine"], "mine", True), (["--no-capture"], "pib-ci", False),
    (["--connect", "qemu:///system"], "pib-ci", False)])
def test_a_capture_is_a_result_unless_it_is_refused_or_of_other_hosts(tmp_path, monkeypatch, words, folder, captured):
    asked = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ci, "ci", lambda wanted, job: asked.append((wanted.capture, job)) or 0)
    options = command_line.parser().parse_args(["ci", *words, "--", "ls", "-l"])
    assert options.function(options) == 0
    place = tmp_path / folder
    assert asked == [(place / "fabric.pcap" if captured else None, ci.Job(["ls", "-l"], place, None))]


def test_each_switch_process_has_a_capture_of_its_own(tmp_path):
    wanted = Wanted(1, capture=tmp_path / "fabric.pcap")
    assert [wanted.switch_options(number)[1] for number in (0, 1)] == [
        f"{tmp_path}/fabric.pcap", f"{tmp_path}/fabric1.pcap"]


@pytest.mark.parametrize("words, said", [(["ci"], "no command"), (["ci", "--", "./no-such"], "no such program here"),
                                         (["ci", "--", "./my file"], "is not executable. Make it so:  chmod +x './my"),
                                         (["ci", "--timeout", "0", "--", "ls"], "--timeout 0"),
                                         (["ci", "--timeout", "nan", "--", "ls"], "--timeout nan"),
                                         (["ci", "-n", "99", "--", "ls", "-l"], "--nodes 99: expected 1 to 32")])
def test_mistakes_are_refused_before_guests_boot(checkout, tmp_path, words, said):
    (tmp_path / "my file").write_text("true")
    done = pib(checkout, *words, cwd=tmp_path)
    assert done.returncode == 1 and said in done.stderr and not pathlib.Path(tmp_path / "pib-ci").exists()
