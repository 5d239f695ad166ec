# SPDX-License-Identifier: GPL-2.0-or-later
"""The order of the unit tests: the build with sanitizers runs beside the tests that do not need it."""

import dataclasses
import os
import re
import threading
import types

import pytest

from lab.base import memory, paths, ui
from lab.base.counts import Count
from lab.build import deps, host_build, image, preflight
from lab.develop import coverage_points, driver_coverage
from lab.fabric import up
from lab.guests import guest_kernel, vm
from lab.testing import parts, runners, simulate, used

LIMIT_S = 60


@pytest.fixture(name="ran")
def without_tests(monkeypatch):
    """The folders and directories whose tests were run."""
    ran = []

    def tests_of(_progress, what=host_build.SANITIZED):
        ran.append(str(what))
        return Count(passed=1)
    for name in ("pytest", "meson"):
        monkeypatch.setattr(runners, name, tests_of)
    monkeypatch.setattr(simulate, "new_seeds", lambda _progress: Count(passed=1))
    monkeypatch.setattr(vm, "module_usable", lambda: True)
    monkeypatch.setattr(memory, "available_mib", lambda: parts.PARALLEL_MIB)
    return ran


FIRST = ["tests/lab", "tests/style", "tests/driver", "tests/qemu"]


def test_the_build_with_sanitizers_runs_beside_the_first_tests(ran, monkeypatch):
    meet = threading.Barrier(2)

    def build(directory=None):
        if directory == host_build.SANITIZED:
            meet.wait(LIMIT_S)
    tests_of = runners.pytest

    def pytest_(progress, folder):
        if folder == "tests/lab":
            meet.wait(LIMIT_S)
        return tests_of(progress, folder)
    monkeypatch.setattr(host_build, "build", build)
    monkeypatch.setattr(runners, "pytest", pytest_)
    assert parts.unit(parts.Run(None)) == Count(passed=6)
    assert ran == [*FIRST, str(host_build.SANITIZED)]


def test_a_build_that_fails_is_reported_at_once_and_is_a_failure(ran, monkeypatch, capsys):
    told = threading.Event()

    def build(directory=None):
        if directory == host_build.SANITIZED:
            raise ui.LabError("building build-sanitized/: failed")

    def say(text):
        told.set()
        print(text)
    tests_of = runners.pytest

    def pytest_(progress, folder):
        assert told.wait(LIMIT_S)
        return tests_of(progress, folder)
    monkeypatch.setattr(host_build, "build", build)
    monkeypatch.setattr(runners, "pytest", pytest_)
    monkeypatch.setattr(ui, "say", say)
    with pytest.raises(ui.LabError, match="building build-sanitized/: failed"):
        parts.unit(parts.Run(None))
    assert ran == FIRST and "build-sanitized/ cannot be built" in capsys.readouterr().out


def test_a_small_machine_builds_after_the_first_tests(ran, monkeypatch):
    built = []
    monkeypatch.setattr(memory, "available_mib", lambda: parts.PARALLEL_MIB - 1)
    monkeypatch.setattr(host_build, "build", lambda directory=None: built.append(directory))
    assert parts.unit(parts.Run(None)) == Count(passed=6)
    assert built == [None] and ran == [*FIRST, str(host_build.SANITIZED)]


def test_contributing_names_the_parts_of_the_night():
    text = (paths.ROOT / "CONTRIBUTING.md").read_text()
    night = text.partition("* the parts ")[2].partition(";")[0]
    assert sorted(re.findall(r"`(\w[\w-]*)`", night)) == sorted(set(parts.ALL_PARTS) - set(parts.DEFAULT))


def test_the_seed_of_the_adversary_is_printed(monkeypatch, capsys):
    """./pib test draws a new seed for each run."""
    seeds = []
    monkeypatch.setattr(up, "prepare", lambda: None)
    monkeypatch.setattr(runners, "pytest", lambda *_, **__: seeds.append(os.environ["PIB_ADVERSARY_SEED"]))
    for _ in range(2):
        parts.guests(parts.Run(None), "guest")
        assert f"./pib test adversary --seed {seeds[-1]} --seeds 1" in capsys.readouterr().err
    assert seeds[0] != seeds[1] and "PIB_ADVERSARY_SEED" not in os.environ


@pytest.mark.parametrize("user", [{image.VARIABLE: "bookworm"}, {guest_kernel.VARIABLE: "kasan"}])
def test_the_night_runs_with_guests_that_the_user_has_chosen(monkeypatch, capsys, user):
    """A part with guests of its own keeps them where the user's choice is impossible."""
    for name in parts.CHOICES:
        monkeypatch.delenv(name, raising=False)
    for name, value in user.items():
        monkeypatch.setenv(name, value)
    ran = []

    def prepare():
        guest_kernel.check()
        ran.append((image.release(), guest_kernel.chosen()))
    monkeypatch.setattr(up, "prepare", prepare)
    monkeypatch.setattr(runners, "pytest", lambda *_, **__: Count(passed=1))
    monkeypatch.setattr(parts, "_renew_image", lambda _kernel: None)
    monkeypatch.setattr(parts, "kernels", types.SimpleNamespace(**dict.fromkeys(("newest", "kernels", "tree"), str)))
    monkeypatch.setattr(parts.all_kernels, "check", lambda _progress: Count())
    for part in parts.PARTS.values():
        part.missing()
        part.written()
    run = parts.Run(None)
    for name in ("guest", "kasan", "bookworm"):
        parts.guests(run, name)
    parts.on_kernels(run)
    parts.debug(run)
    kernel = user.get(guest_kernel.VARIABLE, "debian")
    assert ran == [(user.get(image.VARIABLE, "trixie"), kernel), ("trixie", "kasan"), ("bookworm", "debian"),
                   ("trixie-backports", "debian"), ("trixie", kernel), ("bookworm", "debian")]
    (name, value), said = next(iter(user.items())), capsys.readouterr().err
    assert f"{name}={value} does not fit these guests; they have {name}={parts.CHOICES[name]}" in said


def test_a_user_who_chooses_impossible_guests_is_told(monkeypatch):
    for name, value in ((image.VARIABLE, "bookworm"), (guest_kernel.VARIABLE, "kasan")):
        monkeypatch.setenv(name, value)
    with pytest.raises(ui.LabError, match="kasan kernel is made for guests of trixie only"):
        parts.PARTS["guest"].missing()
    monkeypatch.setenv(image.VARIABLE, "bookwurm")
    with pytest.raises(ui.LabError, match="bookwurm: expected one of"):
        parts.PARTS["lockdep"].missing()


@pytest.mark.parametrize("name, nightly, file", [("guest", True, ""), ("guest", False, ""), ("lockdep", True, ""),
                                                 ("guest", True, "mine.json")])
def test_the_night_prints_what_the_guests_have_used(monkeypatch, tmp_path, capsys, name, nightly, file):
    (tmp_path / used.FILE).write_text("of another night")

    def tests(*_, **__):
        if place := os.environ.get(used.VARIABLE):
            driver_coverage.merge(tmp_path / place, {**coverage_points.empty(), "recv_wqes": 7})
        return Count(passed=3)
    monkeypatch.setattr(paths, "RUN", tmp_path)
    monkeypatch.setattr(up, "prepare", lambda: None)
    monkeypatch.setattr(runners, "pytest", tests)
    monkeypatch.setenv(used.VARIABLE, file)
    count = parts.guests(parts.Run(None, nightly=nightly), name)
    told = re.search(r"in the guest tests:\n1 of \d+ used, .*\nnot used:\n", capsys.readouterr().out)
    assert bool(told) == (nightly and name == "guest" and not file)
    assert count == Count(passed=3, failed=int(bool(told)))     # most of the device was not used
    assert (tmp_path / "mine.json").exists() == bool(file)


@pytest.mark.parametrize("name, lists", [(parts.BROWSER, [deps.BROWSER_LIST]), (parts.PACKAGES, [deps.PACKAGING_LIST]),
                                         ("unit", [deps.DEBUGGER_LIST]), ("simulate", []),
                                         (parts.ALL, set(parts.PACKAGES_OF.values()))])
def test_a_part_installs_the_packages_that_not_all_parts_need(monkeypatch, tmp_path, name, lists):
    installed = []
    monkeypatch.setattr(up, "machine", lambda *more, **_: installed.extend(more))
    monkeypatch.setattr(paths, "RUN", tmp_path)
    monkeypatch.setattr(parts, "PARTS", {part: parts.Part(lambda _run: Count(passed=1), ()) for part in parts.PARTS})
    assert parts.test(name) == 0
    assert installed[0] == deps.TEST_LIST and sorted(installed[1:]) == sorted(lists)


@pytest.mark.parametrize("name, pattern, guests, builds", [
    (None, None, True, {paths.BUILD, host_build.SANITIZED}), ("unit", None, False, {paths.BUILD, host_build.SANITIZED}),
    ("coverage", None, False, {host_build.COVERAGE}), ("lockdep", None, True, {paths.BUILD}),
    ("mutants", None, True, {paths.BUILD}), ("mutants", "link-", False, {paths.BUILD}),
    (parts.ALL, None, True, {paths.BUILD, *host_build.OPTIONS} - {host_build.FUZZERS})])
def test_the_machine_is_checked_before_the_first_test(monkeypatch, tmp_path, name, pattern, guests, builds):
    def machine(*_lists, **wanted):
        assert wanted.pop("needed") == preflight.Needed() or pattern is None
        assert wanted == {"guests": guests, "builds": builds}
        raise ui.LabError("this machine cannot run the lab yet")
    monkeypatch.setattr(parts, "PARTS", {part: dataclasses.replace(found, run=lambda _run: Count(passed=1))
                                         for part, found in parts.PARTS.items()})
    monkeypatch.setattr(up, "machine", machine)
    monkeypatch.setattr(paths, "RUN", tmp_path / ".lab")
    with pytest.raises(ui.LabError, match="cannot run the lab yet"):
        parts.test(name, pattern=pattern)


@pytest.mark.parametrize("name, cache, temporary", [
    ("unit", 0, 0), ("guest", 5, 0), ("bookworm", 5, 0), ("lockdep", 13, 0), ("kernels", 14, 0), ("arm", 8, 0),
    ("debug", 10, 0), ("packages", 11, 12), ("qemu", 10, 0), (parts.ALL, 5 * 3 + 2 * 8 + 9 + 8 + 6 + 5, 12)])
def test_the_space_for_new_images_and_trees_is_checked_before_the_first_test(monkeypatch, tmp_path, name, cache,
                                                                             temporary):
    """Each image counts once, even if several parts need it. The part arm needs none."""
    needed = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(paths, "RUN", tmp_path / ".lab")
    monkeypatch.setattr(up, "machine", lambda *_, **wanted: needed.append(wanted["needed"]))
    monkeypatch.setattr(parts, "PARTS", {part: dataclasses.replace(found, run=lambda _run: Count(passed=1))
                                         for part, found in parts.PARTS.items()})
    parts.test(name)
    assert needed == [preflight.Needed(cache, temporary=temporary, compiles=cache > 0)]
    for tree in ("kernels-bookworm-backports-1", "kernels-trixie-backports-1", "kernels-testing-1"):
        (tmp_path / "pib-hca" / tree).mkdir(parents=True)
    parts.test(name)
    assert needed[1].cache == cache - (9 if name in ("kernels", parts.ALL) else 0)


@pytest.mark.parametrize("kernel, kept", [("7.0.2-amd64", True), ("7.0.10-amd64", False)])
def test_an_image_of_an_older_kernel_is_made_anew(monkeypatch, tmp_path, kernel, kept):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = image.directory()
    made.mkdir(parents=True)
    (made / "kernel-version").write_text("7.0.2-amd64\n")
    parts._renew_image(kernel)
    assert made.is_dir() is kept


@pytest.fixture(name="without_arm")
def one_part_cannot_run(monkeypatch, tmp_path):
    def cannot(_run):
        raise ui.LabError("the mirror has no linux-headers-arm64")
    monkeypatch.setattr(up, "machine", lambda *_, **__: None)
    monkeypatch.setattr(paths, "RUN", tmp_path)
    monkeypatch.setattr(parts, "PARTS", {part: parts.Part(cannot if part == "arm" else lambda _run: Count(passed=1), ())
                                         for part in parts.PARTS})


@pytest.mark.usefixtures("without_arm")
def test_a_part_that_cannot_run_does_not_end_the_night(capsys):
    assert parts.test(parts.ALL) == 1
    said = capsys.readouterr()
    assert said.out == f"\n{len(parts.ALL_PARTS) - 1} passed, 1 failed\n" and "arm: the mirror has no" in said.err


@pytest.mark.usefixtures("without_arm")
def test_a_part_alone_that_cannot_run_ends_with_its_error():
    with pytest.raises(ui.LabError, match="the mirror has no"):
        parts.test("arm")
