# SPDX-License-Identifier: GPL-2.0-or-later
"""Two guests for the debuggers, with IPoIB between them; the helpers of the guest tests."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "guest"))
# pylint: disable=wrong-import-position
from lab.base import environment
from labs import booted, new_kernel_messages
from rdma import complaints, sh

ADDRESSES = {"vm0": "10.79.0.1", "vm1": "10.79.0.2"}


def pytest_configure():
    environment.settle()


@pytest.fixture(scope="session")
def lab():
    with booted("test-debug", 2, "inject=on", keep=bool(os.environ.get("PIB_TEST_KEEP"))) as running:
        for name, address in ADDRESSES.items():
            sh(running.node(name), f"ip link set ib0 up && ip addr replace {address}/24 dev ib0")
        yield running


@pytest.fixture
def works(lab):
    """Afterwards the guests reach each other over the fabric, and their kernels have not complained."""
    def check():
        address = ADDRESSES["vm0"]
        sh(lab.node("vm1"), f"timeout 280 sh -c 'until ping -c 1 -W 1 {address} >/dev/null; do sleep 0.3; done'")
    check()
    new_kernel_messages()
    yield
    check()
    for name, said in new_kernel_messages().items():
        assert not complaints(said), f"{name}: the kernel complains:\n{said}"
