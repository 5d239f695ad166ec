# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests of Debian 12: rdma-core 44's own tests on kernel 6.1, each module in a process of its own.

`./pib test bookworm` boots such guests, for these and the other guest tests; in guests of another
release there is nothing to do here.
"""
import re

import pytest

from lab import image
from rdma import DEVICE, sh
from test_provider import active, results, suite  # noqa: F401 (fixtures)

pytestmark = pytest.mark.skipif(image.release() != "bookworm", reason="for guests of Debian 12")

ETHERNET = {"addr": {"test_create_ah_roce"},
            "flow": {"test_eth_spec_flow_traffic", "test_ipv4_spec_flow_traffic", "test_ipv6_spec_flow_traffic",
                     "test_tcp_spec_flow_traffic", "test_udp_spec_flow_traffic"},
            "qp": {"test_create_raw_qp_ex_no_attr", "test_create_raw_qp_ex_with_attr", "test_create_raw_qp_no_attr",
                   "test_create_raw_qp_with_attr", "test_query_raw_qp"},
            "rss_traffic": {"test_rss_traffic"}}
GRAPHICS = {"cuda_dmabuf": {"test_cuda_dmabuf_rdma_write_traffic"},
            "mr": {"test_dmabuf_dereg_mr", "test_dmabuf_dereg_mr_twice", "test_dmabuf_lkey", "test_dmabuf_read",
                   "test_dmabuf_reg_mr", "test_dmabuf_reg_mr_bad_flags", "test_dmabuf_rkey", "test_dmabuf_write",
                   "test_dmabuf_rc_traffic", "test_dmabuf_rdma_traffic"}}
NOT_OFFERED = {"device": {"test_import_dm"}, "odp": {"test_odp_xrc_traffic"},
               "tag_matching": {"test_tm_traffic", "test_tm_no_tag", "test_tm_rndv", "test_tm_unexpected_tag"}}
# Tests of each module; all that are not in the tables above pass: 142.
TESTS = {"addr": 3, "atomic": 9, "cq": 4, "cq_events": 2, "cqex": 5, "cuda_dmabuf": 1, "device": 22, "flow": 5,
         "fork": 1, "mr": 27, "odp": 17, "parent_domain": 6, "pd": 4, "qp": 26, "qpex": 20, "rdmacm": 10,
         "relaxed_ordering": 3, "rss_traffic": 1, "shared_pd": 1, "tag_matching": 4}


def skipped(module):
    return {name for table in (ETHERNET, GRAPHICS, NOT_OFFERED) for name in table.get(module, ())}


def test_the_release(vm0):
    assert sh(vm0, "uname -r").startswith("6.1.")
    assert sh(vm0, "dpkg-query -W -f '${Version}' rdma-core").startswith("44.")


def test_no_module_is_forgotten(vm0, suite):  # noqa: F811
    """mlx5 and efa are devices of others."""
    names = re.findall(r"^test_(\w+)\.py$", sh(vm0, "ls /tmp/rdma-core/tests"), re.MULTILINE)
    assert {name for name in names if not name.startswith(("mlx5", "efa"))} == set(TESTS)


@pytest.mark.parametrize("module", TESTS)
def test_rdma_core_44(vm0, addresses, suite, module):  # noqa: F811
    _, out, err = sh(vm0, f"cd /tmp/rdma-core/tests && python3 run_tests.py --dev {DEVICE} --port 1 --gid 0 "
                     f"-v tests.test_{module}", check=False)
    outcome = results(err)
    assert {name for name, how in outcome.items() if how == "skipped"} == skipped(module), err
    assert re.search(rf"^Ran {TESTS[module]} tests? in .*\n\nOK\b", err, re.MULTILINE), out + err
