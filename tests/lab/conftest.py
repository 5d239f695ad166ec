# SPDX-License-Identifier: GPL-2.0-or-later
"""Labs for tests: `checkout` is a copy of the lab's code, with a run directory of its own;
`lab` is a Cluster whose QEMU and ssh are those of programs/, so that it boots without guests."""

import os
import pathlib

import pytest

from checkouts import copy_checkout, pib
from lab.base import environment, paths
from lab.fabric import cluster, switch_process, up
from lab.guests import guest_kernel, initramfs, kvm, vm

PROGRAMS = pathlib.Path(__file__).parent / "programs"


LAST = "test_clean_trees"       # module whose tests take as long as all others


def pytest_configure():
    environment.settle()


def pytest_collection_modifyitems(items):
    """Runs the quick tests first, so that they show a mistake in minutes."""
    items.sort(key=lambda item: item.module.__name__ == LAST)


@pytest.fixture
def checkout(tmp_path):
    where = copy_checkout(tmp_path / "checkout")
    yield where
    pib(where, "down", "--all")


@pytest.fixture(name="lab")
def cluster_without_guests(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUN", tmp_path / ".lab")
    monkeypatch.setenv("PATH", f"{PROGRAMS}:{os.environ['PATH']}")
    monkeypatch.setenv(kvm.VARIABLE, "tcg")
    monkeypatch.setattr(guest_kernel, "image", lambda: tmp_path)
    (tmp_path / "identity").write_text("packages of today")
    monkeypatch.setattr(initramfs, "make", lambda *_: None)
    monkeypatch.setattr(switch_process, "PROGRAM", tmp_path / "none")
    monkeypatch.setattr(vm, "module_usable", lambda: False)
    made = cluster.Cluster()
    yield made
    made.down()


@pytest.fixture
def fabric(lab, tmp_path, monkeypatch):
    """A lab with the switch of programs/, which has no ports. Nothing has to be built: up() boots guests at once."""
    monkeypatch.setattr(switch_process, "PROGRAM", PROGRAMS / "pib-switch")
    monkeypatch.setattr(vm, "module_usable", lambda: True)
    monkeypatch.setattr(up, "prepare", lambda _driver, _packages: (tmp_path, []))
    return lab
