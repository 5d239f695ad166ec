# SPDX-License-Identifier: GPL-2.0-or-later
"""Work of users in guests: Debian packages, a directory of the host, MPI over several guests, a program in CI."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import xml.etree.ElementTree as xml

import pytest

import as_written
import labs
from lab.base import paths
from lab.fabric import cluster
from rdma import sh

EXAMPLE = paths.ROOT / "examples" / "ci"
PACKAGES = ("openmpi-bin", "python3-mpi4py", "ucx-utils")
# Each process sends its rank around a ring, and prints its host.
RING = """
from mpi4py import MPI
world, data = MPI.COMM_WORLD, bytearray(1 << 20)
other = (world.rank + 1) % world.size
world.Sendrecv(bytes([world.rank]) * len(data), other, recvbuf=data, source=(world.rank - 1) % world.size)
assert set(data) == {(world.rank - 1) % world.size}
print(world.rank, "of", world.size, "on", MPI.Get_processor_name(), flush=True)
"""
GUIDE = "docs/user-guide.md"

pytestmark = pytest.mark.nightly


def _mpirun(program):
    """The guide's line for this program."""
    return shlex.split(as_written.block(GUIDE, "./pib exec vm0 -- 'mpirun"))[-1].replace("/share/program", program)


@pytest.fixture(scope="module", name="shared")
def _shared(tmp_path_factory):
    return tmp_path_factory.mktemp("a, shared")


@pytest.fixture(scope="module")
def guests(shared):
    with labs.booted("own-work", 2, packages=PACKAGES, share=shared) as lab:
        yield lab.node("vm0"), lab.node("vm1")


def test_a_directory_of_the_host_is_in_all_guests(guests, shared):
    (shared / "from-host").write_text("host\n")
    for node in guests:
        assert sh(node, "cat /share/from-host") == "host\n"
    sh(guests[0], "echo vm0 >/share/from-vm0; chmod 700 /share/from-vm0; mkdir /share/sub; cp /bin/true /share/sub")
    assert (shared / "from-vm0").read_text() == sh(guests[1], "cat /share/from-vm0") == "vm0\n"
    assert (shared / "from-vm0").stat().st_uid == os.getuid()
    sh(guests[1], "/share/sub/true")


def test_ucx_in_two_terminals(guests, tmp_path):
    as_written.make_program(tmp_path, "own-work")
    said = as_written.in_two_terminals(tmp_path, as_written.block(GUIDE, "./pib exec vm0 -- 'UCX"))
    assert re.search(r"^Final: +\d+", said, re.MULTILINE), said
    assert len(guests) == 2


def test_mpi_runs_over_the_fabric(guests, shared):
    (shared / "ring.py").write_text(RING)
    counter = "/sys/class/infiniband/pib_0/ports/1/counters/port_xmit_data"
    before = [int(sh(node, f"cat {counter}")) for node in guests]
    said = sh(guests[0], _mpirun("python3 /share/ring.py"))
    assert sorted(said.splitlines()) == ["0 of 2 on vm0", "1 of 2 on vm1"]
    after = [int(sh(node, f"cat {counter}")) for node in guests]
    assert all(now - then > (1 << 20) / 4 for now, then in zip(after, before))


@pytest.fixture(name="example")
def _example(tmp_path):
    """A copy of the example outside of this checkout, as a user has it."""
    if cluster.Cluster().running():
        pytest.skip("a lab of the user runs in this checkout, and ci needs its own")
    return shutil.copytree(EXAMPLE, tmp_path / "my program")


def run(example: pathlib.Path):
    done = subprocess.run([example / "run.sh"], env={**os.environ, "PIB": str(paths.ROOT / "pib")}, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    suite = xml.parse(example / "pib-ci" / "junit.xml").getroot()
    assert not cluster.Cluster().running()
    return done, suite


def test_the_example_of_ci_passes(example):
    done, suite = run(example)
    assert done.returncode == 0, done.stdout
    assert "server: 64 pages are as the client has written them" in done.stdout
    assert suite.get("tests") == "2" and suite.get("failures") == "0"
    for name in ("vm0.console", "vm1.dmesg", "vm0.opensm.log", "switch.log", "command.log", "fabric.pcap"):
        assert (example / "pib-ci" / name).stat().st_size > 0, name


def test_the_example_of_ci_finds_a_mistake(example):
    source = example / "rdma_write.c"
    source.write_text(source.read_text().replace("pages[i] = pattern(i);", "pages[i] = pattern(i + 1);"))
    done, suite = run(example)
    assert done.returncode == 1 and "byte 0 is wrong" in done.stdout, done.stdout
    assert suite.get("failures") == "1"


def test_error_counters_are_zero_when_the_command_of_ci_begins(example):
    (example / "pib.toml").write_text("nodes = 2\n")
    (example / "test.sh").write_text('#!/bin/sh\nexec "$PIB" exec vm0 -- ibqueryerrors\n')
    done, _ = run(example)
    assert "3 nodes checked" in done.stdout, done.stdout
    found = set(re.findall(r"\[(\w+) == \d", done.stdout))
    assert found <= {"PortRcvSwitchRelayErrors"}, done.stdout    # see diags.quiet
