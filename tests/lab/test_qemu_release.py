# SPDX-License-Identifier: GPL-2.0-or-later
"""Another QEMU than this machine's: how it is run, and what its tests find."""

import os
import pathlib
import subprocess
import sys

import pytest

from lab import paths, ui
from lab.build import debian, host_build, qemu_headers, qemu_release
from lab.testing import qemus, runners
from lab.testing.counts import Count


def test_qemu_runs_with_the_libraries_of_its_release_wherever_it_is(tmp_path):
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


def test_the_newest_of_several_versions_counts(monkeypatch, tmp_path):
    listed = "Version: 1:10.0.2+ds-2\n\nVersion: 1:11.1.3+ds-1~bpo13+1\n\nVersion: 1:10.0.13+ds-0\n"
    monkeypatch.setattr(debian, "output", lambda *_words, **_options: listed)
    assert debian.Archive(tmp_path, []).newest("qemu-system-x86") == "1:11.1.3+ds-1~bpo13+1"
    monkeypatch.setattr(debian, "output", lambda *_words, **_options: "")
    assert debian.Archive(tmp_path, []).newest("qemu-system-x86") == ""


def test_headers_of_the_environment_come_before_those_of_the_installed_qemu(monkeypatch, tmp_path):
    monkeypatch.setenv(qemu_headers.VARIABLE, str(tmp_path))
    assert qemu_headers.ensure() == tmp_path


def test_another_build_directory_is_that_of_the_device_and_the_switch(tmp_path):
    said = subprocess.run([sys.executable, "-c", "from lab import paths; print(paths.DEVICE, paths.SWITCH)"],
                          env={paths.BUILD_VARIABLE: str(tmp_path), "PYTHONPATH": str(paths.ROOT)},
                          capture_output=True, text=True, check=True).stdout.split()
    assert [pathlib.Path(word).is_relative_to(tmp_path) for word in said] == [True, True]


@pytest.fixture(name="ran")
def without_qemus(monkeypatch, tmp_path):
    """Folders and environments of the tests that have run; there is no QEMU of the last release."""
    ran = []

    def ensure(release):
        if release == qemus.RELEASES[-1]:
            raise ui.LabError("the mirror has no source")
        return qemu_release.Release("1:10.0.13", tmp_path / "bin", tmp_path / "headers")

    def pytest_(_progress, folder, *_options, name):
        assert name in qemus.stages()
        ran.append((folder, os.environ["PATH"].split(":")[0], os.environ[qemu_headers.VARIABLE]))
        return Count(passed=1)
    monkeypatch.setattr(qemu_release, "ensure", ensure)
    monkeypatch.setattr(host_build, "build", lambda directory, _headers: directory)
    monkeypatch.setattr(runners, "pytest", pytest_)
    return ran


def test_a_qemu_that_cannot_be_had_is_a_failure_and_the_others_are_tested(ran, tmp_path):
    assert qemus.check(None) == Count(passed=2, failed=1)
    found = (str(tmp_path / "bin"), str(tmp_path / "headers"))
    assert ran == [("tests/qemu", *found), ("tests/guest", *found)]
    assert qemu_headers.VARIABLE not in os.environ
