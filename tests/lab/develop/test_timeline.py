# SPDX-License-Identifier: GPL-2.0-or-later
"""Time lines: entries and completions become tracks, slices and arrows of Chrome's JSON trace format."""

import itertools
import json

from lab.develop import timeline, trace_words

WRITE = "0201010000000000" + "00" * 24          # RDMA_WRITE, one SGE
RECEIVE = "01000000" + "00" * 28


def wqe(ns, counter, qpn=0x41, kind="send-wqe"):
    return {"time_ns": ns, "kind": kind, "qpn": qpn, "counter": counter,
            "bytes": WRITE if kind == "send-wqe" else RECEIVE}


def packet(ns, way="out", text="LRH"):
    return {"time_ns": ns, "kind": f"packet-{way}", "port": 1, "length": 300, "text": text}


def command(ns, **more):
    return {"time_ns": ns, "kind": "command", "opcode": 0x40, "id": 7, "object": 0, "status": 0, "result": 3, **more}


def cqe(ns, counter, opcode="RDMA_WRITE", qpn=0x41, status="IBV_WC_SUCCESS"):
    return timeline.Cqe(cqn=3, time_ns=ns, qpn=qpn, counter=counter, opcode=opcode, bytes=0, status=status)


class Drawn:
    """A time line, read again from its JSON, after checks that hold for each. looks: entries and CQEs of each."""

    def __init__(self, *looks):
        line = timeline.Timeline("vm1", trace_words.Words())
        for entries, cqes in looks:
            line.add(entries, cqes)
        self.document = json.loads(json.dumps(line.document()))
        self.events = self.document["traceEvents"]
        self.names = {(event["name"], event["pid"], event["tid"]): event["args"]["name"]
                      for event in self.events if event["ph"] == "M" and event["name"].endswith("_name")}
        self.slices = [event for event in self.events if event["ph"] == "X"]
        self.check_slices()
        self.check_arrows()

    def row(self, event):
        """The names of its group and its track."""
        return (self.names["process_name", event["pid"], 0], self.names["thread_name", event["pid"], event["tid"]])

    def rows(self):
        return [self.row(event) for event in self.slices]

    def work(self):
        """Duration in us, counter and status of the slices of WQEs."""
        return [(event["dur"], event["args"]["WQE"], event["args"].get("status")) for event in self.slices
                if event["name"] in ("RDMA_WRITE", "RECEIVE")]

    def check_slices(self):
        by_row = {}
        for event in self.slices:
            assert event["dur"] > 0
            by_row.setdefault((event["pid"], event["tid"]), []).append(event)
        for row in by_row.values():
            for one, other in itertools.pairwise(sorted(row, key=lambda event: event["ts"])):
                assert one["ts"] + one["dur"] < other["ts"]     # so that an arrow's point is in one of them

    def check_arrows(self):
        """Each has both ends, leads on in time, and is tied to slices that begin there."""
        for points in self.arrows().values():
            assert [event["ph"] for event in points] == ["s", "f"]
            assert points[0]["ts"] < points[1]["ts"]
            for point in points:
                assert self.at(point)["ts"] == point["ts"]

    def at(self, point):
        return next(event for event in self.slices if (event["pid"], event["tid"]) == (point["pid"], point["tid"])
                    and event["ts"] <= point["ts"] <= event["ts"] + event["dur"])

    def arrows(self):
        found = {}
        for event in self.events:
            if event["ph"] in "sf":
                found.setdefault(event["id"], []).append(event)
        return found

    def ends(self):
        """The WQEs' counters at the ends of the arrows."""
        return [[self.at(point)["args"]["WQE"] for point in points] for points in self.arrows().values()]


def test_commands_have_names_and_answers():
    drawn = Drawn(([command(1_000_500), command(1_004_000, status=3, rule="6.13.2", result=0x060d02,
                                                reason="log_depth 31 at byte 24, at most 22")], []))
    assert [(event["ts"], event["name"]) for event in drawn.slices] == [
        (1000.5, "CREATE_CQ"), (1004.0, "CREATE_CQ refused")]
    assert drawn.rows() == [("vm1 commands", "commands")] * 2
    assert drawn.slices[0]["args"] == {"id": 7, "object": 0, "answer": "OK, 0x3"}
    assert drawn.slices[1]["args"]["answer"] == (
        "log_depth 31 at byte 24, at most 22 (manual 6.13 rule 2) -> BAD_PARAM")


def test_wqes_last_until_their_cqes_and_arrows_lead_there():
    drawn = Drawn(([wqe(1000, 8), wqe(1300, 9), packet(1400), packet(1500, "in")], [cqe(9100, 8), cqe(9200, 9)]))
    assert drawn.work() == [(8.1, 8, "IBV_WC_SUCCESS"), (7.9, 9, "IBV_WC_SUCCESS")]
    assert drawn.ends() == [[8, 8], [9, 9]]
    assert sorted(set(drawn.rows())) == [("vm1 CQ 3", "CQEs"), ("vm1 QP 0x41", "send"), ("vm1 QP 0x41", "send 2"),
                                         ("vm1 port 1", "in"), ("vm1 port 1", "out")]


def test_rows_are_used_again():
    drawn = Drawn(([wqe(1000, 8), wqe(3000, 9)], [cqe(2000, 8), cqe(4000, 9)]))
    assert {row for row in drawn.rows() if row[0] == "vm1 QP 0x41"} == {("vm1 QP 0x41", "send")}


def test_a_cqe_that_is_seen_twice_counts_once():
    drawn = Drawn(([wqe(1000, 8)], []), ([packet(5000)], [cqe(2000, 8)]), ([packet(9000)], [cqe(2000, 8)]))
    assert drawn.work() == [(1.0, 8, "IBV_WC_SUCCESS")]
    assert len(drawn.arrows()) == 1
    assert drawn.rows().count(("vm1 CQ 3", "CQEs")) == 1


def test_sends_without_a_cqe_end_with_a_later_one_of_their_queue():
    drawn = Drawn(([wqe(1000, 0xffffffff), wqe(1100, 0), wqe(1200, 1), wqe(1300, 0, qpn=0x42)], [cqe(3000, 0)]))
    assert drawn.work() == [(2.0, 0xffffffff, "not seen; complete at WQE 0"), (1.9, 0, "IBV_WC_SUCCESS"),
                            (1.8, 1, None), (1.7, 0, None)]


def test_receives_complete_by_themselves():
    drawn = Drawn(([wqe(1000, 8, kind="recv-wqe"), wqe(1100, 9, kind="recv-wqe"), wqe(1200, 9)],
                   [cqe(3000, 9, "RECV_RDMA_WITH_IMM", status="IBV_WC_LOC_LEN_ERR")]))
    assert drawn.ends() == [[9, 9]]
    assert sorted(drawn.work()) == [(1.8, 9, None), (1.9, 9, "IBV_WC_LOC_LEN_ERR"), (2.0, 8, None)]


def test_a_counter_that_comes_again_is_another_wqe():
    drawn = Drawn(([wqe(1000, 0), wqe(7000, 0)], [cqe(2000, 0), cqe(8000, 0)]))
    assert drawn.work() == [(1.0, 0, "IBV_WC_SUCCESS")] * 2
    drawn = Drawn(([wqe(1000, 0), wqe(7000, 0)], [cqe(8000, 0)]))
    assert drawn.work() == [(6.0, 0, "not seen"), (1.0, 0, "IBV_WC_SUCCESS")]


def test_the_cqe_of_a_wqe_from_before_the_recording_is_shown_alone():
    drawn = Drawn(([], [cqe(9000, 8, status="IBV_WC_WR_FLUSH_ERR")]))
    assert [(drawn.row(event), event["name"]) for event in drawn.slices] == [
        (("vm1 CQ 3", "CQEs"), "IBV_WC_WR_FLUSH_ERR")]
    assert not drawn.arrows()


def test_lost_entries_are_counted():
    drawn = Drawn(([packet(1000), 40, packet(2000)], []))
    assert drawn.document["otherData"] == {"node": "vm1", "entries": 2, "overwritten": 40}


def test_a_recording_of_nothing_is_a_file_without_events():
    assert Drawn(([], [])).document["traceEvents"] == []


def test_moments_at_the_same_time_lie_in_two_rows():
    drawn = Drawn(([packet(1000), packet(1000), packet(1400)], []))
    assert [(event["dur"], drawn.row(event)[1]) for event in drawn.slices] == [
        (0.001, "out"), (0.399, "out 2"), (0.001, "out")]


def test_completions_have_the_number_of_their_cq_and_may_have_more_members():
    objects = {"cqs": {"entries": [{"cqn": 3, "cqes": []}, {"cqn": 5, "cqes": [
        {"time_ns": 7, "qpn": 65, "counter": 1, "opcode": "RECV", "bytes": 64, "status": "IBV_WC_SUCCESS",
         "vector": 2}]}]}}
    assert list(timeline.completions(objects)) == [
        timeline.Cqe(cqn=5, time_ns=7, qpn=65, counter=1, opcode="RECV", bytes=64, status="IBV_WC_SUCCESS")]
