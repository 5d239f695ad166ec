# SPDX-License-Identifier: GPL-2.0-or-later
"""Static rates: the throughput of a slow path over a fast link."""
import json

import pytest

from rdma import DEVICE, PATIENCE_S, pair, put_program, sh

RATE_2_5_GBPS = 2


@pytest.fixture(scope="module")
def ends(vm0, vm1):
    for node in (vm0, vm1):
        put_program(node, "uc_groups.py")
    return vm0, vm1


def send(ends, mib, groups):
    line = f"python3 /tmp/uc_groups.py {DEVICE} {mib} {groups}"
    out, _ = pair(*ends, line, f"{line} {ends[0].name}", PATIENCE_S)
    return json.loads(out.splitlines()[-1])


def test_a_slow_path_gets_no_more_than_its_static_rate(ends):
    """2.5 Gb/s are 250 MB/s of packets; the link would take several times that."""
    alone = send(ends, 512, f"0:{RATE_2_5_GBPS}:2")
    assert alone["sent"][0] < 250e6 * alone["seconds"] + (8 << 20), alone
    mixed = send(ends, 1024, f"0:{RATE_2_5_GBPS}:2,0:0:2")
    assert mixed["sent"][0] < 250e6 * mixed["seconds"] + (8 << 20), mixed
    assert min(mixed["sent"]) > 8 << 20, mixed      # neither path is starved
    assert sh(ends[0], "dmesg -l err,crit,alert,emerg") == ""
