# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports of the driver about itself: debugfs, and driver details of rdma resource. See docs/observability.md."""
from lab.guests import image
from rdma import DEVICE, sh

FOLDER = "/sys/kernel/debug/pib_hca/*"     # by PCI address; a guest of the lab has one HCA


def show(node, name):
    sh(node, "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug")
    return sh(node, f"cat {FOLDER}/{name}").splitlines()


def test_debugfs_shows_the_objects_of_the_kernel(vm0):
    qps = show(vm0, "qps")
    assert any(line.startswith("qp 0 state RTS") or line.startswith("qp 0x0 state RTS") for line in qps), qps
    assert all(line.startswith("cq ") and " error 0 " in line for line in show(vm0, "cqs"))
    eqs = show(vm0, "eqs")
    assert " async 1 " in eqs[0] and len(eqs) > 1
    assert show(vm0, "srqs") == [] or show(vm0, "srqs")[0].startswith("srq ")
    assert all(line.startswith("mr ") for line in show(vm0, "mrs"))


def test_events_are_injected_only_where_the_device_allows_it(vm0):
    assert sh(vm0, f"test -e {FOLDER}/inject && echo there || echo none").strip() == "none"


def test_rdma_resource_has_driver_details(vm0):
    assert "expected_psn" in sh(vm0, "rdma -dd resource show qp")
    assert "producer" in sh(vm0, "rdma -dd resource show cq")
    if image.release() != "bookworm":   # Linux 6.1 asks no driver about SRQs
        assert "waiting" in sh(vm0, "rdma -dd resource show srq")  # IPoIB's


def test_rdma_statistic_has_the_names_that_tools_know(vm0):
    shown = sh(vm0, f"rdma statistic show link {DEVICE}/1")
    for name in ("out_of_sequence", "packet_seq_err", "rnr_nak_retry_err", "local_ack_timeout_err", "duplicate_request",
                 "rx_write_requests", "rx_read_requests", "rx_atomic_requests", "req_cqe_error", "resp_cqe_error"):
        assert f" {name} " in shown, shown
