# SPDX-License-Identifier: GPL-2.0-or-later
"""Copies files to a host, as volumes of a libvirt storage pool, and removes them."""

import contextlib
import os
import pathlib
import time
import xml.etree.ElementTree as xml
from typing import IO

from lab.hosts import connection

START_S = 10                    # limit of attempts to start a pool
POLL_S = 0.1


def remove(host, name: str) -> None:
    """Removes a pool with its files and its directory."""
    error = connection.library().libvirtError
    try:
        pool = host.storagePoolLookupByName(name)
    except error:
        return
    with contextlib.suppress(error):        # fails if the directory has gone
        if not pool.isActive():
            pool.create(0)
        pool.refresh(0)
        for volume in pool.listAllVolumes(0):
            volume.delete(0)
        pool.destroy()
        pool.delete(0)
    with contextlib.suppress(error):
        pool.destroy()
    pool.undefine()


def make(host, name: str, directory: pathlib.Path, files: dict[str, pathlib.Path]) -> None:
    """Makes a pool with these files, in a directory of its own on the host."""
    top = xml.Element("pool", type="dir")
    xml.SubElement(top, "name").text = name
    target = xml.SubElement(top, "target")
    xml.SubElement(target, "path").text = str(directory)
    xml.SubElement(xml.SubElement(target, "permissions"), "mode").text = "0711"
    pool = host.storagePoolDefineXML(xml.tostring(top, encoding="unicode"), 0)
    pool.build(0)
    pool.create(0)
    for file, source in files.items():
        with open(source, "rb", buffering=0) as content:
            _upload(host, pool, file, content)
    pool.refresh(0)                         # makes libvirt detect the files' formats


def _volume(name: str, size: int, kind: str) -> xml.Element:
    top = xml.Element("volume")
    xml.SubElement(top, "name").text = name
    xml.SubElement(top, "capacity", unit="bytes").text = str(size)
    xml.SubElement(top, "allocation").text = "0"
    target = xml.SubElement(top, "target")
    xml.SubElement(target, "format", type=kind)
    xml.SubElement(xml.SubElement(target, "permissions"), "mode").text = "0600"
    return top


def _section(_stream, file: IO[bytes]) -> tuple[bool, int]:
    """(True for data, False for a hole; length) of the section at the file's position; length 0 at the end."""
    here, end = file.tell(), os.fstat(file.fileno()).st_size
    try:
        data = file.seek(here, os.SEEK_DATA)
    except OSError:                         # the rest of the file is a hole
        return False, end - here
    found = (False, data - here) if data > here else (True, file.seek(here, os.SEEK_HOLE) - here)
    file.seek(here)
    return found


def _upload(host, pool, name: str, content: IO[bytes]) -> None:
    size = os.fstat(content.fileno()).st_size
    volume = pool.createXML(xml.tostring(_volume(name, size, "raw"), encoding="unicode"), 0)
    stream = host.newStream(0)
    volume.upload(stream, 0, size, connection.library().VIR_STORAGE_VOL_UPLOAD_SPARSE_STREAM)
    stream.sparseSendAll(lambda _stream, count, file: file.read(count), _section,
                         lambda _stream, count, file: file.seek(count, os.SEEK_CUR), content)
    stream.finish()


def _activate(pool) -> None:
    """Starts a pool that is not active: the host has booted again since the pool was made. libvirt refuses that while
    the process of another guest does the same."""
    end = time.monotonic() + START_S
    while not pool.isActive():
        try:
            pool.create(0)
        except connection.library().libvirtError:
            if time.monotonic() >= end:
                raise
            time.sleep(POLL_S)


def make_layer(host, name: str, layer: str, base: str) -> None:
    """Makes an empty qcow2 layer over a disk in the same pool. Removes an earlier layer of this name."""
    error = connection.library().libvirtError
    pool = host.storagePoolLookupByName(name)
    _activate(pool)
    with contextlib.suppress(error):
        pool.storageVolLookupByName(layer).delete(0)
    below = pool.storageVolLookupByName(base)
    top = _volume(layer, below.info()[1], "qcow2")
    store = xml.SubElement(top, "backingStore")
    xml.SubElement(store, "path").text = below.path()
    xml.SubElement(store, "format", type="raw")
    pool.createXML(xml.tostring(top, encoding="unicode"), 0)
