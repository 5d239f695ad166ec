# SPDX-License-Identifier: GPL-2.0-or-later
"""Two guests among the 11,664 hosts of a three-level fat tree of 1,620 switches. They boot by up.boot(), which is
./pib up without its measurement, its clearing of error counters and its table."""
import os
import pathlib
import re
import time

import pytest

from lab import status
from lab.fabric import map as fabric_map, measure, subnet_progress, topology, topology_kinds
from labs import booted
from rdma import PATIENCE_S, wait_until

KIND = "fat-tree-3"
SETTINGS = ["pods=36", "leaves=18", "middles=18", "cores=18", "hosts=18", "up=1", "links=1"]
HOSTS, SWITCHES, GUESTS = 11664, 1620, 2
NODES = HOSTS + SWITCHES
MOST_KIB = 16                   # limit of the switch's memory, for each node
MOST_S = 30                     # limit of processor time for a look at the fabric, which takes a few seconds

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    made = tmp_path_factory.mktemp("huge") / "fabric.topo"
    made.write_text(topology_kinds.make(KIND, SETTINGS, "4xEDR"))
    return made


@pytest.fixture(scope="module")
def huge(file):
    with booted("test-huge", GUESTS, fabric_file=file) as running:
        yield running


def of_switch(lab, name):
    """The text of a file in the /proc directory of the switch's process."""
    return pathlib.Path(f"/proc/{lab.record.processes['switch'].pid}/{name}").read_text()


def processor_s(lab):
    """Processor time of this process and of the switch."""
    times = of_switch(lab, "stat").rpartition(")")[2].split()[11:13]
    return time.process_time() + sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def test_every_port_is_active(huge, file):
    wanted = topology.load(file)
    assert (len(wanted.hosts()), len(wanted.switches())) == (HOSTS, SWITCHES)

    def done():
        return subnet_progress.look([huge.switch().control]).done == 1
    wait_until(done, "the ports of all nodes", PATIENCE_S * 4)
    assert subnet_progress.look([huge.switch().control]).nodes == NODES - GUESTS


def test_traffic_crosses_the_fabric(huge):
    result = measure.measure(huge.node("vm0"), huge.node("vm1"))
    assert result.bandwidth_mib_s > 0 and result.latency_us > 0


def test_memory_of_the_switch(huge):
    kib = int(re.search(r"^VmRSS:\s+(\d+) kB$", of_switch(huge, "status"), re.MULTILINE)[1])
    assert kib <= MOST_KIB * NODES, f"{kib / NODES:.1f} KiB a node"


def test_status_answers(huge, capsys):
    before = processor_s(huge)
    assert status.status(huge) == 0
    assert processor_s(huge) - before < MOST_S
    said = capsys.readouterr().out
    assert f"of {NODES - GUESTS:,} nodes have a LID" in said, said


def test_map_shows_every_switch_of_a_huge_fabric(huge):
    before = processor_s(huge)
    text = fabric_map.text(*fabric_map.look([huge.switch().control]))
    assert processor_s(huge) - before < MOST_S
    assert len(re.findall(r"^\S.*   LID \d+$", text, re.MULTILINE)) == SWITCHES
