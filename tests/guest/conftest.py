# SPDX-License-Identifier: GPL-2.0-or-later
"""Booted guests for tests: `lab` is the running lab.fabric.cluster.Cluster, `vm0`, `vm1` the
lab.guests.remote.Remote of a guest, `nodes` all of them.

One boot serves the whole session, in a run directory of its own, so that a user's
lab is not disturbed. The HCAs have two ports, as rdma-core's tests want them.
PIB_TEST_NODES sets how many guests, PIB_TEST_HCA more properties of the HCAs of these
and of all other labs of the tests (shared-memory=off); PIB_TEST_KEEP=1 leaves them running, and the
next session then takes them over.
"""

import os

import pytest

from lab import paths, up
from lab.fabric import cluster
from rdma import complaints, hca_options

DEFAULT_NODES = 2
ADDRESS = "10.77.0.{}"
HCA = "ports=2"


@pytest.fixture(scope="session")
def lab():
    running = cluster.Cluster(paths.RUN / "test")
    try:
        up.boot(running, int(os.environ.get("PIB_TEST_NODES", DEFAULT_NODES)),
                hca_options=hca_options(HCA))
        yield running
    finally:
        if not os.environ.get("PIB_TEST_KEEP"):
            with running.locked():
                running.down()


@pytest.fixture(scope="session")
def nodes(lab):
    return [lab.node(name) for name in lab.nodes()]


@pytest.fixture(scope="session")
def vm0(lab):
    return lab.node("vm0")


@pytest.fixture(scope="session")
def vm1(lab):
    return lab.node("vm1")


@pytest.fixture(scope="module", params=["shared memory", "sockets"])
def links(lab, request):
    """What carries the frames between the guests and the switch."""
    if request.param == "sockets":
        up.restart_switch(lab, "--no-shared-memory")
    yield
    if request.param == "sockets":
        up.restart_switch(lab)


@pytest.fixture(scope="session")
def addresses(vm0, vm1):
    """IPoIB addresses of both guests, known to reach each other."""
    for number, node in enumerate((vm0, vm1), 1):
        address = ADDRESS.format(number)
        done = node.run([f"ip link set ib0 up && ip addr replace {address}/24 dev ib0"])
        assert done.returncode == 0, done.stderr.decode()
    done = vm1.run([f"timeout 300 sh -c 'until ping -c 1 -W 1 {ADDRESS.format(1)}; "
                    "do sleep 0.5; done'"], timeout_s=330)
    assert done.returncode == 0, done.stdout.decode()
    return ADDRESS.format(1), ADDRESS.format(2)


@pytest.fixture(autouse=True)
def quiet_kernel(request):
    """No test may leave a new kernel complaint behind in a guest."""
    if not {"lab", "nodes", "vm0", "vm1"} & set(request.fixturenames):
        yield
        return
    guests = request.getfixturevalue("nodes")
    mark = f"lab: {request.node.name}"
    for node in guests:
        node.run(["sh", "-c", 'echo "$1" >/dev/kmsg', "sh", mark])
    yield
    for node in guests:
        said = node.run(["dmesg"]).stdout.decode(errors="replace").rsplit(mark, 1)[-1]
        assert not complaints(said), f"{node.name}: the kernel complains:\n{said}"
