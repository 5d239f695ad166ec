# SPDX-License-Identifier: GPL-2.0-or-later
"""The sources of a checkout, which may be an unpacked archive without git's files."""

import pathlib
import subprocess

import pytest

from lab.base import paths
from lab.build import checkout

SOURCES = [".githooks/one", "lab/one.py", "pib"]
PRODUCTS = ["build/x.o", "build-sanitized/log", ".lab/state.json", ".cache/x", "lab/__pycache__/one.pyc", "driver/a.ko"]


@pytest.mark.parametrize("cloned", [True, False])
def test_sources_are_found_with_and_without_git(tmp_path, monkeypatch, cloned):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    for name in SOURCES + PRODUCTS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    if cloned:
        subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
        (tmp_path / ".gitignore").write_text("".join(f"/{name}\n" for name in [".gitignore", *PRODUCTS]))
    assert checkout.files() == [pathlib.Path(name) for name in SOURCES]


def test_a_system_without_git_finds_them(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    (tmp_path / "pib").touch()
    assert checkout.files() == [pathlib.Path("pib")]
