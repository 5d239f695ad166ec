# SPDX-License-Identifier: GPL-2.0-or-later
"""Each transport over links that share no memory. `./pib test all` runs all of test_traffic.py over such links."""
import pytest

import labs
from lab.fabric import up
from rdma import DEVICE, pair, wait_until


@pytest.fixture(scope="module")
def sockets(lab):
    up.restart_switch(lab, "--no-shared-memory")
    wait_until(lambda: not labs.in_shared_memory(lab), "links over sockets")
    yield
    up.restart_switch(lab)


@pytest.mark.parametrize("program, said", [
    ("ibv_rc_pingpong -c -s 100000 -n 100", "iters in"), ("ibv_uc_pingpong -c -n 100", "iters in"),
    ("ibv_ud_pingpong -c -s 2048", "iters in"), ("ibv_srq_pingpong -c -n 200", "iters in"),
    ("ibv_xsrq_pingpong -n 100", "success")])
def test_pingpong(vm0, vm1, sockets, program, said):
    line = f"{program} -d {DEVICE}"
    assert said in pair(vm0, vm1, line, f"{line} vm0")[0]
