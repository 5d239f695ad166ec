# SPDX-License-Identifier: GPL-2.0-or-later
"""The provider: what it promises beyond moving data, and that the kernel has no part in that."""
import re

import pytest

from lab import image
from rdma import DEVICE, pair, sh, wait_active

SUITE = "/tmp/rdma-core/tests"
# Of rdma-core's own tests, those that ask for an Ethernet link, a GPU or tag matching; all others
# pass, and docs/ib-coverage.md counts them. A name here that starts to pass is an error as well.
NOT_OFFERED = {
    "addr": {"test_create_ah_roce"},
    "atomic": set(),
    "cq": set(),
    "cq_events": set(),
    "cqex": set(),
    "device": set(),
    "flow": {"test_eth_spec_flow_traffic", "test_ipv4_spec_flow_traffic",
             "test_ipv6_spec_flow_traffic", "test_tcp_spec_flow_traffic",
             "test_udp_spec_flow_traffic"},
    "fork": set(),
    "mr": {"test_dmabuf_dereg_mr", "test_dmabuf_dereg_mr_twice", "test_dmabuf_lkey",
           "test_dmabuf_read", "test_dmabuf_reg_mr", "test_dmabuf_reg_mr_bad_flags",
           "test_dmabuf_rkey", "test_dmabuf_write", "test_dmabuf_rc_traffic",
           "test_dmabuf_rdma_traffic"},
    "odp": set(),
    "parent_domain": set(),
    "pd": set(),
    "qp": {"test_create_raw_qp_ex_no_attr", "test_create_raw_qp_ex_with_attr",
           "test_create_raw_qp_no_attr", "test_create_raw_qp_with_attr", "test_query_raw_qp"},
    "qpex": set(),
    "rdmacm": set(),
    "relaxed_ordering": set(),
    "rss_traffic": {"test_rss_traffic"},
    "shared_pd": set(),
    "srq": set(),
    "tag_matching": {"test_tm_no_tag", "test_tm_rndv", "test_tm_traffic",
                     "test_tm_unexpected_tag"},
}


@pytest.fixture(scope="module")
def active(vm0, vm1):
    wait_active(vm0, vm1)


def test_the_library_finds_the_device_without_a_word(vm0):
    code, out, err = sh(vm0, "ibv_devices", check=False)
    assert (code, err) == (0, "")
    assert DEVICE in out


def test_provider_checks(vm0, active):
    _, out, err = sh(vm0, f"provider-checks {DEVICE}", check=False)
    # Debian 12's kernel makes no DMA-BUFs.
    impossible = [] if sh(vm0, "ls /dev").count("udmabuf") else ["dma_bufs_are_memory"]
    assert re.findall("^not ok (.*)$", out, re.MULTILINE) == impossible, out + err
    assert len(re.findall("^ok ", out, re.MULTILINE)) > 15, out


def calls(vm0, vm1, line, trace="/tmp/trace"):
    """System calls that the client of a pair makes: {name: number}."""
    pair(vm0, vm1, line, f"strace -f -c -o {trace} {line} vm0")
    rows = re.findall(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$", sh(vm1, f"cat {trace}"),
                      re.MULTILINE)
    return {name: int(count) for count, name in rows if name != "total"}


@pytest.mark.parametrize("program", ["ibv_rc_pingpong -s 64", "ibv_rc_pingpong -s 65536",
                                     "ibv_ud_pingpong -s 1024"])
def test_no_system_call_on_the_data_path(vm0, vm1, active, program):
    """Ten times the messages, not one more call."""
    few, many = (calls(vm0, vm1, f"{program} -d {DEVICE} -n {n}") for n in (200, 2000))
    assert few["ioctl"] > 10
    assert few == many


def test_no_system_call_to_ask_for_an_event(vm0, vm1, active):
    """A program that sleeps reads its events; asking for them is a store."""
    few, many = (calls(vm0, vm1, f"ibv_rc_pingpong -e -d {DEVICE} -n {n}") for n in (100, 1000))
    assert many["read"] > few["read"]
    assert {name for name in many if many[name] != few.get(name, 0)} == {"read"}


def results(text):
    """Outcome of each test that unittest -v reports."""
    return dict(re.findall(r"^(test_\w+) \(.*\)(?:\n.*?)?? \.\.\. (?:.*\n)*?.*?\b(ok|skipped|FAIL|ERROR)\b",
                           text, re.MULTILINE))


@pytest.fixture(scope="module")
def suite(vm0, active, addresses):
    """rdma-core's own tests, which Debian ships as documentation, the longer files compressed."""
    sh(vm0, f"mkdir -p {SUITE} && cp -r /usr/share/doc/rdma-core/tests/. {SUITE} && gunzip -f {SUITE}/*.gz")
    sh(vm0, "sysctl -q vm.nr_hugepages=16")  # some of them allocate in huge pages


@pytest.mark.parametrize("module", NOT_OFFERED)
@pytest.mark.skipif(image.release() != "trixie", reason="another release, other tests")
def test_rdma_core(vm0, suite, module):
    _, out, err = sh(vm0, f"cd {SUITE} && python3 run_tests.py --dev {DEVICE} --port 1 --gid 0 "
                     f"-v tests.test_{module}", check=False)
    outcome = results(err)
    assert outcome, out + err
    bad = {name for name, how in outcome.items() if how in ("FAIL", "ERROR")}
    assert not bad, err
    assert {name for name, how in outcome.items() if how == "skipped"} == NOT_OFFERED[module], err
