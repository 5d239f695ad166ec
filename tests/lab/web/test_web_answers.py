# SPDX-License-Identifier: GPL-2.0-or-later
"""Answers of ./pib web between readings that a test makes."""

import pathlib
import threading
import time
import types

import pytest

import simulated_fabric
from lab.base import paths
from lab.fabric import source, topology
from lab.web import answers as answers_module, connections, watch
from lab.web.answers import Answers, Refused

PATIENCE_S = 60


def test_an_open_qp_asks_no_switch_for_tables_that_were_read(quiet, monkeypatch):
    """The page asks again each second. Switches whose tables no reading has yet are asked."""
    monkeypatch.setattr(watch, "MOST_JOURNALS", 4)
    quiet.read_guests()
    quiet.read_fabric()
    asked, answers = quiet.source.process.fabric.requests, Answers(quiet)
    question = {"node": next(node.id for node in quiet.fabric.nodes.values() if node.name == "vm0"), "qpn": "65"}
    for left in (2, 0):
        begin = len(asked)
        assert answers.qp(question)["complete"]
        assert sum(one["command"] == "lft" for one in asked[begin:]) == left
        quiet.read_fabric()


def test_a_guest_has_the_name_of_the_host_whose_place_it_has_taken(quiet, monkeypatch, tmp_path):
    quiet.read_guests()
    quiet.read_fabric()
    assert {node.name: node.place for node in quiet.fabric.nodes.values() if node.place} == {"vm0": "node1"}
    file = tmp_path / "fabric.topo"
    monkeypatch.setattr(source.cluster, "Cluster", lambda _directory: types.SimpleNamespace(
        record=types.SimpleNamespace(topology=str(file))))
    assert source.Lab().hosts() == {}           # the lab is ending
    file.write_text(quiet.source.process.fabric.net.text())
    assert source.Lab().hosts() == quiet.source.hosts()


def test_a_qp_is_shown_while_its_peer_does_not_answer(quiet):
    """The next reading of the fabric makes the peer a host that is not a guest."""
    fabric = quiet.source.process.fabric
    quiet.source.found["vm1"] = simulated_fabric.guest(
        fabric.net, fabric, "node16", [simulated_fabric.qp(0x51, fabric.lids["node1"], 0x41)])
    quiet.read_guests()
    quiet.read_fabric()
    question = {"node": next(node.id for node in quiet.fabric.nodes.values() if node.name == "vm0"), "qpn": "65"}
    answers = Answers(quiet)
    assert answers.qp(question)["peer"]["name"] == "vm1"
    quiet.source.found = {**quiet.source.found, "vm1": None}
    quiet.read_guests()
    found = answers.qp(question)
    assert found["qp"]["qpn"] == 0x41 and found["complete"] and found["peer"] is None
    assert [one["name"] for one in answers.qps({"qpn": "65"})] == ["vm0"] and not answers.qps({"qpn": str(0x51)})


def test_failures_of_a_guest_leave_out_its_boot(quiet):
    hca = quiet.source.found["vm0"]["hcas"][0]
    begin = len(hca["journal"])
    hca["journal"] += [{"kind": "event", "at": time.time(), "event": f"IBV_EVENT_{name}", "number": 0, "data": 0,
                        "port": 1} for name in ("LID_CHANGE", "CLIENT_REREGISTER", "PORT_ACTIVE", "PORT_ERR")]
    quiet.read_guests()
    quiet.read_fabric()
    failures = Answers(quiet).hca({"node": next(
        node.id for node in quiet.fabric.nodes.values() if node.name == "vm0")})["failures"]
    assert [one["event"] for one in failures[begin:]] == ["IBV_EVENT_PORT_ERR"]


def test_the_page_says_like_pib_why_that_nothing_is_wrong(quiet):
    quiet.source.found["vm0"]["hcas"][0]["journal"].clear()
    for qp in quiet.source.found["vm0"]["hcas"][0]["objects"]["qps"]["entries"]:
        qp["requester"]["retries_left"] = qp["retry_cnt"]
    found = Answers(quiet).why({})
    assert found["lines"] == [] and found["nothing"].startswith("Nothing is wrong: no failure")
    quiet.source.process.fabric.link({"switch": "leaf4", "port": 1, "state": "down"})
    found = Answers(quiet).why({"about": "vm0"})
    assert found["lines"] == [] and "down or have faults elsewhere: 1." in found["nothing"]
    assert Answers(quiet).why({})["nothing"] == ""


def test_the_page_knows_over_which_cable_the_packets_of_a_failed_request_went(quiet):
    """The subnet manager has changed the tables since the failure. The page knows no tables from before its first
    reading."""
    quiet.read_guests()
    quiet.read_fabric()
    fabric, answers = quiet.source.process.fabric, Answers(quiet)
    journal, node16 = quiet.source.found["vm0"]["hcas"][0]["journal"], fabric.lids["node16"]
    first = fabric.tables["leaf1"][node16]
    fabric.link({"switch": "leaf1", "port": first, "state": "down"})
    peers = fabric.net.nodes["leaf1"].peers
    fabric.tables["leaf1"][node16] = next(
        port for port, (peer, _) in peers.items() if peer.startswith("spine") and port != first)
    fabric.reroutes["leaf1"] += 1
    journal[:] = [simulated_fabric.failure(time.time() + 0.1, node16)]
    quiet.source.found["vm1"] = simulated_fabric.guest(fabric.net, fabric, "node16", [])
    quiet.read_fabric()
    said = next(line for line in answers.why({})["lines"] if "RETRY_EXC_ERR" in line)
    assert f"because link leaf1[{first}]" in said and "its packets or the answers passed there" in said, said
    assert quiet.routing.known(0) == {}


def test_connections_that_are_not_listed_are_counted(quiet, monkeypatch):
    fabric, answers = quiet.source.process.fabric, Answers(quiet)
    quiet.source.found["vm0"]["hcas"][0]["objects"]["qps"]["entries"] = [
        simulated_fabric.qp(number, fabric.lids["node16"], number) for number in range(answers_module.MOST_ROWS + 9)]
    quiet.read_guests()
    quiet.read_fabric()
    link = {"link": next(link.id for link in quiet.fabric.links.values() if "vm0[1]" in quiet.fabric.link_name(link))}
    found = answers.link(link)["connections"]
    assert (found["count"], found["all"]) == (answers_module.MOST_ROWS + 9, True)
    assert len(found["entries"]) == answers_module.MOST_ROWS
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    assert not answers.link(link)["connections"]["all"]


def test_kept_readings_move_with_a_clock_that_is_set_back(quiet, monkeypatch):
    """Readings of the past would otherwise be later than the present, and a moment could not be found."""
    fabric = quiet.source.process.fabric
    quiet.read_guests()
    quiet.read_fabric()
    fabric.reroute("leaf1")
    fabric.link({"switch": "leaf2", "port": 1, "state": "down"})
    quiet.read_fabric()
    real, gone = time.time, quiet.timeline.last()
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    fabric.unplug("node5")
    quiet.read_fabric()
    now = time.time()
    times = [frame.at for frame in quiet.history.frames]
    assert times == sorted(times) and now - PATIENCE_S < times[0] and times[-1] <= now
    assert quiet.timeline.last() > gone and all(event.at <= now for event in quiet.timeline.events)
    assert not quiet.past.since(now) and quiet.past.since(times[0]) < times[-1]
    before, after = (quiet.routing.table(node.id, times[0]) == quiet.routing.table(node.id)
                     for name in ("leaf1", "leaf3") for node in quiet.fabric.nodes.values() if node.name == name)
    assert after and not before


def test_nodes_and_links_of_the_past_are_kept(quiet):
    fabric, answers = quiet.source.process.fabric, Answers(quiet)
    quiet.read_guests()
    quiet.read_fabric()
    quiet.read_fabric()
    begin = time.time()
    link = next(link for link in quiet.fabric.links.values() if "node5[1]" in quiet.fabric.link_name(link))
    now = answers.moment({"at": str(begin)})
    assert (now["since"], now["fabric"]) == (0, None)
    fabric.unplug("node5")
    quiet.read_fabric()
    end = time.time()
    assert link.id not in quiet.fabric.links
    past = answers.moment({"at": str(begin)})
    assert link.id in [one["id"] for one in past["fabric"]["links"]] and past["links"][link.id]["state"] == "Active"
    assert "node5" in [one["name"] for one in past["fabric"]["nodes"]] and 0 < past["since"] <= begin
    assert answers.moment({"at": str(begin), "known": str(past["since"])})["fabric"] is None
    assert (answers.moment({"at": str(end)})["since"], answers.moment({"at": str(end)})["fabric"]) == (0, None)
    compared = answers.compare({"begin": str(begin), "end": str(end)})
    assert compared["links"][link.id]["states"] == ["Active", "not there"]
    assert compared["names"] == {link.id: "leaf2[1] – node5[1]"}
    found = answers.link({"link": link.id, "at": str(begin)})
    assert (found["link"]["id"], found["ends"], found["connections"]["count"]) == (link.id, {}, 0)
    assert answers.routes({"link": link.id, "at": str(begin)})["out"] == 15
    with pytest.raises(answers_module.Refused, match="the fabric has no link"):
        answers.link({"link": link.id})


def test_a_refusal_names_the_wrong_value(quiet):
    answers = Answers(quiet)
    for ask, question, said in ((answers.link, {"link": "x-y\x1b[2J"}, "the fabric has no link x-y. Choose one"),
                                (answers.switch, {"node": "z"}, "the fabric has no node z. Choose one"),
                                (answers.moment, {"at": "nan"}, "at: expected a number, not nan"),
                                (answers.moment, {}, "the request has no at: give it as text"),
                                (answers.explanation, {"section": "w"}, "has no section w. Name one")):
        with pytest.raises(Refused) as refused:
            ask(question)
        assert said in str(refused.value)


def test_each_of_two_compared_moments_has_its_own_links(quiet):
    fabric, answers = quiet.source.process.fabric, Answers(quiet)
    quiet.read_fabric()

    def routes() -> int:
        return sum(count for link, _out, count in answers.balance({})["links"]
                   if quiet.fabric.nodes[quiet.fabric.links[link].b].kind == "switch")
    first, begin = routes(), time.time()
    fabric.link({"switch": "leaf1", "port": fabric.tables["leaf1"][fabric.lids["node16"]], "state": "down"})
    fabric.unplug("node5")
    fabric.reroute("leaf2")
    quiet.read_fabric()
    last, end = routes(), time.time()
    found = answers.rerouted({"begin": str(end), "end": str(begin)})
    assert [sum(found[when]["counts"]) for when in ("before", "after")] == [first, last] and last < first
    assert found["names"] == {}
    quiet.fabric = watch.model.Fabric()         # a reading after all switches have ended
    quiet.past.note(time.time(), quiet.fabric)
    leaf, = found["switches"]
    assert answers.rerouted({"begin": str(begin), "end": str(end)})["names"] == {leaf: "leaf2"}


def test_the_moment_of_an_event_has_its_effects(quiet):
    """A switch notes the time of a change, which the next reading finds."""
    fabric, answers = quiet.source.process.fabric, Answers(quiet)
    quiet.read_fabric()
    fabric.link({"switch": "leaf2", "port": 5, "state": "down"})
    at = time.time()
    threading.Timer(0.2, quiet.read_fabric).start()             # the page asks before the reading
    found = answers.moment({"at": str(at), "event": "1"})
    link = next(link.id for link in quiet.fabric.links.values() if "leaf2[5]" in quiet.fabric.link_name(link))
    assert found["at"] >= at and found["links"][link]["state"] == "Down"
    assert answers.moment({"at": str(at)})["links"][link]["state"] == "Active"


def test_a_link_that_goes_down_before_its_journal_is_read_is_cut_once(quiet):
    watcher, fabric = quiet, quiet.source.process.fabric
    watcher.read_guests()
    watcher.read_fabric()
    up, journal = fabric.tables["leaf1"][fabric.lids["node16"]], fabric.journal

    def late_journal(request):
        if not fabric.pulled:
            fabric.link({"switch": "leaf1", "port": up, "state": "down"})
        return journal(request)

    fabric.journal = late_journal
    fabric.note("leaf1", up, "faults", "none")
    for _ in range(2):
        watcher.read_fabric()
        assert [event.kind for event in watcher.timeline.events if event.kind in ("cut", "mended")] == ["cut"]
    assert "down" in {link.state.lower() for link in watcher.fabric.links.values()}


class Split(simulated_fabric.Source):
    """Two processes with a switch each. An HCA has a port at both."""

    def __init__(self, processes: list[simulated_fabric.Process], guests: dict):
        super().__init__(processes[0], guests)
        self.processes = processes

    def controls(self) -> list[pathlib.Path]:
        return [one.path for one in self.processes]


def test_packets_are_recorded_where_the_port_of_the_qp_is(tmp_path):
    net = topology.load(paths.ROOT / "examples" / "topologies" / "redundant-pair.topo")
    processes = [simulated_fabric.Process(tmp_path / switch.name, simulated_fabric.Fabric(
        net, {"node1": "vm0"}, only=switch.name)) for switch in net.switches()]
    near, far = processes[0].fabric, processes[1].fabric
    del far.tables["switch2"][far.lids["node1"]]
    far.tables["switch2"][77] = net.nodes["node1"].peers[2][1]
    qp = {**simulated_fabric.qp(0x41, near.lids["node5"], 0x51), "port": 2}
    guest = simulated_fabric.guest(net, near, "node1", [qp])
    first, = guest["hcas"][0]["objects"]["ports"]["entries"]
    guest["hcas"][0]["objects"]["ports"]["entries"].append(
        {**first, "port": 2, "guid": f"0x{net.nodes['node1'].port_guid(2):016x}", "lid": 77})
    watcher = watch.Watcher(Split(processes, {"vm0": guest}))
    watcher.read_guests()
    watcher.read_fabric()
    answers = Answers(watcher)
    node = next(node.id for node in watcher.fabric.nodes.values() if node.name == "vm0")
    assert answers.sequence({"node": node, "qpn": "65"})["lids"] == [77]
    assert [sum(asked["command"] == "capture" for asked in one.requests) for one in (near, far)] == [0, 1]
    answers.recordings.stop()
    watcher.stop()
    for one in processes:
        one.end()


def test_a_switch_of_a_process_that_has_ended_is_not_a_host(tmp_path):
    """A link names it, but it cannot be asked."""
    net = topology.load(paths.ROOT / "examples" / "topologies" / "line-4.topo")
    net.nodes["node1"].port_guids[1] = net.nodes["node1"].guid     # as some HCAs have it, and all switches
    running = simulated_fabric.Process(tmp_path / "control", simulated_fabric.Fabric(net, only="switch1"))
    watcher = watch.Watcher(simulated_fabric.Source(running))
    watcher.read_fabric()
    answers, nodes = Answers(watcher), {node.name: node for node in watcher.fabric.nodes.values()}
    link = next(link for link in watcher.fabric.links.values() if "switch2" in watcher.fabric.link_name(link))
    assert (nodes["switch2"].kind, nodes["switch2"].level, nodes["switch2"].lids) == ("switch", 2, [])
    assert nodes["node1"].kind == nodes["node2"].kind == "phantom"
    assert list(answers.link({"link": link.id})["ends"]) == ["a"] and answers.balance({})["links"]
    assert answers.set_link({"link": link.id, "state": "up"})["ok"]
    with pytest.raises(Refused, match="switch2: its switch process does not answer"):
        answers.switch({"node": nodes["switch2"].id})
    watcher.stop()
    running.end()


def test_readings_that_fail_are_reported_and_go_on(quiet, monkeypatch):
    """The page would stand still after an exception that ends the thread."""
    made, failed = watch.model.fabric_of, [True]

    def fails_once(reading):
        if failed:
            raise ValueError(failed.pop())
        return made(reading)
    monkeypatch.setattr(watch.model, "fabric_of", fails_once)
    quiet.read_fabric()
    assert "ValueError" in quiet.trouble and not quiet.fabric.nodes
    quiet.read_fabric()
    assert not quiet.trouble and quiet.fabric.nodes


@pytest.mark.parametrize("work", ["read_guests", "read_fabric"])
def test_a_thread_goes_on_after_an_exception(quiet, monkeypatch, work):
    calls, told, enough = [], [], threading.Event()

    def fails():
        calls.append(work)
        if len(calls) > 1:
            enough.set()
        raise IndexError(work)
    for name, interval in (("INTERVAL_S", 0.01), ("GUESTS_S", 0.01)):
        monkeypatch.setattr(watch, name, interval)
    quiet.interval_s = 0.01
    monkeypatch.setattr(quiet, work, fails)
    monkeypatch.setattr(quiet, "_set_trouble", told.append)
    quiet.start()
    assert enough.wait(PATIENCE_S)
    assert any("IndexError" in text for text in told)
