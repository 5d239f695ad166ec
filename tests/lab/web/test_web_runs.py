# SPDX-License-Identifier: GPL-2.0-or-later
"""A page that stays open while the lab ends and another one starts: the two are not mixed."""

import page_code
from lab.fabric.evidence import NS
from lab.web.runs import Runs


def texts(watcher) -> list[str]:
    return [event.text for event in watcher.timeline.events]


def test_the_exchange_of_the_fabric_is_one_event(quiet):
    fabric = quiet.source.process.fabric
    quiet.read_fabric()
    assert texts(quiet) == []
    for leaf in ("leaf1", "leaf2"):
        fabric.reroute(leaf)                    # the new fabric has other tables, and no subnet manager yet
    fabric.instance, fabric.sm_lid = "0x2", 0
    quiet.source.process.hang_up()
    quiet.read_fabric()
    assert quiet.trouble
    for _ in range(3):
        quiet.read_fabric()
    assert texts(quiet) == ["another fabric runs now: its 6 switches have started anew"]
    assert [last for last, _at in quiet.runs.as_json()[""]] == [0]
    moved = fabric.reroute("leaf3")             # the page reports a change in the new fabric
    quiet.read_fabric()
    assert texts(quiet)[1:] == [f"the subnet manager has changed the routes of leaf3 to {moved} LIDs"]


def test_a_switch_that_was_only_out_of_reach_runs_on(quiet):
    quiet.read_fabric()
    quiet.source.process.hang_up()
    for _ in range(2):
        quiet.read_fabric()
    assert not quiet.trouble and texts(quiet) == [] and quiet.runs.as_json() == {}


def guest(age_s: float) -> dict:
    return {"hcas": [{"objects": {"now_ns": int(age_s * NS)}}]}


def test_a_guest_whose_clock_restarts_begins_a_new_run():
    runs = Runs()
    assert not runs.note_guests({"vm0": guest(50), "vm1": guest(50)}, 3, 1000.0)
    assert not runs.note_guests({"vm0": None, "vm1": guest(52)}, 4, 1002.0)
    assert runs.note_guests({"vm0": guest(1), "vm1": guest(54)}, 5, 1004.0)
    runs.shift(-100.0)
    assert runs.as_json() == {"vm0": [(5, 903.0)]}


def test_a_guest_younger_than_its_absence_begins_a_new_run(monkeypatch):
    now, runs = 0.0, Runs()
    monkeypatch.setattr("time.monotonic", lambda: now)
    runs.note_guests({"vm0": guest(10), "vm1": guest(10)}, 0, 1000.0)
    runs.note_guests({"vm1": None}, 0, 1002.0)
    now = 60.0                                  # vm1 was stopped, and its clock with it
    assert runs.note_guests({"vm0": guest(20), "vm1": guest(70)}, 7, 1060.0)
    assert runs.as_json() == {"vm0": [(7, 1040.0)]}


def test_events_of_a_former_run_are_not_listed_under_an_object_of_the_new_one(tmp_path):
    """The cursor at a moment of the former run shows them."""
    live, past, former = page_code.run(tmp_path, """
        const {Store} = await import("./store.js");
        const {qp} = await import("./hca.js");
        const store = new Store();
        store.takeFabric({nodes: [{id: "0x9", name: "vm0", kind: "guest", description: "vm0", lids: [], port_guids: [],
                                   guest: "vm0", slot: 0}], links: [], sm_lid: 0});
        store.takeRuns({"vm0": [[2, 150]]});
        const event = (number, at, text) => ({number, at, text, kind: "completion", guest: "vm0", slot: 0, qpn: 65,
                                              node: "", link: ""});
        store.takeEvents([event(2, 100, "of the old vm0"), event(3, 200, "of the new vm0")]);
        store.choose("qp", "0x9", {qpn: 65});
        const shown = () => root(qp.show(store, {qp: null}, pane)).text;
        const live = shown();
        store.moment = 120;
        return [live, shown(), (await qp.load(store)).qp];""")
    assert "of the new vm0" in live and "of the old vm0" not in live and "no QP with this number any more" in live
    assert "of the old vm0" in past and "of the new vm0" not in past and "has started anew since then" in past
    assert former is None
