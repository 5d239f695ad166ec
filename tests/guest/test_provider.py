# SPDX-License-Identifier: GPL-2.0-or-later
"""The provider: checks of its functions, and no system calls while it moves data."""
import re

import pytest

from rdma import DEVICE, PATIENCE_S, pair, sh, wait_active

CHECKS = 55     # fewer than there are: without DMA-BUFs or huge pages, one or two fail or are left out


@pytest.fixture(scope="module")
def active(vm0, vm1):
    wait_active(vm0, vm1)


def test_the_library_finds_the_device_and_prints_no_warning(vm0):
    code, out, err = sh(vm0, "ibv_devices", check=False)
    assert (code, err) == (0, "")
    assert DEVICE in out


def test_provider_checks(vm0, active):
    code, out, err = sh(vm0, f"provider-checks {DEVICE}", check=False)
    # Debian 12's kernel makes no DMA-BUFs.
    impossible = [] if sh(vm0, "ls /dev").count("udmabuf") else ["dma_bufs_are_memory"]
    assert re.findall("^not ok (.*)$", out, re.MULTILINE) == impossible, out + err
    assert code == len(impossible), out + err
    assert len(re.findall("^ok ", out, re.MULTILINE)) >= CHECKS, out


@pytest.mark.nightly
def test_the_provider_is_clean_in_memcheck(vm0, active):
    """No invalid access, no uninitialized value, no leak. libibverbs keeps its list of
    devices by pointers into them, which memcheck calls "possibly lost"."""
    code, out, err = sh(vm0, "valgrind -q --leak-check=full --errors-for-leak-kinds=definite,indirect "
                     "--show-leak-kinds=definite,indirect --child-silent-after-fork=yes "
                     f"provider-checks {DEVICE}", check=False, timeout=4 * PATIENCE_S)
    assert code <= 1 and len(re.findall("^ok ", out, re.MULTILINE)) >= CHECKS and "==" not in err, out + err


def test_the_longest_messages_and_one_byte_more(vm0, active):
    code, out, err = sh(vm0, f"large-messages {DEVICE}", check=False)
    assert code == 0 and len(re.findall("^ok ", out, re.MULTILINE)) == 6, out + err


def calls(vm0, vm1, line, trace="/tmp/trace"):
    """System calls that the client of a pair makes: {name: number}."""
    pair(vm0, vm1, line, f"strace -f -c -o {trace} {line} vm0")
    rows = re.findall(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$", sh(vm1, f"cat {trace}"),
                      re.MULTILINE)
    return {name: int(count) for count, name in rows if name != "total"}


@pytest.mark.parametrize("program", ["ibv_rc_pingpong -s 64", "ibv_rc_pingpong -s 65536",
                                     "ibv_ud_pingpong -s 1024"])
def test_no_system_call_on_the_data_path(vm0, vm1, active, program):
    """Ten times as many messages need no further system call."""
    few, many = (calls(vm0, vm1, f"{program} -d {DEVICE} -n {n}") for n in (200, 2000))
    assert few["ioctl"] > 10
    assert few == many


def test_no_system_call_to_ask_for_an_event(vm0, vm1, active):
    """A program that sleeps reads its events; asking for them is a store."""
    few, many = (calls(vm0, vm1, f"ibv_rc_pingpong -e -d {DEVICE} -n {n}") for n in (100, 1000))
    assert many["read"] > few["read"]
    assert {name for name in many if many[name] != few.get(name, 0)} == {"read"}
