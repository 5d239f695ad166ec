# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test qemu runs QEMU of other releases and reports missing sources."""

import contextlib
import os
import pathlib
import subprocess
import sys

import pytest

from lab.base import paths, ui
from lab.base.counts import Count
from lab.build import debian, host_build, qemu_headers, qemu_release, qemu_tree
from lab.testing import qemus, runners


def test_qemu_runs_with_the_libraries_of_its_release(tmp_path):
    loader = tmp_path / "a b" / "root" / "usr" / "lib64" / "ld-linux-x86-64.so.2"
    loader.parent.mkdir(parents=True)
    loader.write_text("#!/bin/sh\nprintf '%s\\n' \"$QEMU_MODULE_DIR\" \"$@\"\n")
    loader.chmod(0o755)
    wrapper = tmp_path / "a b" / "bin" / "qemu-system-x86_64"
    wrapper.parent.mkdir()
    wrapper.write_text(qemu_release.WRAPPER)
    wrapper.chmod(0o755)
    said = subprocess.run(["qemu-system-x86_64", "-m", "a b"], capture_output=True, text=True, check=True,
                          env={"PATH": f"{wrapper.parent}:{os.environ['PATH']}"}).stdout.splitlines()
    root = f"{wrapper.parent}/../root"
    assert said[:4] == [f"{root}/usr/lib/x86_64-linux-gnu/qemu", "--library-path", f"{root}/usr/lib/x86_64-linux-gnu",
                        f"{root}/usr/bin/qemu-system-x86_64"]
    assert said[-2:] == ["-m", "a b"]


def test_the_newest_of_several_versions_is_selected(monkeypatch, tmp_path):
    listed = "Version: 1:10.0.2+ds-2\n\nVersion: 1:11.1.3+ds-1~bpo13+1\n\nVersion: 1:10.0.13+ds-0\n"
    monkeypatch.setattr(debian, "output", lambda *_words, **_options: listed)
    assert debian.Archive(tmp_path, []).newest("qemu-system-x86") == "1:11.1.3+ds-1~bpo13+1"
    monkeypatch.setattr(debian, "output", lambda *_words, **_options: "")
    assert debian.Archive(tmp_path, []).newest("qemu-system-x86") == ""


def test_headers_of_the_environment_precede_those_of_the_installed_qemu(monkeypatch, tmp_path):
    monkeypatch.setenv(qemu_headers.VARIABLE, str(tmp_path))
    assert qemu_headers.ensure() == tmp_path


def test_another_build_directory_holds_the_device_and_the_switch(tmp_path):
    said = subprocess.run([sys.executable, "-c", "from lab.base import paths; print(paths.DEVICE, paths.SWITCH)"],
                          env={paths.BUILD_VARIABLE: str(tmp_path), "PYTHONPATH": str(paths.ROOT)},
                          capture_output=True, text=True, check=True).stdout.split()
    assert [pathlib.Path(word).is_relative_to(tmp_path) for word in said] == [True, True]


@pytest.fixture(name="ran")
def without_qemus(monkeypatch, tmp_path):
    """Stages and environments of the tests that have run. The mirror lacks the source of the newest QEMU."""
    ran = []
    versions = {"trixie": "1:10.0.13", "trixie-backports": "1:11.1.3", "testing": "1:10.2.2"}

    def ensure(release):
        if release == "trixie-backports":
            raise ui.LabError("404  Not Found")
        return qemu_release.Release(release, versions[release], tmp_path / release, tmp_path / "headers")

    def pytest_(_progress, _folder, *_options, name):
        ran.append((name, os.environ["PATH"].split(":")[0], os.environ[paths.BUILD_VARIABLE]))
        return Count(passed=1)
    monkeypatch.setattr(debian, "release_suites", lambda release: [debian.Suite("http://mirror", release, "Debian")])
    monkeypatch.setattr(qemu_release, "newest", versions.__getitem__)
    monkeypatch.setattr(qemu_release, "ensure", ensure)
    monkeypatch.setattr(host_build, "build", lambda directory, _headers: directory)
    monkeypatch.setattr(qemu_tree, "compiled",
                        lambda version, suites: contextlib.nullcontext(tmp_path / f"{suites[0].name}-{version[2:]}"))
    monkeypatch.setattr(runners, "pytest", pytest_)
    return ran


def test_the_newest_available_qemu_is_tested_and_a_newer_one_is_a_failure(ran, tmp_path, capsys):
    assert qemus.check(None) == Count(passed=6, failed=2)
    said = capsys.readouterr().err
    assert "the newest QEMU: 1:11.1.3 of trixie-backports CANNOT BE TESTED: 404" in said
    assert "QEMU of backports: the mirror has no source of 1:11.1.3 of trixie-backports" in said
    assert "the newest QEMU: 1:10.2.2 of testing was tested, 1:11.1.3 of trixie-backports NOT" in said
    assert [stage for stage, _, _ in ran] == [stage for stage in qemus.stages() if "backports" not in stage]
    folders = [str(tmp_path / name) for name in ("trixie", "trixie", "trixie-10.0.13", "testing", "testing",
                                                 "testing-10.2.2")]
    assert [folder for _, folder, _ in ran] == folders
    assert len({build for _, _, build in ran}) == 2 and paths.BUILD_VARIABLE not in os.environ


def test_a_qemu_that_does_not_compile_is_a_failure_and_the_others_are_tested(ran, monkeypatch):
    def compiled(_version, suites):
        raise ui.LabError(f"compiling QEMU of {suites[0].name}: failed")
    monkeypatch.setattr(qemu_tree, "compiled", compiled)
    monkeypatch.setattr(qemus, "QEMUS", {"QEMU 10.0": ("trixie",), "the newest QEMU": ("testing",)})
    assert qemus.check(None) == Count(passed=4, failed=2)
    assert [stage for stage, _, _ in ran] == [stage for stage in qemus.stages() if "in the tree" not in stage]


def test_a_mirror_with_the_newest_source_makes_no_failure(ran, monkeypatch, capsys):
    monkeypatch.setattr(qemus, "QEMUS", {"QEMU 10.0": ("trixie",), "the newest QEMU": ("testing",)})
    assert qemus.check(None) == Count(passed=6) and len(ran) == 6
    said = capsys.readouterr().err
    assert "the newest QEMU: 1:10.2.2 of testing" in said and "NOT" not in said


@pytest.mark.parametrize(("backports", "tested"), [("1:11.1.3", ["trixie", "trixie-backports"]),
                                                   ("1:10.2.0", ["trixie", "trixie-backports", "testing"])])
def test_the_qemu_of_backports_is_tested_once_beside_a_newer_one(ran, monkeypatch, tmp_path, backports, tested):
    versions = {"trixie": "1:10.0.13", "trixie-backports": backports, "testing": "1:10.2.2"}
    monkeypatch.setattr(qemu_release, "newest", versions.__getitem__)
    monkeypatch.setattr(qemu_release, "ensure", lambda release: qemu_release.Release(
        release, versions[release], tmp_path / release, tmp_path / "headers"))
    assert qemus.check(None) == Count(passed=3 * len(tested))
    assert [pathlib.Path(folder).name for _, folder, _ in ran[::3]] == tested


def test_a_mirror_without_any_source_is_a_failure(ran, monkeypatch):
    def ensure(release):
        raise ui.LabError(f"404 of {release}")
    monkeypatch.setattr(qemu_release, "ensure", ensure)
    assert qemus.check(None) == Count(failed=len(qemus.QEMUS)) and not ran
