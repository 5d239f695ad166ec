# SPDX-License-Identifier: GPL-2.0-or-later
"""The InfiniBand tools' view of a subnet of two guests and one switch."""
import re

import pytest

import diags
import managers
from rdma import DEVICE, lid, pair, sh


def test_ibv_devinfo(vm0):
    text = sh(vm0, f"ibv_devinfo -v -d {DEVICE}")
    for wanted in ("transport:\\s+InfiniBand", "state:\\s+PORT_ACTIVE", "link_layer:\\s+InfiniBand",
                   "sm_lid:\\s+[1-9]", "port_lid:\\s+[1-9]", r"GID\[\s*0\]:\s+fe80:0000:0000:0000"):
        assert re.search(wanted, text), f"{wanted} not in\n{text}"


def test_provider_is_found_silently(vm0):
    code, out, err = sh(vm0, "ibv_devices", check=False)
    assert code == 0 and DEVICE in out and err == ""


@pytest.mark.parametrize("tool", ["ibstat", "ibstatus"])
def test_port_is_active(vm0, vm1, tool):
    for node in (vm0, vm1):
        text = sh(node, tool)
        assert re.search(r"[Ss]tate:.*A(ctive|CTIVE)", text) and "LinkUp" in text, text


def test_sminfo(vm0, vm1):
    for node in (vm0, vm1):
        text = sh(node, "sminfo")
        assert f"sm lid {lid(vm0)}" in text and "SMINFO_MASTER" in text


def test_ibnetdiscover_sees_both_guests_and_the_switch(vm0, vm1):
    text = sh(vm1, "ibnetdiscover")
    assert len(re.findall(r"^Switch\s", text, re.M)) == 1
    assert len(re.findall(r"^Ca\s", text, re.M)) == 2
    for node in (vm0, vm1):
        assert f"lid {lid(node)}" in text


def test_iblinkinfo(vm0):
    text = sh(vm0, "iblinkinfo")
    assert len(re.findall(r"Active/\s+LinkUp", text)) >= 2, text


@pytest.mark.parametrize("attribute, wanted", [
    ("nodeinfo", r"NodeType:\.+Channel Adapter"),
    ("portinfo", r"LinkState:\.+Active"),
    ("pkeys", r"0xffff"),
    ("nodedesc", r"Node Description:\.+\S"),
    ("sl2vl", r"(?m)^ports?: in.*(\|\s*\d+){16}"),
    ("vlarb", r"(?m)^WEIGHT: \|0x[1-9a-f]"),
    ("guidinfo", r"0: 0x[0-9a-f]{16}"),
])
def test_smpquery_of_the_other_guest(vm0, vm1, attribute, wanted):
    port = "" if attribute in ("nodeinfo", "nodedesc", "guidinfo", "pkeys", "sl2vl", "vlarb") else " 1"
    text = sh(vm0, f"smpquery {attribute} {lid(vm1)}{port}")
    assert re.search(wanted, text), text


def test_smpquery_by_directed_route(vm0):
    assert "Switch" in sh(vm0, "smpquery -D nodeinfo 0,1")
    assert "SwitchInfo" in sh(vm0, "smpquery -D switchinfo 0,1") or \
        "LinearFdbCap" in sh(vm0, "smpquery -D switchinfo 0,1")


PACKETS = 1000


def transfer(sender, receiver):
    """Sends PACKETS packets of the path's MTU."""
    line = f"ib_write_bw -d {DEVICE} -F -s {4096 * PACKETS // 100} -n 100"
    pair(receiver, sender, line, f"{line} {receiver.name}")


def received(asking, node):
    return int(re.search(r"PortRcvPkts:\.+(\d+)", sh(asking, f"perfquery -x {lid(node)} 1"))[1])


def test_perfquery_counts_packets(vm0, vm1):
    """perfquery counts each packet of the transfer. Packets of the tools add less than that number again."""
    before = received(vm0, vm1)
    transfer(vm0, vm1)
    assert PACKETS <= received(vm0, vm1) - before < 2 * PACKETS


def test_perfquery_reset(vm0, vm1):
    transfer(vm0, vm1)
    assert received(vm0, vm1) >= PACKETS
    sh(vm0, f"perfquery -x -R {lid(vm1)} 1")
    assert received(vm0, vm1) < PACKETS


def test_ibping(vm0, vm1):
    diags.ibping(vm0, vm1, 200)


def test_opensm_log_has_no_error(vm0):
    log = sh(vm0, f"cat {managers.LAB_LOG}")
    assert "SUBNET UP" in log
    managers.check(log)
