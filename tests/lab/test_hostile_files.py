# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that a user may have from others, changed at random: pib.toml and topology files. Each is read, or refused with
a LabError, which names a pib.toml. Each run has another seed; a failure prints the file."""

import os
import pathlib
import random

import pytest

from lab import settings
from lab.base import paths, ui
from lab.fabric import split, topology

ROUNDS = int(os.environ.get("PIB_TEST_ROUNDS", "500"))
PROJECT = b"""# the fabric of our tests
nodes = 4
topology = "fabric.topo"
split = 2
packages = ["fio", "openmpi-bin"]
kernel = "debian"
memory = 2048
iommu = true
connect = ["qemu:///system"]

[hca]
ports = 2
link-speed = "hdr"
shared-memory = false
"""
# Texts that changed() inserts: values of other types and sizes, and syntax of TOML and of topology files.
WORDS = [b"-1", b"0", b"9" * 30, b"1e400", b"nan", b"true", b'"x"', b"[]", b"[1]", b"{a=1}", b"[hca]", b"[[hca]]",
         b"=", b"\n", b'"""', b"\xff", b"\xe2\x80\xa8", b"\x00", b"\r", b"..", b"Switch 3 \"a\"\n", b"Ca 1 \"b\"\n",
         b"[1] \"a\"[2]\n", b"[999999999999]", b"switchguid=0x", b"caguid=", b"(zz)", b"1979-05-27", b"inf", b"0x10",
         b"a.b.c = 1\n"]


def changed(chance: random.Random, data: bytes) -> bytes:
    for _ in range(chance.randint(1, 5)):
        at, end = sorted(chance.randint(0, len(data)) for _ in range(2))
        kind = chance.randrange(5)
        middle = [chance.choice(WORDS), bytes([chance.randrange(256)]), data[at:end] * 2, b"",
                  bytes(chance.randbytes(3))][kind]
        keep = at if kind in (0, 1, 4) else end
        data = data[:at] + middle + data[keep + (kind == 1):]
    return data


def check(read, file: pathlib.Path, seed: bytes, said: str) -> None:
    """Reads the file as it is, and then with random changes. said: a part of each refusal."""
    chance = random.Random()
    file.write_bytes(seed)
    read(file)
    for _ in range(ROUNDS):
        data = changed(chance, seed)
        file.write_bytes(data)
        try:
            read(file)
        except ui.LabError as refusal:
            assert said in str(refusal).strip(), data
        except Exception as error:      # pylint: disable=broad-exception-caught
            pytest.fail(f"{error!r} by {data!r}")


def test_an_altered_project_file_is_read_or_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fabric.topo").write_text("")
    check(settings.read, tmp_path / "pib.toml", PROJECT, "pib.toml")


SMALL = b'switchguid=0x1\nSwitch 8 "a"\n[1] "b"[1]\n[2] "c"[2]\n\nSwitch 8 "c"\n\ncaguid=0x2\nCa 2 "b"\n'


@pytest.mark.parametrize("example", ["fat-tree-16", "redundant-pair", ""])
def test_an_altered_topology_file_is_read_or_refused(tmp_path, example):
    """An example as a whole, because a part of one is refused before its links are followed; and a small file."""
    def read(file: pathlib.Path) -> None:
        net = topology.load(file)
        net.wiring()
        net.text()
        topology.places(net, 1)
        parts = split.parts(net, 1)
        assert {split.part_of(net, parts, host) for host in net.hosts() if host.peers} == {0}
    text = (paths.ROOT / "examples" / "topologies" / f"{example}.topo").read_bytes() if example else SMALL
    check(read, tmp_path / "topology", text, " ")
