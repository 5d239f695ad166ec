# SPDX-License-Identifier: GPL-2.0-or-later
"""Third-party programs move data between two guests, over each kind of link. test_peer_copy.py has the tests of links
with peer copy."""
import pytest

from rdma import DEVICE, pair, perftest_rows
from traffic import lossy_wires, random_traffic

pytestmark = pytest.mark.usefixtures("links")


# With -t and -e ibv_rc_pingpong reports an event as an error if it has polled the event's completion before.
@pytest.mark.parametrize("options", ["", "-e", "-g 0", "-s 1 -n 200", "-s 1048576 -n 100", "-m 256 -s 65536 -n 100",
                                     "-l 3", "-r 8", "-o", "-o -P", "-O", "-O -P", "-t", "-N", "-N -e", "-N -t",
                                     "-j", "-j -N", "-o -N"])
def test_rc_pingpong_checks_its_data(vm0, vm1, options):
    line = f"ibv_rc_pingpong -d {DEVICE} -c {options}"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    assert "iters in" in out


@pytest.mark.parametrize("options", ["", "-e", "-g 0", "-s 100000 -n 100", "-l 3 -r 8", "-m 256"])
def test_uc_pingpong_checks_its_data(vm0, vm1, options):
    line = f"ibv_uc_pingpong -d {DEVICE} -c {options}"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    assert "iters in" in out


@pytest.mark.parametrize("options", ["-s 2048", "-s 2048 -e", "-s 1024 -g 0", "-l 3 -r 8"])
def test_ud_pingpong_checks_its_data(vm0, vm1, options):
    line = f"ibv_ud_pingpong -d {DEVICE} -c {options}"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    assert "iters in" in out


@pytest.mark.parametrize("options", ["", "-e", "-q 4 -s 100000", "-g 0", "-m 256 -l 3"])
def test_srq_pingpong_checks_its_data(vm0, vm1, options):
    line = f"ibv_srq_pingpong -d {DEVICE} -c -n 200 {options}"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    assert "iters in" in out


@pytest.mark.parametrize("options", ["", "-e -n 200", "-s 100000 -n 50", "-g 0 -n 50"])
def test_xsrq_pingpong(vm0, vm1, options):
    line = f"ibv_xsrq_pingpong -d {DEVICE} {options}"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    assert "success" in out


@pytest.mark.parametrize("mtu", [256, 512, 1024, 2048, 4096])
def test_every_path_mtu(vm0, vm1, mtu):
    line = f"ib_write_bw -s 100000 -n 50 -m {mtu} -d {DEVICE} -F"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    assert perftest_rows(out), out


def test_random_traffic_over_a_lossy_wire_is_bit_exact(lab, vm0, vm1):
    with lossy_wires(lab, vm0, vm1):
        random_traffic(vm0, vm1, 16, 8)
