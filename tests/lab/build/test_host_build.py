# SPDX-License-Identifier: GPL-2.0-or-later
"""Build directories belong to the checkout that they are in."""

import contextlib
import json
import os
import shutil
import threading

import pytest

from lab.base import memory, paths
from lab.build import host_build, qemu_headers

PROJECT = "project('x')\ncustom_target('copy', input: 'in', output: 'out', command: ['cp', '@INPUT@', '@OUTPUT@'])\n"


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Builds a small project in a directory as if that were the checkout."""
    monkeypatch.setattr(paths, "RUN", tmp_path / "run")
    monkeypatch.setattr(qemu_headers, "ensure", lambda: tmp_path)
    monkeypatch.setattr(host_build, "PRODUCTS", ("out",))

    def begin(root):
        monkeypatch.setattr(paths, "ROOT", root)
        monkeypatch.setattr(host_build, "OPTIONS", {root / "build": []})
        return host_build.build(root / "build")
    return begin


@pytest.mark.parametrize("name", ["copy", "with space", "a,b", "a:b"])
def test_a_copied_checkout_builds_its_own_sources(tmp_path, build, name):
    original, copy = tmp_path / "original", tmp_path / name
    original.mkdir()
    (original / "meson.build").write_text(PROJECT)
    (original / "meson_options.txt").write_text("option('qemu_headers', type: 'string')\n")
    (original / "in").write_text("original")
    build(original)
    assert host_build.configured(original / "build")
    shutil.copytree(original, copy)
    (copy / "in").write_text("copy")
    (copy / "meson.build").write_text(PROJECT + "# changed\n")
    build(copy)
    assert (copy / "build" / "out").read_text() == "copy"
    info = json.loads((copy / "build" / "meson-info" / "meson-info.json").read_text())
    assert info["directories"]["source"] == str(copy)
    assert (original / "build" / "out").read_text() == "original"


def test_more_targets_are_built_beside_the_usual_ones(tmp_path, build, monkeypatch):
    other = PROJECT.splitlines()[1].replace("'copy'", "'more'").replace("'out'", "'other'")
    (tmp_path / "meson.build").write_text(PROJECT + other)
    (tmp_path / "meson_options.txt").write_text("option('qemu_headers', type: 'string')\n")
    (tmp_path / "in").write_text("")
    there = build(tmp_path)
    assert (there / "out").exists() and not (there / "other").exists()
    (there / "out").unlink()
    host_build.build(there, more=("other",))
    assert (there / "out").exists() and (there / "other").exists()


def test_two_builds_of_a_checkout_wait_for_each_other(tmp_path, monkeypatch):
    """Each build notes its begin and end; without the lock the second one begins in between."""
    noted, met = [], threading.Barrier(2)

    def build_slowly(directory, _headers, _more):
        noted.append(f"{directory.name} begins")
        with contextlib.suppress(threading.BrokenBarrierError):
            met.wait(2)     # succeeds only if both builds are here
        noted.append(f"{directory.name} ends")
    monkeypatch.setattr(paths, "RUN", tmp_path)
    monkeypatch.setattr(host_build, "_build", build_slowly)
    builds = [threading.Thread(target=host_build.build, args=(tmp_path / "build", tmp_path)) for _ in range(2)]
    for one in builds:
        one.start()
    for one in builds:
        one.join()
    assert noted == ["build begins", "build ends"] * 2


@pytest.mark.parametrize("found, precompiled", [("/usr/bin/ccache", False), (None, True)])
def test_headers_are_precompiled_where_no_ccache_is(tmp_path, build, monkeypatch, found, precompiled):
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "meson.build").write_text(PROJECT.replace("'x'", "'x', 'cpp', default_options: 'werror=true'"))
    (root / "meson_options.txt").write_text("option('qemu_headers', type: 'string')\n"
                                            "option('precompiled', type: 'boolean', value: false)\n")
    (root / "in").write_text("")
    monkeypatch.setattr(shutil, "which", lambda program: found if program == "ccache" else program)
    monkeypatch.setattr(paths, "BUILD", root / "build")
    build(root)
    options = json.loads((root / "build" / "meson-info" / "intro-buildoptions.json").read_text())
    values = {option["name"]: option["value"] for option in options}
    assert values["precompiled"] is precompiled and values["werror"] is not precompiled


def test_the_build_with_sanitizers_has_precompiled_headers_and_errors_for_warnings(tmp_path, monkeypatch):
    argvs, directory = [], tmp_path / "build-sanitized"
    directory.mkdir()
    monkeypatch.setattr(paths, "RUN", tmp_path / "run")
    monkeypatch.setattr(host_build, "SANITIZED", directory)
    monkeypatch.setattr(host_build.ui, "run", lambda _what, argv, *_rest, **_options: argvs.append(argv))
    monkeypatch.setattr(shutil, "which", lambda _program: None)
    host_build.build(directory, tmp_path)
    assert host_build.PRECOMPILED in argvs[0] and host_build.NO_WERROR not in argvs[0]


@pytest.mark.parametrize("free_mib, option", [(100, ["-j1"]), (6000, ["-j10"]), (64000, [])])
def test_compilers_fit_into_the_memory_of_many_processors(tmp_path, build, monkeypatch, free_mib, option):
    """The kernel would kill a compiler."""
    (tmp_path / "meson.build").write_text(PROJECT)
    (tmp_path / "meson_options.txt").write_text("option('qemu_headers', type: 'string')\n")
    (tmp_path / "in").write_text("")
    monkeypatch.setattr(memory, "available_mib", lambda: free_mib)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))
    build(tmp_path)
    *_, last = (paths.RUN / "log" / "build.log").read_text().split("\n$ ninja ")
    assert last.split("-C ")[0].split() == option
