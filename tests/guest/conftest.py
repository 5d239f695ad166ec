# SPDX-License-Identifier: GPL-2.0-or-later
"""Booted guests for tests: `lab` is the running lab.fabric.cluster.Cluster, `vm0`, `vm1` the lab.guests.guest.Guest of
a guest, `nodes` all of them.

One boot serves the whole session, in a run directory of its own, so that a user's lab is not disturbed. The HCAs have
two ports, which rdma-core's tests need. Variables of the environment:
  PIB_TEST_NODES           number of guests
  PIB_TEST_HCA             further properties of the HCAs of all labs of the tests, such as shared-memory=off
  PIB_TEST_KEEP=1          the guests keep running, and the next session takes them over
  PIB_TEST_COVERAGE=FILE   file to which the tests add what the guests' drivers have used of their devices
                           (./pib driver coverage)
"""

import os

import pytest

import labs
from lab.base import environment
from lab.fabric import up
from rdma import complaints, wait_until

DEFAULT_NODES = 2
ADDRESS = "10.77.0.{}"
HCA = "ports=2,inject=on"
# Modules whose tests take seconds and detect mistakes that break everything.
FIRST = ("test_lab", "test_management", "test_observe", "test_link_errors", "test_kicks", "test_vectors")
# Modules with labs of their own that run after those of the shared lab, so that both shares take the same time.
LAST_OF_SHARED = ("test_develop",)
NIGHTLY = pytest.mark.nightly


def pytest_addoption(parser):
    parser.addoption("--nightly", action="store_true", help="the tests that are marked nightly as well")
    parser.addoption("--labs", choices=("shared", "own"),
                     help="only tests in the guests that one boot serves and a few more, or only the other tests with "
                     "labs of their own")


def pytest_configure(config):
    environment.settle()
    config.addinivalue_line("markers", "nightly: takes long or resembles others; runs with --nightly")


def pytest_collection_modifyitems(config, items):
    """Runs the quickest modules first, and deselects the tests that are not wanted."""
    def wanted(item):
        shared = "lab" in item.fixturenames or item.module.__name__ in LAST_OF_SHARED
        return ((config.option.nightly or not item.get_closest_marker("nightly"))
                and config.option.labs in (None, "shared" if shared else "own"))

    items.sort(key=lambda item: (item.module.__name__ in LAST_OF_SHARED, item.module.__name__ not in FIRST))
    left_out = [item for item in items if not wanted(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if wanted(item)]


@pytest.fixture(scope="session")
def lab():
    with labs.booted("test", int(os.environ.get("PIB_TEST_NODES", DEFAULT_NODES)), HCA,
                     keep=bool(os.environ.get("PIB_TEST_KEEP"))) as running:
        yield running


@pytest.fixture(scope="session")
def nodes(lab):
    return [lab.node(name) for name in lab.nodes()]


@pytest.fixture(scope="session")
def vm0(lab):
    return lab.node("vm0")


@pytest.fixture(scope="session")
def vm1(lab):
    return lab.node("vm1")


@pytest.fixture(scope="module", params=["shared memory", pytest.param("sockets", marks=NIGHTLY)])
def links(lab, request):
    """Kind of the links between the guests and the switch."""
    if request.param == "sockets":
        up.restart_switch(lab, "--no-shared-memory")
    sharing = [] if request.param == "sockets" or "shared-memory=off" in labs.hca_options() else lab.nodes()
    wait_until(lambda: labs.in_shared_memory(lab) == sharing, f"links over {request.param}")
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
def faultless_driver():
    """With PIB_TEST_HCA=strict=…, no device may name misuse. After strict=fatal the driver starts its device again, so
    that a test may pass although the device has stopped."""
    yield
    if "strict" in os.environ.get("PIB_TEST_HCA", ""):
        named = {guest: texts for guest, texts in labs.new_misuse().items() if texts}
        assert not named, f"a strict device names misuse: {named}"


@pytest.fixture(autouse=True)
def quiet_kernel():
    """No test may leave a new kernel complaint behind in a guest of any lab."""
    yield
    for name, said in labs.new_kernel_messages().items():
        assert not complaints(said), f"{name}: the kernel complains:\n{said}"
