# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests boot a disk image that the commands of docs/user-guide.md, section 13, have made with our packages."""

import hashlib
import pathlib

import pytest

from lab.base import paths
from lab.fabric import cluster, measure, subnet, up
from lab.fabric.wanted import Wanted


def _sha256(file: pathlib.Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@pytest.fixture(name="lab", scope="module")
def _lab(own_disk):
    running, before = cluster.Cluster(paths.RUN / "own-image"), _sha256(own_disk)
    try:
        up.boot(running, Wanted(2, image_file=own_disk))
        yield running
    finally:
        running.down()
    assert _sha256(own_disk) == before


def said(lab: cluster.Cluster, name: str, command: str) -> str:
    done = lab.node(name).run([command])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.decode().strip()


def test_guests_are_a_subnet_with_the_drivers_of_the_packages(lab):
    assert [port.state for port in subnet.ports(lab)] == ["ACTIVE", "ACTIVE"]
    assert measure.measure(lab.node("vm0"), lab.node("vm1")).bandwidth_mib_s > 0
    for name in ("vm0", "vm1"):
        assert said(lab, name, "cat /proc/1/comm") == "systemd" and said(lab, name, "hostname") == name
        assert "/updates/dkms/" in said(lab, name, "modinfo -n pib_hca")


def test_guests_reach_each_other_by_name(lab):
    assert said(lab, "vm0", "ssh vm1 hostname") == "vm1"
    assert said(lab, "vm1", "ssh vm0-ib hostname") == "vm0"


def test_a_guest_that_boots_anew_has_an_unwritten_disk(lab):
    said(lab, "vm1", "echo written >/root/own; sync")
    up.reboot(lab, "vm1")
    assert said(lab, "vm1", "ls /root/own 2>/dev/null || echo none") == "none"
    assert [port.state for port in subnet.ports(lab)] == ["ACTIVE", "ACTIVE"]
