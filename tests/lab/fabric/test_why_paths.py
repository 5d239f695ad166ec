# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib why about links that are down: the connections that they cut off, and those with other paths."""

import pytest

from lab.fabric import why
from lab.fabric.evidence import Evidence
from lab.fabric.wiring import Wiring
from why_evidence import changes, fails, only, pull, qp, switch_port, two_guests


@pytest.fixture(name="seen")
def _seen() -> Evidence:
    return two_guests()


def test_a_link_that_is_down_has_the_connections_that_it_cuts_off_or_that_may_have_used_it(seen):
    """The tables lead over spine1 now. The path may have used spine2's link before."""
    pull(seen, "leaf2", 2)
    line, = why.lines(seen)
    assert ("link leaf2[2] to spine2[2] went down at 12:03:09: the cable was pulled; 2 QPs may have used it and have "
            "other paths now (vm0 QP 0x40, vm1 QP 0x41)  [") in line
    pull(seen, "leaf2", 1)
    assert "the cable was pulled; 2 QPs are cut off by it (vm0 QP 0x40, vm1 QP 0x41)  [" in only(
        why.lines(seen), "link leaf2[1]")
    seen.guests["vm0"]["hcas"][0]["objects"]["qps"]["entries"] += [
        qp(number, "vm1", 0x99) for number in range(0x50, 0x54)]
    assert "; 6 QPs are cut off by it (vm0 QP 0x40, vm0 QP 0x50, vm0 QP 0x51, vm0 QP 0x52, …)  [" in only(
        why.lines(seen), "link leaf2[1]")
    for name in ("vm0", "vm1"):
        for one in seen.guests[name]["hcas"][0]["objects"]["qps"]["entries"]:
            one["state"] = "INIT"
    assert not any(" QP" in line for line in why.lines(seen))


@pytest.mark.parametrize("question", ["vm0:0x40", "64"])
def test_about_a_qp_a_link_that_is_down_is_told_also_beside_its_path(seen, question):
    pull(seen, "leaf2", 2)
    changes(seen, "leaf1", 2, ("12:03:20", "faults", "drop 0.5"))
    line, = why.lines(seen, question)
    assert line == ("12:03:09  link leaf2[2] to spine2[2] went down at 12:03:09: the cable was pulled; the path of "
                    "vm0 QP 0x40 does not pass it now  [docs/troubleshooting.md#6-a-link-is-down-or-loses-packets]")
    pull(seen, "spine1", 1, "12:03:21")
    changes(seen, "leaf1", 1, ("12:03:22", "faults", "drop 0.5"))
    lines = why.lines(seen, question)
    assert [line[:8] for line in lines] == ["12:03:09", "12:03:21", "12:03:22"]
    assert all("; the path of vm0 QP 0x40 passes it  [" in line for line in lines[1:])
    seen.switches["leaf1"]["lft"]["entries"] = []
    lines = why.lines(seen, question)
    assert ("; vm0 QP 0x40 has no complete path now: the forwarding tables do not lead to vm1 and back  ["
            in only(lines, "leaf2[2]"))


def test_about_a_qp_of_many_links_that_are_down_the_first_are_told(seen):
    for number in range(10, 16):
        seen.switches["leaf1"]["status"]["ports"].append({**switch_port(number, "vm0", 1), "neighbour": {
            "node_guid": hex(number), "port_guid": hex(number), "port": 1, "description": f"node{number}"}})
        pull(seen, "leaf1", number, f"12:03:{number}")
    pull(seen, "spine1", 1, "12:03:01")
    lines = why.lines(seen, "0x40")
    assert [line[:8] for line in lines] == ["12:03:01", "12:03:13", "12:03:14", "12:03:15", "12:03:30"]
    assert "3 more links are down or have faults. All of them:  ./pib why" in lines[-1]


def test_a_qp_without_a_path_of_its_own_is_told_so(seen):
    pull(seen, "leaf2", 2)
    qps = seen.guests["vm0"]["hcas"][0]["objects"]["qps"]["entries"]
    qps += [{"qpn": 0x42, "type": "UD", "state": "RTS"}, qp(0x43, "vm1", 0, state="INIT")]
    assert "; vm0 QP 0x42 has no path of its own" in why.lines(seen, "0x42")[0]
    assert "; vm0 QP 0x43 is in INIT and has no path" in why.lines(seen, "0x43")[0]


def test_nothing_wrong_with_a_guest_does_not_mean_that_no_link_is_down(seen):
    assert "elsewhere" not in why.answer(seen, "vm1")
    pull(seen, "leaf1", 2)
    said = why.answer(seen, "vm1")
    assert said.startswith("vm1: nothing is wrong") and "down or have faults elsewhere: 1." in said


def test_packets_to_the_own_port_pass_no_faults_but_need_the_link(seen):
    qps = seen.guests["vm0"]["hcas"][0]["objects"]["qps"]["entries"]
    qps[:] = [qp(0x50, "vm0", 0x51), qp(0x51, "vm0", 0x50)]
    changes(seen, "leaf1", 3, ("12:03:05", "faults", "drop 0.5"))
    assert "0x50: nothing is wrong" in why.answer(seen, "0x50")
    fails(seen, "vm0", qpn=0x50, dest_qpn=0x51)
    line, = why.lines(seen, "0x50")
    assert "because no cause is recorded: packets to the port's own LID do not leave the port; local ACK" in line
    pull(seen, "leaf1", 3)
    lines = why.lines(seen, "vm0:0x50")
    assert "because link leaf1[3] to vm0[1] went down at 12:03:09" in only(lines, "RETRY_EXC_ERR")
    assert only(lines, "sends to its own port").startswith(
        "12:03:09  link leaf1[3] to vm0[1] went down at 12:03:09: the cable was pulled; vm0 QP 0x50 sends to its own "
        "port, which needs the link to be Active  [")


def test_paths_are_searched_for_links_with_outages_alone(seen, monkeypatch):
    """A large fabric has thousands of links and many QPs that retry."""
    looked = []
    monkeypatch.setattr(Wiring, "is_on_shortest", lambda _wiring, link, *_ends: looked.append(str(link)))
    fails(seen, "vm1")
    assert len(why.lines(seen)) == 1 and looked == []
    pull(seen, "leaf2", 2, "12:03:09")
    fails(seen, "vm1", "12:03:12")
    why.lines(seen)
    assert set(looked) == {"leaf2[2]"}
