# SPDX-License-Identifier: GPL-2.0-or-later
"""Time lines: entries of a trace become tracks, slices and arrows of Chrome's JSON trace format."""

import itertools
import json

from lab.develop import timeline, trace_words
from lab.develop.guest_trace import Call

WRITE = "0201010000000000" + "00" * 24          # RDMA_WRITE, one SGE
READ = "0401010000000000" + "00" * 24
RECEIVE = "01000000" + "00" * 28
ACK, WRITE_FIRST, WRITE_LAST, SEND_FIRST, SEND_LAST, SEND_ONLY, READ_REQUEST = (
    0x11, 0x06, 0x08, 0x00, 0x02, 0x04, 0x0c)


def entries(*of):
    """The entries with sequence numbers from 0."""
    return [{"sequence": sequence, **entry} for sequence, entry in enumerate(of)]


def wqe(ns, counter, psn, packets, qpn=0x41, data=WRITE):
    return {"time_ns": ns, "kind": "send-wqe", "qpn": qpn, "counter": counter, "psn": psn, "packets": packets,
            "bytes": data}


def sent(ns, psn, opcode, qpn=0x41):
    return {"time_ns": ns, "kind": "packet-out", "port": 1, "length": 300, "qpn": qpn, "opcode": opcode, "psn": psn,
            "dest_qpn": 0x50, "text": f"psn {psn}"}


def arrived(ns, psn, opcode, qpn=0x41):
    return {"time_ns": ns, "kind": "packet-in", "port": 1, "length": 30, "opcode": opcode, "psn": psn, "dest_qpn": qpn,
            "text": f"in {psn}"}


def done(ns, counter, packet=None, cqn=3, queue="send", status=0):
    return {"time_ns": ns, "kind": f"{queue}-done", "qpn": 0x41, "counter": counter, "status": status,
            **({} if cqn is None else {"cqn": cqn}), **({} if packet is None else {"packet": packet})}


def command(begin, end, **more):
    return {"time_ns": end, "kind": "command", "fetched_ns": begin, "opcode": 0x40, "id": 7, "object": 0, "status": 0,
            "result": 3, **more}


# Two WRITEs that overlap, the first one of two packets; one ACK completes both.
TWO_WRITES = entries(
    wqe(1000, 8, 0xffffff, 2), sent(1100, 0xffffff, WRITE_FIRST), sent(1200, 0, WRITE_LAST),
    wqe(1300, 9, 1, 1), sent(1400, 1, WRITE_LAST), arrived(9000, 1, ACK), done(9100, 8, 5), done(9200, 9, 5))


class Drawn:
    """A time line, read again from its JSON, after checks that hold for each."""

    def __init__(self, found, calls=(), uars=()):
        words = trace_words.Words()
        words.uars.update(uars)
        line = timeline.Timeline("vm1", words)
        for entry in found:
            line.add(entry)
        line.add_calls(list(calls))
        self.document = json.loads(json.dumps(line.document()))
        self.events = self.document["traceEvents"]
        self.names = {(event["name"], event["pid"], event["tid"]): event["args"]["name"]
                      for event in self.events if event["ph"] == "M" and event["name"].endswith("_name")}
        self.slices = [event for event in self.events if event["ph"] == "X"]
        self.check_format()
        self.check_slices()
        self.check_arrows()

    def check_format(self):
        """Each event has the members that the Trace Event Format requires of its phase; other phases are not used."""
        wanted = {"M": {"args": dict}, "X": {"ts": float, "dur": float, "cat": str, "args": dict},
                  **dict.fromkeys("stf", {"ts": float, "cat": str, "id": int})}
        for event in self.events:
            for member, kind in {"name": str, "pid": int, "tid": int, **wanted[event["ph"]]}.items():
                assert isinstance(event[member], kind) and event[member] != "", (member, event)
            if event["ph"] == "M":
                name, = event["args"]
                assert event["name"] in (f"process_{name}", f"thread_{name}")
        assert self.document["displayTimeUnit"] in ("ms", "ns")

    def row(self, event):
        """The names of an event's group and track."""
        return (self.names["process_name", event["pid"], 0], self.names["thread_name", event["pid"], event["tid"]])

    def rows(self):
        return [self.row(event) for event in self.slices]

    def check_slices(self):
        by_row = {}
        for event in self.slices:
            assert event["dur"] > 0
            by_row.setdefault((event["pid"], event["tid"]), []).append(event)
        for (pid, _), row in by_row.items():
            if self.names["process_name", pid, 0] == "vm1 driver":
                self.check_nesting(row)
                continue
            for one, other in itertools.pairwise(sorted(row, key=lambda event: event["ts"])):
                assert one["ts"] + one["dur"] < other["ts"]     # an arrow's point lies in one slice only

    @staticmethod
    def check_nesting(row):
        """Each slice of a row lies within the one around it, or after it, in whole nanoseconds."""
        around = []
        for event in sorted(row, key=lambda event: (event["ts"], -event["dur"])):
            begin, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
            while around and around[-1] < begin:
                around.pop()
            assert not around or end < around[-1]
            around.append(end)

    def check_arrows(self):
        """Each arrow has both ends, leads forward in time, and has each of its points at the start of a slice."""
        for points in self.arrows().values():
            assert [event["ph"] for event in points] == ["s", *["t"] * (len(points) - 2), "f"]
            assert points == sorted(points, key=lambda event: event["ts"])
            for event in points:
                assert self.at(event)["ts"] == event["ts"]

    def at(self, point):
        return next(event for event in self.slices if (event["pid"], event["tid"]) == (point["pid"], point["tid"])
                    and event["ts"] <= point["ts"] <= event["ts"] + event["dur"])

    def arrows(self):
        found = {}
        for event in self.events:
            if event["ph"] in "stf":
                found.setdefault(event["id"], []).append(event)
        return found

    def paths(self):
        """For each arrow the names of the slices that it leads through."""
        return [[self.at(point)["name"] for point in points] for points in self.arrows().values()]


def test_a_command_lasts_from_its_fetch_to_its_completion():
    drawn = Drawn(entries(command(1_000_500, 1_003_500), command(1_004_000, 1_005_000, status=3, rule="6.13.2",
                                                                  reason="log_depth 31 at byte 24, at most 22")))
    assert [(event["ts"], event["dur"], event["name"]) for event in drawn.slices] == [
        (1000.5, 3.0, "CREATE_CQ"), (1004.0, 1.0, "CREATE_CQ refused")]
    assert drawn.rows() == [("vm1 commands", "commands")] * 2
    assert drawn.slices[0]["args"] == {"id": 7, "object": 0, "input": "", "answer": "OK, CQN 0x3"}
    assert drawn.slices[1]["args"]["answer"] == "BAD_PARAM: log_depth 31 at byte 24, at most 22 (manual 6.13 rule 2)"


def test_arrows_lead_from_wqes_through_their_packets_to_their_cqes():
    drawn = Drawn(TWO_WRITES)
    assert drawn.paths() == [["RDMA_WRITE", "psn 16777215", "psn 0", "in 1", "SUCCESS"],
                             ["RDMA_WRITE", "psn 1", "in 1", "SUCCESS"]]
    writes = [event for event in drawn.slices if event["name"] == "RDMA_WRITE"]
    assert [(event["ts"], event["dur"], event["args"]["status"]) for event in writes] == [
        (1.0, 8.1, "SUCCESS"), (1.3, 7.9, "SUCCESS")]


def test_wqes_that_overlap_lie_in_two_rows():
    rows = Drawn(TWO_WRITES).rows()
    assert sorted(set(rows)) == [("vm1 CQ 3", "CQEs"), ("vm1 QP 0x41", "send"), ("vm1 QP 0x41", "send 2"),
                                 ("vm1 port 1", "in"), ("vm1 port 1", "out")]


def test_a_packet_of_another_qp_or_another_psn_is_on_no_path():
    drawn = Drawn(entries(wqe(1000, 8, 10, 2), sent(1100, 10, WRITE_FIRST, qpn=0x42), sent(1200, 12, WRITE_FIRST),
                          sent(1250, 10, ACK), arrived(1300, 10, ACK), arrived(1350, 10, SEND_ONLY), done(1400, 8)))
    assert drawn.paths() == [["RDMA_WRITE", "SUCCESS"]]


def test_responses_of_a_read_are_on_its_path():
    drawn = Drawn(entries(wqe(1000, 0, 20, 2, data=READ), sent(1100, 20, READ_REQUEST), arrived(2000, 20, 0x0d),
                          arrived(2100, 21, 0x0f), done(2200, 0, 3)))
    assert drawn.paths() == [["RDMA_READ", "psn 20", "in 20", "in 21", "SUCCESS"]]


def test_a_receive_begins_with_the_packet_that_caused_it():
    receive = {"time_ns": 1010, "kind": "recv-wqe", "qpn": 0x41, "counter": 2, "bytes": RECEIVE, "packet": 0}
    drawn = Drawn(entries(arrived(1000, 5, SEND_FIRST), receive, arrived(2000, 6, SEND_LAST),
                          done(2010, 2, 2, queue="recv"), arrived(3000, 7, SEND_ONLY)))
    assert drawn.paths() == [["in 5", "RECEIVE", "in 6", "SUCCESS"]]
    one = entries(arrived(1000, 5, SEND_ONLY), receive, done(1020, 2, 0, queue="recv"))
    assert Drawn(one).paths() == [["in 5", "RECEIVE", "SUCCESS"]]


def test_an_unsignalled_success_ends_with_its_ack():
    drawn = Drawn(entries(wqe(1000, 8, 1, 1), sent(1100, 1, WRITE_LAST), arrived(2000, 1, ACK), done(2100, 8, 2, None)))
    assert drawn.paths() == [["RDMA_WRITE", "psn 1", "in 1"]]
    assert ("vm1 CQ 3", "CQEs") not in drawn.rows()


def test_a_slice_without_an_end_lasts_to_the_end_of_the_recording():
    drawn = Drawn(entries(wqe(1000, 8, 1, 1), sent(5000, 1, WRITE_LAST)))
    assert drawn.slices[0]["dur"] == 4.0
    assert "status" not in drawn.slices[0]["args"]


def test_a_wqe_that_never_completed_ends_where_its_counter_comes_again():
    drawn = Drawn(entries(wqe(1000, 0, 1, 1), wqe(7000, 0, 9, 1), done(8000, 0)))
    assert [(event["dur"], event["args"].get("end")) for event in drawn.slices if event["name"] == "RDMA_WRITE"] == [
        (6.0, "it did not complete"), (1.0, None)]


def test_lost_entries_end_open_slices():
    drawn = Drawn([*entries(wqe(1000, 8, 1, 1), sent(2000, 1, WRITE_LAST)), 40, {"sequence": 42, **done(9000, 8, 1)}])
    assert drawn.document["otherData"] == {"node": "vm1", "entries": 3, "overwritten": 40}
    assert drawn.slices[1]["args"]["end"] == "its end was not recorded"
    assert drawn.paths() == [["RDMA_WRITE", "psn 1"]]


def test_the_end_of_a_wqe_from_before_the_recording_is_shown_alone():
    drawn = Drawn(entries(done(9000, 8, status=5)))
    assert [(drawn.row(event), event["name"]) for event in drawn.slices] == [(("vm1 CQ 3", "CQEs"), "WR_FLUSH_ERR")]
    assert not drawn.arrows()


def test_a_recording_without_entries_is_a_file_without_events():
    assert Drawn([]).document["traceEvents"] == []


def test_moments_at_the_same_time_lie_in_two_rows():
    drawn = Drawn(entries(sent(1000, 1, WRITE_FIRST), sent(1000, 2, WRITE_LAST), sent(1400, 3, WRITE_LAST)))
    assert [(event["dur"], drawn.row(event)[1]) for event in drawn.slices] == [
        (0.001, "out"), (0.399, "out 2"), (0.001, "out")]


def test_an_arrow_begins_at_the_doorbell_and_ends_at_the_interrupt():
    store = {"time_ns": 500, "kind": "store", "bar": 2, "offset": 0x2000, "size": 4, "value": "0x41"}
    interrupt = {"time_ns": 9500, "kind": "interrupt", "vector": 2, "eqn": 1, "event": 0, "number": 3}
    drawn = Drawn(entries(store, wqe(1000, 8, 1, 1), sent(1100, 1, WRITE_LAST), arrived(9000, 1, ACK), done(9100, 8, 3),
                          interrupt, {**interrupt, "time_ns": 9900}, {**interrupt, "time_ns": 9950, "event": 9}))
    assert drawn.paths() == [["UAR 2 SEND = 0x41", "RDMA_WRITE", "psn 1", "in 1", "SUCCESS", "COMPLETION 3 in EQ 1"]]
    assert {("vm1 vCPUs", "other accesses"), ("vm1 interrupts", "vector 2")} <= set(drawn.rows())


def test_an_arrow_begins_at_the_kick_of_the_uar_unless_the_doorbell_is_later():
    kick = {"time_ns": 500, "kind": "store", "bar": 2, "offset": 0x3020, "size": 4, "value": "0x0"}
    other = {**kick, "time_ns": 600, "offset": 0x4020}
    rung = {**kick, "time_ns": 700, "offset": 0x3000, "value": "0x41"}
    uars = {0x41: 3, 0x42: 4, 0x43: 5}
    drawn = Drawn(entries(kick, other, wqe(650, 7, 1, 1), wqe(660, 7, 1, 1, 0x43), rung, wqe(800, 8, 2, 1),
                          {**kick, "time_ns": 850}, wqe(900, 9, 3, 1)), uars=uars)
    assert drawn.paths() == [["UAR 3 KICK = 0x0", "RDMA_WRITE"], ["UAR 3 SEND = 0x41", "RDMA_WRITE"],
                             ["UAR 3 KICK = 0x0", "RDMA_WRITE"]]
    assert Drawn([*entries(kick), 5, *entries(wqe(650, 7, 1, 1))], uars=uars).paths() == []


def test_an_arrow_passes_the_eqe():
    eqe = {"time_ns": 9400, "kind": "eqe", "eqn": 1, "counter": 7, "event": 0, "number": 3, "port": 0,
           "data": 0}
    interrupt = {"time_ns": 9500, "kind": "interrupt", "vector": 2, "eqn": 1, "event": 0, "number": 3}
    drawn = Drawn(entries(wqe(1000, 8, 1, 1), sent(1100, 1, WRITE_LAST), arrived(9000, 1, ACK), done(9100, 8, 2), eqe,
                          interrupt, {**eqe, "time_ns": 9600, "number": 1, "event": 9, "port": 1, "data": 4}))
    assert drawn.paths() == [["RDMA_WRITE", "psn 1", "in 1", "SUCCESS", "COMPLETION 3", "COMPLETION 3 in EQ 1"]]
    assert [event["name"] for event in drawn.slices if drawn.row(event) == ("vm1 EQ 1", "EQEs")] == [
        "COMPLETION 3", "PORT 1 port 1, data 0x4"]


def test_accesses_have_tracks_by_processor_and_purpose():
    drawn = Drawn(entries({"time_ns": 1000, "kind": "load", "bar": 0, "offset": 8, "size": 4, "value": "0x1",
                           "vcpu": 3},
                          {"time_ns": 1100, "kind": "dma-read", "address": "0x1000", "length": 64, "purpose": "CQ"},
                          {"time_ns": 1200, "kind": "dma-write", "address": "0x2000", "length": 8, "purpose": "payload",
                           "failed": True}))
    assert {drawn.row(event): event["name"] for event in drawn.slices} == {
        ("vm1 vCPUs", "vCPU 3"): "BAR0 STATUS is 0x1", ("vm1 DMA", "CQ"): "read", ("vm1 DMA", "payload"): "failed"}


def test_refusals_have_a_track():
    drawn = Drawn(entries({"time_ns": 1000, "kind": "refusal", "rule": "8.2.2", "text": "store to BAR2 at 0x4 refused",
                           "accesses": "no access"}))
    assert [(drawn.row(event), event["name"], event["args"]) for event in drawn.slices] == [
        (("vm1 refusals", "refusals"), "store to BAR2 at 0x4 refused", {"rule": "8.2.2", "accesses": "no access"})]


def test_calls_of_the_driver_lie_within_their_callers():
    calls = [Call("task-1", 0, 1000, 5000, "caller"), Call("task-1", 1, 1001, 1500, "callee"),
             Call("task-2", 0, 1200, None, "open"), Call("task-1", 1, 1501, 4999, "callee"),
             Call("task-2", 1, 1300, 1301, "event", {"cpu": 1})]
    drawn = Drawn(entries(command(2000, 9000)), calls)
    assert sorted((drawn.row(event)[1], event["ts"], event["dur"], event["name"]) for event in drawn.slices) == [
        ("commands", 2.0, 7.0, "CREATE_CQ"), ("task-1", 1.0, 4.0, "caller"), ("task-1", 1.001, 0.499, "callee"),
        ("task-1", 1.501, 3.498, "callee"), ("task-2", 1.2, 7.8, "open"), ("task-2", 1.3, 0.001, "event")]
    assert drawn.document["otherData"]["entries"] == 6
