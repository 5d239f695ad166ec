# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib why: failures and their causes, from journals and states as switches and devices give them."""

import signal
import subprocess
import time

import pytest

from lab import __main__ as command_line
from lab.base import paths, process, ui
from lab.fabric import cluster, evidence, failures, switch_process, why
from lab.fabric.evidence import Evidence
from lab.fabric.wanted import Wanted
from lab.fabric.wiring import Wiring
from lab.guests import vm
from why_evidence import (GUIDS, NOW, at, changes, fails, known_tables, only, port_events, pull, set_port, switch,
                          switch_port, two_guests)

PATIENCE_S = 60
REASON = "inline_length 193 at byte 8, at most 192 (manual 12.4 rule 9)"


@pytest.fixture(name="seen")
def _seen() -> Evidence:
    return two_guests()


def test_a_fabric_without_a_failure_has_nothing_wrong(seen):
    assert why.answer(seen).startswith("Nothing is wrong")
    assert why.answer(seen, "vm1").startswith("vm1: nothing is wrong")


def test_a_fabric_without_a_subnet_manager_is_not_well(seen):
    """Only a switch process is asked, as with --control, so no guest tells the states of its ports."""
    for name, switch_ in seen.switches.items():
        for port in switch_["status"]["ports"]:
            set_port(seen, name, port["port"], state="Initialize")
    for evidence_ in (Evidence(NOW, seen.switches, {}), seen):
        assert "no subnet manager has set up all connected ports of switches: their state is Initialize" in only(
            why.lines(evidence_), "subnet manager")
        assert "no subnet manager" in only(why.lines(evidence_, "leaf1[1]"), "subnet manager")


def test_ports_that_a_subnet_manager_has_not_set_up_are_named(seen):
    set_port(seen, "leaf2", 1, state="Initialize")
    assert "has set up leaf2[1]: their" in only(why.lines(seen), "subnet manager")
    set_port(seen, "leaf2", 2, state="Initialize", phys_state="Polling")
    assert "has set up leaf2[1]: their" in only(why.lines(seen), "subnet manager")
    for name, number in (("leaf1", 1), ("leaf1", 2), ("spine1", 1), ("spine2", 2)):
        set_port(seen, name, number, state="Initialize")
    assert "leaf1[1], leaf1[2], leaf2[1], spine1[1], … (5 ports): their" in only(why.lines(seen), "subnet manager")


def test_a_switch_process_that_has_ended_is_reported(seen):
    seen.switches.clear()
    seen.ended = {"switch": []}
    for name in ("vm0", "vm1"):
        seen.guests[name]["hcas"][0]["objects"]["ports"]["entries"][0]["state"] = 1
    fails(seen, "vm1")
    lines = why.lines(seen)
    assert "switch does not run, so its links are down. Start it again:  ./pib up" in only(lines, "links are down")
    assert "because the path is not known: switch does not run;" in only(lines, "RETRY_EXC")
    assert "vm0[1] is Down: its link has no peer" in only(why.lines(seen, "vm0"), "vm0[1]")


def test_one_of_two_switch_processes_that_has_ended_is_reported(seen):
    """The other process's part of the fabric is known."""
    del seen.switches["leaf2"]
    seen.ended = {"switch1": ["leaf2"]}
    assert "switch1 (leaf2) does not run" in why.answer(seen, "leaf2")
    assert "switch1 (leaf2) does not run" in why.answer(seen, "switch1")
    assert why.answer(seen, "leaf1").startswith("leaf1: nothing is wrong")
    fails(seen, "vm1")
    assert "because the path is not known: switch1 (leaf2) does not run;" in only(why.lines(seen), "RETRY_EXC")


def test_a_guest_whose_qemu_has_ended_or_does_not_answer_is_reported(seen):
    del seen.guests["vm0"], seen.guests["vm1"]
    seen.gone, seen.silent = {"vm0": "qemu: no space", "vm2": ""}, ["vm1"]
    lines = why.lines(seen)
    assert ("vm0 does not run: its QEMU has ended and said last: qemu: no space. Start the guest anew:  "
            "./pib reboot vm0") in only(lines, "vm0")
    assert "vm2 does not run: its QEMU has ended. Start" in only(lines, "vm2")
    assert "QEMU does not answer. Look at its console:  ./pib console vm1" in only(lines, "vm1")
    assert why.lines(seen, "vm0") == [only(lines, "vm0")]


@pytest.mark.parametrize("names", [("debian", "debian"), ("vm0", "leaf2")])
def test_virtual_machines_of_one_name_are_neither_path_nor_guest(seen, names):
    """Hosts that are not guests describe themselves: by the same name, or by that of a guest or switch."""
    for name, number in zip(names, (1, 2)):
        guid = f"{0xB0 + number:#018x}"
        seen.switches[f"leaf{number}"]["status"]["ports"].append({**switch_port(9, "vm0", 1), "neighbour": {
            "node_guid": guid, "port_guid": f"{0xC0 + number:#018x}", "port": 1, "description": name}})
    found = Wiring(seen)
    guest_port = next(port for port in found.ports if port.guest == "vm0")
    assert str(found.host_link(guest_port)) == "leaf1[3]"
    with pytest.raises(ui.LabError, match=rf"Ask for a node \(.*{0xB2:#018x}"):
        why.lines(seen, "vm9")
    assert {link.b.node for link in found.links if link.a.port == 9} in (
        {"debian", f"{0xB2:#018x}"}, {f"{0xB1:#018x}", f"{0xB2:#018x}"})
    assert {str(link) for link in found.shortest("vm0", "vm1")} == {
        "leaf1[1]", "leaf1[2]", "leaf1[3]", "leaf2[1]", "leaf2[2]", "leaf2[3]"}


def test_a_link_elsewhere_is_not_between_guests_that_no_known_path_joins(seen):
    """The switch process between both has ended, and a third one runs."""
    for name, gone in (("leaf1", (1, 2)), ("spine1", (1,)), ("spine2", (1,))):
        ports = seen.switches[name]["status"]["ports"]
        ports[:] = [port for port in ports if port["port"] not in gone]
    elsewhere = {**switch_port(1, "vm0", 1), "neighbour": {
        "node_guid": "0x98", "port_guid": "0x98", "port": 2, "description": "spine9"}}
    seen.switches["leaf9"] = {**switch("leaf1"), "status": {
        "switch": {"guid": "0x99", "description": "leaf9"}, "ports": [elsewhere]}}
    found = Wiring(seen)
    assert "leaf9[1]" in map(str, found.links) and not found.shortest("vm0", "vm1")


def test_a_repeated_refused_command_has_one_line(seen):
    reason = "refused: log_depth 31 at byte 24, at most 22 (manual 6.13 rule 2)"
    entry = {"command": "CREATE_CQ", "object": 0, "status": 3, "rule": "6.13.2"}
    state = {"now_ns": 5_000_000_000, "refusals": {"count": 2, "entries": [
        {**entry, "time_ns": 2_000_000_000, "id": 7, "text": f"CREATE_CQ id 7 {reason}"},
        {**entry, "time_ns": 4_000_000_000, "id": 8, "text": f"CREATE_CQ id 8 {reason}"}]}}
    seen.guests["vm1"]["hcas"][0]["refusals"] = evidence.refusals(state, NOW)
    line, = why.lines(seen)
    assert line == (f"12:03:29  vm1: CREATE_CQ {reason} (2 times)  "
                    "[docs/troubleshooting.md#7-the-device-refuses-a-command]")
    assert why.lines(seen, "vm1") == [line]
    assert not why.lines(seen, "vm0")


@pytest.mark.parametrize("entry", [
    {"rule": "8.3.1", "text": "QP 0x41 misused: sq_producer 130 passes the ring; at most 128 (manual 8.3 rule 1)"},
    {"rule": "8.2.2", "text": "store to BAR2 at 0x0 refused: value 0x41 must be the number of a QP (manual 8.2 "
                             "rule 2)"},
    {"rule": "6.15.7", "text": "MODIFY_QP of 0x41 id 9 refused: state 3 at byte 4 (manual 6.15 rule 7)",
     "command": "MODIFY_QP", "object": 0x41, "id": 9, "status": 8}])
def test_a_refusal_that_names_a_qp_is_the_answer_about_the_qp(seen, entry):
    state = {"now_ns": 5_000_000_000, "refusals": {"count": 1, "entries": [{**entry, "time_ns": 4_000_000_000}]}}
    seen.guests["vm1"]["hcas"][0]["refusals"] = evidence.refusals(state, NOW)
    line, = why.lines(seen)
    assert why.lines(seen, "vm1:0x41") == why.lines(seen, "0x41") == [line]
    assert why.lines(seen, "vm0") == []


@pytest.mark.parametrize("name, port", [("leaf2", 3), ("leaf2", 1), ("spine1", 1), ("leaf1", 3)])
def test_a_pulled_cable_of_the_path_is_the_cause(seen, name, port):
    pull(seen, name, port)
    fails(seen, "vm1")
    lines = why.lines(seen)
    said = only(lines, "vm1 QP 0x41: RETRY_EXC_ERR")
    link = Wiring(seen).at[next(end for end in Wiring(seen).at if str(end) == f"{name}[{port}]")]
    assert said.startswith("12:03:11  ")
    assert f"because link {link} to {link.b} went down at 12:03:09: the cable was pulled" in said
    assert "local ACK timeout 1.07 s, 7 retries" in said
    assert "docs/troubleshooting.md#ibv_wc_retry_exc_err" in said
    assert lines[-1] == said and len(lines) == 2


@pytest.mark.parametrize("peer_ends", [False, True])
def test_a_cable_that_the_tables_no_longer_use_may_be_the_cause(seen, peer_ends):
    """opensm has changed the tables meanwhile. With peer_ends, the peer's QP has ended, too."""
    pull(seen, "leaf2", 2)
    fails(seen, "vm1")
    if peer_ends:
        seen.guests["vm0"]["hcas"][0]["objects"]["qps"]["entries"].clear()
    said = only(why.lines(seen), "RETRY_EXC_ERR")
    assert ("because link leaf2[2] to spine2[2] went down at 12:03:09: the cable was pulled; its packets may have "
            "passed there then, but do not now: the forwarding tables of that time are not known, but ./pib web "
            "keeps those since its start; local ACK timeout") in said
    assert said in why.lines(seen, "leaf2[2]") and said in why.lines(seen, "vm1:0x41")


def test_a_cable_that_the_tables_of_that_time_used_is_the_cause(seen):
    """Both cables of leaf2 are pulled, one after the other. Either the tables of that time show that only the first
    one was on the path, or no table of that time is known."""
    now = {name: dict(found["lft"]["entries"]) for name, found in seen.switches.items()}
    over_spine2 = {**now, "leaf1": {1: 3, 2: 2}, "leaf2": {1: 2, 2: 3}}
    pull(seen, "leaf2", 2)
    changes(seen, "leaf1", 2, ("12:03:10", "cable pulled"), ("12:03:10", "down"))
    set_port(seen, "leaf1", 2, phys_state="Polling")
    fails(seen, "vm1")
    sure = ("because link leaf2[2] to spine2[2] went down at 12:03:09: the cable was pulled; its packets or the "
            "answers passed there then, but do not now; local ACK")
    seen.tables_at = known_tables(lambda moment: over_spine2 if moment <= at("12:03:09") else now)
    assert sure in only(why.lines(seen), "RETRY_EXC_ERR")
    seen.tables_at = known_tables(lambda moment: now)
    assert "no cause is recorded" in only(why.lines(seen), "RETRY_EXC_ERR")
    assert not any("may have used it" in line for line in why.lines(seen))
    seen.tables_at = known_tables(lambda moment: {"leaf2": {1: 2, 2: 3}})
    assert sure in only(why.lines(seen), "RETRY_EXC_ERR")
    seen.tables_at = known_tables(lambda moment: {})
    assert "leaf1[2] to spine2[1] went down at 12:03:10: the cable was pulled; its packets may have" in only(
        why.lines(seen), "RETRY_EXC_ERR")


def test_a_cable_beside_the_path_is_not_the_cause_if_the_peers_state_is(seen):
    pull(seen, "leaf2", 2)
    seen.guests["vm0"]["hcas"][0]["objects"]["qps"]["entries"][0]["state"] = "INIT"
    fails(seen, "vm1")
    assert "because vm0 QP 0x40 is in INIT" in only(why.lines(seen), "RETRY_EXC_ERR")


def test_an_outage_that_ended_before_the_first_try_is_not_the_cause(seen):
    changes(seen, "leaf2", 3, ("11:00:00", "cable pulled"), ("11:00:00", "down"), ("11:00:05", "cable back"),
            ("11:00:05", "up"))
    fails(seen, "vm1")
    lines = why.lines(seen)
    assert "no cause is recorded" in only(lines, "RETRY_EXC_ERR")
    assert "was down from 11:00:00 to 11:00:05: the cable was pulled" in lines[0]


def test_an_outage_after_the_failure_is_not_the_cause(seen):
    pull(seen, "leaf2", 3, "12:03:20")
    fails(seen, "vm1")
    assert "no cause is recorded" in only(why.lines(seen), "RETRY_EXC_ERR")


def test_the_old_path_is_known_after_the_tables_have_lost_it(seen):
    """opensm has removed the LID from the tables meanwhile."""
    for name in GUIDS:
        seen.switches[name]["lft"]["entries"] = []
    pull(seen, "spine1", 1)
    fails(seen, "vm1")
    assert "link leaf1[1] to spine1[1] went down" in only(why.lines(seen), "RETRY_EXC_ERR")


def test_a_routing_loop_ends(seen):
    seen.switches["spine1"]["lft"]["entries"] = [[1, 2]]
    seen.switches["leaf2"]["lft"]["entries"] = [[1, 1]]
    fails(seen, "vm1")
    assert "no cause is recorded" in only(why.lines(seen), "RETRY_EXC_ERR")


def test_faults_of_the_path_are_the_cause_and_are_counted(seen):
    changes(seen, "leaf1", 3, ("12:03:00", "faults", "drop 1"))
    seen.switches["leaf1"]["faults"]["3"] = {"in": {"counts": {"dropped": 9}}, "out": {"counts": {"corrupted": 2}}}
    fails(seen, "vm1")
    lines = why.lines(seen)
    cause = "faults were set on link leaf1[3] to vm0[1] at 12:03:00 (drop 1)"
    assert f"because {cause}; local ACK" in only(lines, "RETRY_EXC_ERR")
    assert f"{cause}; packets so far: 9 dropped on the way in, 2 corrupted on the way out" in lines[0]
    changes(seen, "leaf1", 3, ("12:03:05", "faults", "none"))
    assert f"{cause}, until 12:03:05" in only(why.lines(seen), "RETRY_EXC_ERR")


def test_the_peers_earlier_failure_is_the_cause(seen):
    fails(seen, "vm0", "12:03:05", qpn=0x40, dest_qpn=0x41, dlid=2, status="IBV_WC_LOC_PROT_ERR", queue="recv",
          vendor_err=8)
    fails(seen, "vm1")
    lines = why.lines(seen)
    assert "vm0 QP 0x40: LOC_PROT_ERR of a receive, because an SGE's lkey" in lines[0]
    assert "because vm0 QP 0x40 had failed at 12:03:05: IBV_WC_LOC_PROT_ERR" in lines[1]


@pytest.mark.parametrize("state, words", [("paused", "because vm0 is stopped (paused)"),
                                          ("io-error", "because vm0 is stopped (io-error)")])
def test_a_stopped_peer_is_the_cause(seen, state, words):
    seen.guests["vm0"]["state"] = state
    fails(seen, "vm1")
    assert words in only(why.lines(seen), "RETRY_EXC_ERR")
    assert "vm0 is stopped" in why.lines(seen, "vm0")[0]


def test_the_peers_present_state_is_a_cause(seen):
    fails(seen, "vm1")
    qps = seen.guests["vm0"]["hcas"][0]["objects"]["qps"]["entries"]
    qps[0]["dest_qpn"] = 0x99
    assert "because vm0 QP 0x40 is connected to QP 0x99 at LID 2" in only(why.lines(seen), "RETRY_EXC_ERR")
    qps[0]["state"] = "INIT"
    assert "because vm0 QP 0x40 is in INIT" in only(why.lines(seen), "RETRY_EXC_ERR")
    qps.clear()
    assert "because vm0 QP 0x40 does not exist" in only(why.lines(seen), "RETRY_EXC_ERR")
    fails(seen, "vm1", "12:03:12", dlid=77)
    assert "because no port of this lab's guests has LID 77" in why.lines(seen)[-1]


def test_drops_on_the_path_are_reported(seen):
    seen.switches["spine1"]["counters"] = [{"port": 1, "PortXmitDiscards": 12, "PortXmitData": 7}]
    fails(seen, "vm1")
    assert "spine1[1] (PortXmitDiscards 12)" in only(why.lines(seen), "RETRY_EXC_ERR")
    assert len(why.lines(seen)) == 1
    line, = why.lines(seen, "spine1")
    assert line.startswith("12:03:30  spine1[1] has counted PortXmitDiscards 12 since the counters were cleared last  ")


def test_counters_have_the_time_since_when_they_count_and_the_likely_cause(seen):
    seen.switches["leaf2"] |= {"began": at("11:00:00"), "counters": [
        {"port": 3, "PortXmitDiscards": 800, "PortInactiveDiscards": 800}, {"port": 1, "PortRcvErrors": 7},
        {"port": 2, "PortXmitDiscards": 5, "PortInactiveDiscards": 0}]}
    changes(seen, "leaf2", 3, ("11:30:00", "cable pulled"), ("11:30:00", "down"), ("11:30:09", "up"))
    changes(seen, "leaf2", 1, ("12:01:00", "faults", "corrupt 0.1"), ("12:02:00", "faults", "none"))
    changes(seen, "leaf2", 2, ("12:01:00", "cable pulled"), ("12:01:00", "down"), ("12:01:01", "up"))
    pull(seen, "leaf2", 3)
    lines = why.lines(seen, "leaf2")
    started = "since 11:00:00, when its process started, or since a later clear"
    assert only(lines, "leaf2[3] has counted").startswith(
        f"12:03:09  leaf2[3] has counted PortXmitDiscards 800 {started}; probably because link leaf2[3] to vm1[1] went "
        "down at 12:03:09: the cable was pulled  [")
    assert (f"PortRcvErrors 7 {started}; probably because faults were set on link leaf2[1] to spine1[2] at 12:01:00 "
            "(corrupt 0.1), until 12:02:00") in only(lines, "leaf2[1] has counted")
    assert f"PortXmitDiscards 5 {started}  [" in only(lines, "leaf2[2] has counted")
    seen.cleared = at("12:03:20")
    set_port(seen, "leaf2", 3, phys_state="LinkUp")
    changes(seen, "leaf2", 3, ("12:03:15", "up"))
    assert "PortXmitDiscards 800 since 12:03:20, when the lab cleared them, or since a later clear  [" in only(
        why.lines(seen, "leaf2"), "leaf2[3] has counted")


def test_the_lab_notes_when_it_has_cleared_the_counters(lab):
    lab.up(Wanted(1), [])
    assert evidence.collect(lab).cleared == 0
    before = time.time() - 1
    evidence.note_cleared(lab)
    assert before <= evidence.collect(cluster.Cluster()).cleared <= time.time() + 1


def test_failures_of_a_device_keep_their_order_however_long_the_queries_take(tmp_path, monkeypatch):
    """The clocks of machine and host differ by more from query to query than the failures do from each other."""
    answers = {"journal": {"now_ns": 5_000_000_000, "lost": 0, "entries": [{"time_ns": 4_000_000_000}]},
               "objects": {"now_ns": 5_000_000_000, "refusals": {"entries": [{"time_ns": 3_999_000_000}]}}}
    clock = iter(range(1000, 2000))
    monkeypatch.setattr(evidence.vm, "device_property", lambda _monitor, name, _slot: answers[name])
    monkeypatch.setattr(evidence.time, "time", lambda: next(clock))
    hca = evidence._hca(tmp_path / "monitor", 0)
    assert [hca["refusals"][0]["at"], hca["journal"][0]["at"]] == [998.999, 999]


def test_refusals_name_the_responders_event(seen):
    seen.guests["vm0"]["hcas"][0]["journal"].append(
        {"kind": "event", "at": at("12:03:10"), "event": "IBV_EVENT_QP_ACCESS_ERR", "number": 0x40, "data": 0,
         "port": 0})
    fails(seen, "vm1", status="IBV_WC_REM_ACCESS_ERR")
    lines = why.lines(seen)
    assert "vm0 QP 0x40: IBV_EVENT_QP_ACCESS_ERR, because the peer's rkey" in lines[0]
    assert "because vm0 QP 0x40 refused it; IBV_EVENT_QP_ACCESS_ERR there at 12:03:10: the rkey" in lines[1]


def test_the_rule_that_a_refused_rkey_breaks_is_named_at_both_ends_once(seen):
    reason = "RDMA WRITE of 64 bytes at 0x1000 with rkey 0x1200: the key is unknown (manual 13.1 rule 1)"
    hca = seen.guests["vm0"]["hcas"][0]
    hca["journal"].append({"kind": "event", "at": at("12:03:10"), "event": "IBV_EVENT_QP_ACCESS_ERR", "number": 0x40,
                           "data": 0, "port": 0, "reason": reason})
    hca["refusals"].append({"at": at("12:03:10"), "qpn": 0x40, "rule": "13.1.1", "text": f"to QP 0x40: {reason}"})
    fails(seen, "vm1", status="IBV_WC_REM_ACCESS_ERR")
    lines = why.lines(seen)
    assert f"vm0 QP 0x40: IBV_EVENT_QP_ACCESS_ERR, because {reason}" in lines[0]
    assert f"because vm0 QP 0x40 refused it; IBV_EVENT_QP_ACCESS_ERR there at 12:03:10: {reason}" in lines[1]
    assert sum(reason in line for line in lines) == 2
    fails(seen, "vm1", status="IBV_WC_REM_OP_ERR")
    assert "12:03:10: the responder could not use its own" in why.lines(seen)[-1]


def test_a_responder_without_receives_is_named(seen):
    fails(seen, "vm1", status="IBV_WC_RNR_RETRY_EXC_ERR", rnr_retry=3)
    assert "because vm0 QP 0x40 had no receive request; 3 RNR retries" in why.lines(seen)[0]


def test_a_connection_that_retries_is_reported_before_it_fails(seen):
    pull(seen, "leaf2", 3)
    seen.guests["vm1"]["hcas"][0]["objects"]["qps"]["entries"][0]["requester"] = {"in_window": 2, "retries_left": 3}
    assert ("vm1 QP 0x41 gets no answer, has retried 4 times since the last one and has 3 retries left, because link "
            "leaf2[3] to vm1[1] went down") in only(why.lines(seen), "gets no answer")


def test_an_argument_selects_lines_about_one_object(seen):
    pull(seen, "leaf2", 3)
    fails(seen, "vm1")
    fails(seen, "vm0", "12:03:12", qpn=0x50, status="IBV_WC_LOC_QP_OP_ERR", dlid=2, dest_qpn=0x51)
    for question in ("0x41", "65", "0065", "vm1:0x0041", "vm1:0x41", "vm1[1]", "leaf2[3]", "leaf2"):
        assert "vm1 QP 0x41: RETRY_EXC_ERR" in "\n".join(why.lines(seen, question)), question
        assert "0x50" not in "\n".join(why.lines(seen, question)), question
    assert [line[10:30] for line in why.lines(seen, "0x50")] == ["vm0 QP 0x50: LOC_QP_"]
    for question in ("vm7", "leaf2[9]", "0x77", "vm0:0x41", "leaf2[", "?", "9" * 5000):
        with pytest.raises(ui.LabError, match="no node, port or QP"):
            why.lines(seen, question)


def test_a_repeated_failure_has_one_line(seen):
    for second in range(10, 15):
        fails(seen, "vm1", f"12:03:{second}", status="IBV_WC_LOC_LEN_ERR", vendor_err=4, reason=REASON)
    said = why.lines(seen)
    assert len(said) == 1 and said[0].startswith("12:03:14") and "(5 times)" in said[0]
    assert f": {REASON}" in said[0]


def test_a_work_request_that_breaks_a_rule_has_one_line(seen):
    seen.guests["vm1"]["hcas"][0]["refusals"] = [
        {"at": at("12:03:10"), "rule": "12.4.9", "qpn": 0x41, "counter": 3,
         "text": f"send WQE 3 of QP 0x41 refused: {REASON}"}]
    fails(seen, "vm1", "12:03:10", status="IBV_WC_LOC_LEN_ERR", vendor_err=4, reason=REASON)
    assert [line.partition("  ")[2].partition(",")[0] for line in why.lines(seen)] == ["vm1 QP 0x41: LOC_LEN_ERR"]


def test_a_failure_without_a_reason_has_its_vendor_error(seen):
    fails(seen, "vm1", "12:03:10", status="IBV_WC_GENERAL_ERR", vendor_err=7)
    assert ": vendor_err 7" in why.lines(seen)[0]


def test_ports_that_wait_for_a_subnet_manager_are_reported(seen):
    seen.guests["vm1"]["hcas"][0]["objects"]["ports"]["entries"][0]["state"] = 2
    assert "vm1[1] is Initialize: no subnet manager" in why.lines(seen)[0]


BOOT = (("12:00:05", "LID_CHANGE", "SM_CHANGE"), ("12:00:05", "CLIENT_REREGISTER"), ("12:00:05", "PORT_ACTIVE"))


def test_a_boot_is_not_a_failure(seen):
    """Firmware and driver reset the device, which takes its link down, and the subnet manager sets up its port."""
    changes(seen, "leaf2", 3, ("12:00:00", "up", "vm1"), ("12:00:01", "down", "vm1"), ("12:00:02", "up", "vm1"))
    port_events(seen, "vm1", *BOOT)
    assert why.lines(seen) == [] and why.answer(seen, "vm1").startswith("vm1: nothing is wrong")
    assert failures.of_device(seen.guests["vm1"]["hcas"][0]) == []


def test_an_active_port_that_goes_down_or_gets_another_lid_is_reported_on_request(seen):
    changes(seen, "leaf2", 3, ("12:00:00", "up", "vm1"), ("12:01:01", "down", "vm1"), ("12:01:02", "up", "vm1"))
    port_events(seen, "vm1", *BOOT, ("12:01:01", "PORT_ERR", "SM_CHANGE"), ("12:01:03", "LID_CHANGE", "PORT_ACTIVE"),
                ("12:02:00", "LID_CHANGE", "CLIENT_REREGISTER"))
    assert why.lines(seen) == []
    outage = "link leaf2[3] to vm1[1] was down from 12:01:01 to 12:01:02: it went down without a request"
    lines = why.lines(seen, "vm1")
    assert [line[:8] for line in lines] == ["12:01:01", "12:01:01", "12:02:00"] and outage in lines[1]
    assert f"vm1[1]: IBV_EVENT_PORT_ERR, because {outage}" in lines[0]
    assert "vm1[1]: IBV_EVENT_LID_CHANGE  [" in lines[2]
    assert [one["event"] for one in failures.of_device(seen.guests["vm1"]["hcas"][0])] == [
        "IBV_EVENT_PORT_ERR", "IBV_EVENT_LID_CHANGE"]


def test_an_outage_is_not_a_boot_if_the_port_may_have_been_active(seen):
    """The journal has lost the entry that tells when."""
    changes(seen, "leaf2", 3, ("12:01:01", "down", "vm1"), ("12:01:02", "up", "vm1"))
    seen.guests["vm1"]["hcas"][0]["lost"] = 9
    port_events(seen, "vm1", ("12:02:00", "LID_CHANGE"))
    assert len(why.lines(seen, "vm1")) == 2


def test_a_device_that_has_gone_is_reported(seen):
    changes(seen, "leaf2", 3, ("12:00:00", "up", "vm1"), ("12:03:01", "down", "vm1"))
    set_port(seen, "leaf2", 3, phys_state="Polling", connected=False)
    assert "went down at 12:03:01: its device has disconnected" in why.lines(seen)[0]


def test_each_line_names_a_section_of_troubleshooting(seen):
    page = (paths.ROOT / "docs" / "troubleshooting.md").read_text().lower()
    anchors = {line.lstrip("# ").strip().replace(".", "").replace(" ", "-")
               for line in page.splitlines() if line.startswith("#")}
    pull(seen, "leaf2", 3)
    for status in [*why.LOCAL, *why.REFUSED, "IBV_WC_RETRY_EXC_ERR", "IBV_WC_RNR_RETRY_EXC_ERR"]:
        fails(seen, "vm1", status=status)
    for name in [*why.EVENTS, "IBV_EVENT_PORT_ACTIVE", "IBV_EVENT_LID_CHANGE", "IBV_EVENT_PORT_ERR"]:
        seen.guests["vm0"]["hcas"][0]["journal"].append(
            {"kind": "event", "at": NOW, "event": name, "number": 0x40, "data": 0, "port": 1})
    sections = {finding.section for finding in why.Findings(seen).all()}
    sections |= {why.PORT_SECTION, why.WAIT_SECTION, why.LINK_SECTION, why.FIRST_SECTION}
    assert len(sections) > 20
    assert sections - anchors == {"ibv_wc_general_err"} - anchors


def test_a_kernel_that_has_crashed_is_named(seen):
    seen.faulty = {"vm1": "[   12.2] BUG: kernel NULL pointer dereference"}
    line = only(why.lines(seen), "vm1")
    assert "BUG: kernel NULL pointer" in line and "pib reboot vm1" in line
    assert why.answer(seen, "vm0").startswith("vm0: nothing is wrong")


def test_a_lab_of_which_nothing_runs_any_more_is_explained(lab, monkeypatch, capsys):
    lab.up(Wanted(1), [])
    lab.record.processes["vm0"].stop(signal.SIGKILL)
    monkeypatch.setattr("sys.argv", ["pib", "why"])
    assert command_line.main() == 0 and "vm0 does not run" in capsys.readouterr().out
    lab.down()
    assert command_line.main() == 1 and "nothing runs" in capsys.readouterr().err


def test_crashes_are_found_on_the_consoles(lab):
    lab.up(Wanted(2), [])
    assert evidence.faulty_kernels(lab) == {}
    console = vm.Files("vm1", lab.sockets()).console
    console.write_text("[ 1.0] WARNING: x\r\n[ 2.0] Oops: \x1b[2Jmine\r\n[ 3.0] Kernel panic - y\r\n")
    found = evidence.faulty_kernels(lab)
    assert list(found) == ["vm1"] and found["vm1"].startswith("[ 2.0] Oops: ") and "\x1b" not in found["vm1"]
    assert not evidence.collect(lab).gone
    lab.record.processes["vm1"].stop(signal.SIGKILL)
    with lab.log("vm1").open("a") as log:
        log.write("Segmentation \x1b[2Jfault\n")
    assert evidence.collect(cluster.Cluster()).gone == {"vm1": "Segmentation fault"}
    assert evidence.faulty_kernels(lab) == found


def test_a_guest_that_ends_while_it_is_asked_has_ended(lab, monkeypatch):
    lab.up(Wanted(1), [])

    def ended(asked):
        asked.record.processes["vm0"].stop(signal.SIGKILL)
        return {"vm0": None}
    monkeypatch.setattr(evidence, "guests", ended)
    found = evidence.collect(lab)
    assert list(found.gone) == ["vm0"] and not found.silent


def test_switch_processes_of_a_lab_that_have_ended_are_named(fabric):
    assert evidence.ended_switches(fabric) == {}
    fabric.up(Wanted(1), [])
    assert evidence.ended_switches(fabric) == {}
    with fabric.locked():
        fabric.stop_switch()
    assert evidence.ended_switches(fabric) == {"switch": []}


def test_a_running_switch_gives_evidence(tmp_path, monkeypatch):
    """The evidence of a real switch process, without guests."""
    file = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"
    running, before = switch_process.Switch(tmp_path, topology=str(file)), time.time()
    started = process.start(running.argv(), tmp_path / "log", directory=tmp_path, name="switch")
    try:
        process.wait_for("pib-switch", running.answers, started, tmp_path / "log", PATIENCE_S)
        found = evidence.switches([running.control])
        line, = why.lines(Evidence(time.time(), found, {}))
        assert {int(before) <= switch["began"] <= time.time() for switch in found.values()} == {True}
        assert "no subnet manager has set up all connected ports" in line
        running.ctl("run", "Unlink", "leaf1[1]")
        running.ctl("fault", "leaf2[2]", "--drop", "0.5")
        said = why.lines(Evidence(time.time(), evidence.switches([running.control]), {}))
        assert "link leaf1[1] to node1[1] went down" in only(said, "the cable was pulled")
        assert "faults were set on link leaf2[2] to node6[1]" in only(said, "(drop 0.5)")
        command = [paths.ROOT / "pib", "why", "--control", running.control, "leaf1[1]"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        assert "link leaf1[1] to node1[1] went down" in done.stdout
        running.ctl("run", "ReLink", "leaf1[1]")
        running.ctl("fault", "leaf2[2]", "--clear")
        said = why.lines(Evidence(time.time(), evidence.switches([running.control]), {}))
        assert "link leaf1[1] to node1[1] was down from" in only(said, "the cable was pulled")
        assert ", until " in only(said, "(drop 0.5)")
    finally:
        started.stop()
