# SPDX-License-Identifier: GPL-2.0-or-later
"""The subnet as the ordinary tools see it."""

import re


def test_ports_are_active_with_lids_of_their_own(lab):
    ports = [port for node in lab.nodes for port in node.ports()]
    assert {port.state for port in ports} == {"ACTIVE"}
    lids = [port.lid for port in ports]
    assert 0 not in lids and len(set(lids)) == len(lids)
    assert {port.sm_lid for port in ports} == {lab[0].port.lid}
    assert len({port.guid for port in ports}) == len(ports)


def test_ibv_devinfo(lab):
    for node in lab.nodes:
        result = node.run("ibv_devinfo", "-v")
        for text in ("InfiniBand (0)", "PORT_ACTIVE (4)", "link_layer:\t\tInfiniBand"):
            assert text in result.out, f"{text!r} not in\n{result.out}"
        assert result.err == ""


def test_ibstat_and_ibstatus(lab):
    for node in lab.nodes:
        text = node.run("ibstat").out
        assert "State: Active" in text and "Physical state: LinkUp" in text
        assert f"Base lid: {node.port.lid}\n" in text and f"SM lid: {node.port.sm_lid}\n" in text
        text = node.run("ibstatus").out
        assert "4: ACTIVE" in text and "InfiniBand" in text


def test_sminfo(lab):
    for node in lab.nodes:
        text = node.run("sminfo").out
        assert "SMINFO_MASTER" in text and f"sm lid {node.port.sm_lid} " in text


def test_ibnetdiscover_shows_every_link_once(lab):
    text = lab[0].run("ibnetdiscover").out
    assert len(re.findall(r"^Switch\s", text, re.M)) == 1
    assert len(re.findall(r"^Ca\s", text, re.M)) == len(lab.nodes)
    # ibnetdiscover names HCA ports by port GUID, in the switch's and in the node's own part
    for node in lab.nodes:
        guid = node.port.guid.removeprefix("0x").lstrip("0")
        assert len(re.findall(rf"\b0*{guid}\b", text)) >= 2, f"{node.name} in\n{text}"


def test_iblinkinfo(lab):
    text = lab[0].run("iblinkinfo").out
    assert len(re.findall(r"Active/\s+LinkUp", text)) >= len(lab.nodes)


def test_smpquery(lab):
    for target in lab.nodes:
        lid = str(target.port.lid)
        assert "Channel Adapter" in lab[0].run("smpquery", "nodeinfo", lid).out
        text = lab[0].run("smpquery", "portinfo", lid, "1").out
        assert re.search(rf"^Lid:\.+{lid}$", text, re.M) and re.search(r"LinkState:\.+Active", text)
        assert "0xffff" in lab[0].run("smpquery", "pkeys", lid, "1").out


def test_perfquery_counts_traffic(lab):
    def received() -> int:
        text = lab[1].run("perfquery", "-x", str(lab[0].port.lid), "1").out
        return int(re.search(r"PortRcvPkts:\.+(\d+)", text).group(1))
    before = received()
    lab[0].run("smpquery", "nodeinfo", str(lab[1].port.lid))
    assert received() > before


def test_ibping(lab):
    server = lab[0].start("timeout", "120", "ibping", "-S")
    try:
        result = lab[1].run("ibping", "-c", "10", "-L", str(lab[0].port.lid))
        assert "10 packets transmitted, 10 received, 0% packet loss" in result.out
    finally:
        lab[0].run("pkill", "-x", "ibping", check=False)
        server.communicate(timeout=60)
