# SPDX-License-Identifier: GPL-2.0-or-later
"""The storage pool of a lab's guests on a host. The class Pool replaces libvirt's."""

import types
import xml.etree.ElementTree as xml

import pytest

from lab.hosts import pool


class Failure(Exception):
    pass


class Pool:
    """A pool with a disk. As in libvirt, one that is not active refuses everything."""

    def __init__(self, active: bool, others: int = 0):
        """others: number of refusals because another guest's process starts the pool."""
        self.active, self.others = active, others
        self.made: list[xml.Element] = []

    def isActive(self):                                     # pylint: disable=invalid-name
        return int(self.active)

    def create(self, _flags):
        if self.active:
            raise Failure("storage pool is already active")
        if self.others:
            self.others -= 1
            self.active = not self.others
            raise Failure("storage pool is starting up")
        self.active = True

    def storageVolLookupByName(self, name):                 # pylint: disable=invalid-name
        if not self.active or name != "root.ext4":
            raise Failure("storage pool is not active" if not self.active else "no such volume")
        return types.SimpleNamespace(info=lambda: [0, 1 << 30, 0], path=lambda: f"/pool/{name}")

    def createXML(self, text, _flags):                      # pylint: disable=invalid-name
        self.made.append(xml.fromstring(text))


@pytest.mark.parametrize("active, others", [(True, 0), (False, 0), (False, 2)], ids=[
    "since then", "the host has booted again", "its guests start at the same time"])
def test_a_guest_gets_a_layer_over_the_disk(monkeypatch, active, others):
    monkeypatch.setattr(pool.connection, "library", lambda: types.SimpleNamespace(libvirtError=Failure))
    one = Pool(active, others)
    pool.make_layer(types.SimpleNamespace(storagePoolLookupByName=lambda _name: one), "pib-x", "vm0.qcow2", "root.ext4")
    [layer] = one.made
    assert layer.findtext("name") == "vm0.qcow2" and layer.findtext("capacity") == str(1 << 30)
    assert layer.findtext("backingStore/path") == "/pool/root.ext4"


def test_a_pool_that_cannot_be_started_is_an_error(monkeypatch):
    monkeypatch.setattr(pool.connection, "library", lambda: types.SimpleNamespace(libvirtError=Failure))
    monkeypatch.setattr(pool, "START_S", 0)
    with pytest.raises(Failure, match="starting up"):
        pool.make_layer(types.SimpleNamespace(storagePoolLookupByName=lambda _name: Pool(False, 9)), "pib-x", "a", "b")
