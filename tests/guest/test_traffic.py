# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that no one here wrote move data between two guests."""
import pytest

from rdma import DEVICE, pair, perftest_rows


@pytest.mark.parametrize("options", ["", "-e", "-g 0", "-s 1 -n 200", "-s 1048576 -n 100"])
def test_rc_pingpong_checks_its_data(vm0, vm1, options):
    line = f"ibv_rc_pingpong -d {DEVICE} -c {options}"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    assert "iters in" in out


@pytest.mark.parametrize("options", ["", "-e", "-g 0", "-s 100000 -n 100"])
def test_uc_pingpong_checks_its_data(vm0, vm1, options):
    line = f"ibv_uc_pingpong -d {DEVICE} -c {options}"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    assert "iters in" in out


@pytest.mark.parametrize("options", ["-s 2048", "-s 2048 -e", "-s 1024 -g 0"])
def test_ud_pingpong_checks_its_data(vm0, vm1, options):
    line = f"ibv_ud_pingpong -d {DEVICE} -c {options}"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    assert "iters in" in out


@pytest.mark.parametrize("options", ["", "-e", "-q 4 -s 100000"])
def test_srq_pingpong_checks_its_data(vm0, vm1, options):
    line = f"ibv_srq_pingpong -d {DEVICE} -c -n 200 {options}"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    assert "iters in" in out


@pytest.mark.parametrize("options", ["", "-e -n 200", "-s 100000 -n 50", "-g 0 -n 50"])
def test_xsrq_pingpong(vm0, vm1, options):
    line = f"ibv_xsrq_pingpong -d {DEVICE} {options}"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    assert "success" in out


@pytest.mark.parametrize("program", ["ib_write_bw -a", "ib_read_bw -a", "ib_send_bw -a",
                                     "ib_write_bw -b -s 65536", "ib_read_bw -b -s 65536",
                                     "ib_send_bw -b -s 65536", "ib_send_bw -e -s 65536",
                                     "ib_write_bw -s 4096 -q 8", "ib_send_bw -c UD -s 2048",
                                     "ib_send_bw -c UD -s 2048 -e",
                                     "ib_send_bw --use-srq -s 4096",
                                     "ib_send_bw --use-srq -s 65536 -q 8",
                                     "ib_send_bw -c UD --use-srq -s 2048",
                                     "ib_send_bw -c XRC -a", "ib_write_bw -c XRC -s 65536",
                                     "ib_read_bw -c XRC -s 65536 -q 4",
                                     "ib_send_bw -c XRC -s 4096 --use_old_post_send",
                                     "ib_atomic_bw -c XRC -A FETCH_AND_ADD",
                                     "ib_send_lat -c XRC -s 8",
                                     "ib_send_bw -c UC -a", "ib_write_bw -c UC -a",
                                     "ib_send_bw -c UC -s 65536 -e", "ib_send_lat -c UC -s 8",
                                     "ib_write_lat -c UC -s 8", "ib_send_bw -c UC --use-srq -s 65536",
                                     "ib_atomic_bw -A CMP_AND_SWAP", "ib_atomic_bw -A FETCH_AND_ADD",
                                     "ib_send_lat -s 8", "ib_write_lat -s 8", "ib_read_lat -s 8",
                                     "ib_send_lat -s 8 -e", "ib_send_lat -c UD -s 8"])
def test_perftest(vm0, vm1, program):
    iterations = "-n 100" if " -a" in program else "-n 500"
    line = f"{program} {iterations} -d {DEVICE} -F"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    rows = perftest_rows(out)
    assert rows, out
    sizes = 23 if " -a" in program else 1
    assert len(rows) == sizes, out
    assert all(row[3] > 0 for row in rows), out


@pytest.mark.parametrize("mtu", [256, 512, 1024, 2048, 4096])
def test_every_path_mtu(vm0, vm1, mtu):
    line = f"ib_write_bw -s 100000 -n 50 -m {mtu} -d {DEVICE} -F"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    assert perftest_rows(out), out
