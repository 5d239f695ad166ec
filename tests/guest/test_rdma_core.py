# SPDX-License-Identifier: GPL-2.0-or-later
"""rdma-core's own tests, one module a process, in guests of Debian 13 (rdma-core 56) or of Debian 12
(`./pib test bookworm`: rdma-core 44 on kernel 6.1). docs/ib-coverage.md counts them."""
import re

import pytest

from lab.build import image
from rdma import DEVICE, sh, wait_active

SUITE = "/tmp/rdma-core/tests"
# Kernel, rdma-core.
VERSIONS = {"trixie": ("6.12.", "56."), "bookworm": ("6.1.", "44."), "trixie-backports": ("7.", "56.")}
# Tests of each module, those for the devices mlx5 and efa excepted.
TESTS = {
    "trixie": {"addr": 3, "atomic": 9, "cq": 4, "cq_events": 2, "cqex": 5, "cuda_dmabuf": 1, "device": 23,
               "flow": 5, "fork": 1, "mr": 32, "odp": 17, "parent_domain": 6, "pd": 4, "qp": 26, "qpex": 22,
               "rdmacm": 10, "relaxed_ordering": 3, "rss_traffic": 1, "shared_pd": 1, "srq": 3,
               "tag_matching": 4},
    "bookworm": {"addr": 3, "atomic": 9, "cq": 4, "cq_events": 2, "cqex": 5, "cuda_dmabuf": 1, "device": 22,
                 "flow": 5, "fork": 1, "mr": 27, "odp": 17, "parent_domain": 6, "pd": 4, "qp": 26, "qpex": 20,
                 "rdmacm": 10, "relaxed_ordering": 3, "rss_traffic": 1, "shared_pd": 1, "tag_matching": 4},
}[image.debian_release()]
# Tests that need an Ethernet link, a graphics card or tag matching. All others pass.
SKIPPED = {
    "addr": {"test_create_ah_roce"},
    "cuda_dmabuf": {"test_cuda_dmabuf_rdma_write_traffic"},
    "flow": {"test_eth_spec_flow_traffic", "test_ipv4_spec_flow_traffic", "test_ipv6_spec_flow_traffic",
             "test_tcp_spec_flow_traffic", "test_udp_spec_flow_traffic"},
    "mr": {"test_dmabuf_dereg_mr", "test_dmabuf_dereg_mr_twice", "test_dmabuf_lkey", "test_dmabuf_read",
           "test_dmabuf_reg_mr", "test_dmabuf_reg_mr_bad_flags", "test_dmabuf_rkey", "test_dmabuf_write",
           "test_dmabuf_rc_traffic", "test_dmabuf_rdma_traffic"},
    "qp": {"test_create_raw_qp_ex_no_attr", "test_create_raw_qp_ex_with_attr", "test_create_raw_qp_no_attr",
           "test_create_raw_qp_with_attr", "test_query_raw_qp"},
    "rss_traffic": {"test_rss_traffic"},
    "tag_matching": {"test_tm_no_tag", "test_tm_rndv", "test_tm_traffic", "test_tm_unexpected_tag"},
}


@pytest.fixture(scope="module")
def suite(vm0, vm1, addresses):
    """Debian ships rdma-core's tests as documentation, the longer files compressed."""
    wait_active(vm0, vm1)
    sh(vm0, f"mkdir -p {SUITE} && cp -r /usr/share/doc/rdma-core/tests/. {SUITE} && gunzip -f {SUITE}/*.gz")
    sh(vm0, "sysctl -q vm.nr_hugepages=16")  # some tests allocate in huge pages


def test_kernel_and_rdma_core_are_those_of_the_release(vm0):
    kernel, rdma_core = VERSIONS[image.release()]
    assert sh(vm0, "uname -r").startswith(kernel)
    assert sh(vm0, "dpkg-query -W -f '${Version}' rdma-core").startswith(rdma_core)


def test_no_module_is_forgotten(vm0, suite):
    names = re.findall(r"^test_(\w+)\.py$", sh(vm0, f"ls {SUITE}"), re.MULTILINE)
    assert {name for name in names if not name.startswith(("mlx5", "efa"))} == set(TESTS)


def results(text):
    """Results of the tests from the output of unittest -v."""
    return dict(re.findall(r"^(test_\w+) \(.*\)(?:\n.*?)?? \.\.\. (?:.*\n)*?.*?\b(ok|skipped|FAIL|ERROR)\b",
                           text, re.MULTILINE))


@pytest.mark.parametrize("module", TESTS)
def test_rdma_core(vm0, suite, module):
    _, out, err = sh(vm0, f"cd {SUITE} && python3 run_tests.py --dev {DEVICE} --port 1 --gid 0 "
                     f"-v tests.test_{module}", check=False)
    skipped = {name for name, how in results(err).items() if how == "skipped"}
    assert skipped == SKIPPED.get(module, set()), out + err
    assert re.search(rf"^Ran {TESTS[module]} tests? in .*\n\nOK\b", err, re.MULTILINE), out + err
