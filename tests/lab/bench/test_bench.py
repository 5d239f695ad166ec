# SPDX-License-Identifier: GPL-2.0-or-later
"""Evaluation of measurements by ./pib bench."""

import json
import subprocess
import time
import types
import xml.etree.ElementTree

import pytest

import simulated_fabric
from lab.base import paths, ui
from lab.bench import (bench, bench_capture, bench_costs, bench_figures, bench_host, bench_load, bench_many,
                       bench_messages, bench_objects, bench_page, bench_plot, bench_record, bench_steps, bench_sweep,
                       bench_system, bench_web)
from lab.fabric import topology
from lab.bench.bench_figures import LESS, MORE, Figure, Kind, Results

RATE = Kind("rate", "SEND, 64 B", "messages/s", MORE)
TIME = Kind("time", "WRITE, 8 B, p50", "us", LESS)


@pytest.fixture(name="results")
def fixture_results():
    results = Results({"commit": "0123456789ab", "processor": "2 x <one>"}, 3, notes=["a note"])
    for ours, theirs in ((100.0, 10.0), (900.0, 20.0), (300.0, 60.0)):
        results.figure(RATE).add("pib", ours)
        results.figure(RATE).add("Soft-RoCE", theirs)
    for ours, theirs in ((4.0, 100.0), (5.0, 50.0), (6.0, 80.0)):
        results.figure(TIME).add("pib", ours)
        results.figure(TIME).add("Soft-RoCE", theirs)
        results.figure(TIME).add("pipe", 10.0)
    return results


def test_a_factor_compares_medians_and_above_one_is_better(results):
    rate, took = results.figure(RATE), results.figure(TIME)
    assert rate.median("pib") == 300 and rate.times_better("pib", "Soft-RoCE") == 15
    assert took.median("pib") == 5 and took.times_better("pib", "Soft-RoCE") == 16
    assert took.times_better("Soft-RoCE", "pib") == 1 / 16


def test_a_missing_measurement_has_no_factor(results):
    rate = results.figure(RATE)
    assert rate.median("pipe") is None and rate.times_better("pib", "pipe") is None
    rate.add("broken", 0.0)
    assert rate.times_better("pib", "broken") is None


def test_a_negative_difference_has_no_factor_and_no_bar(results):
    """The plot is logarithmic."""
    results.figure(TIME).add("broken", -1.0)
    assert results.figure(TIME).times_better("pib", "broken") is None
    assert "broken" not in bench_plot.svg(results, "Soft-RoCE")


def test_results_are_written_and_read_back(results, tmp_path):
    path = tmp_path / "results.json"
    path.write_text(bench_figures.to_json(results))
    assert bench_figures.load(path) == results
    assert json.loads(path.read_text())["figures"][0]["median"]["pib"] == 300


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}',
                                  '{"version": 1, "machine": {}, "rounds": 1, "notes": [], '
                                  '"figures": [{}]}'])
def test_files_without_results_are_refused(text):
    with pytest.raises(ui.LabError):
        bench_figures.from_json(text)


@pytest.mark.parametrize("value, text", [(None, "-"), (0.0, "0"), (0.01234, "0.0123"),
                                         (5.0, "5"), (56.78, "56.8"), (1234.5, "1234")])
def test_numbers_have_three_significant_digits(value, text):
    assert bench_figures.number(value) == text


def test_the_table_names_median_range_and_factors(results):
    assert bench_figures.heading(results, "pib") == ["figure", "pib", "range", "Soft-RoCE", "pipe"]
    assert bench_figures.rows(results, "pib") == [
        ["SEND, 64 B, messages/s", "300", "100 … 900", "20 (15×)", "-"],
        ["WRITE, 8 B, p50, us", "5", "4 … 6", "80 (16×)", "10 (2×)"]]


def test_a_measurement_of_comparators_alone_is_a_row_without_factors(results):
    results.figures.append(Figure(Kind("x", "X", "us", LESS), {"pipe": [1.0]}))
    assert bench_figures.rows(results, "pib")[2] == ["X, us", "-", "-", "-", "1"]


def test_the_plot_is_xml_and_shows_every_bar(results):
    root = xml.etree.ElementTree.fromstring(bench_plot.svg(results, "Soft-RoCE"))
    assert len([part for part in root if part.tag.endswith("rect")]) == 5
    assert bench_plot.svg(Results({}, 1), "Soft-RoCE")


def test_a_run_is_kept_in_three_files(results, tmp_path):
    kept = bench.save(results, tmp_path)
    assert bench_figures.load(kept) == results
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".svg", ".txt"]
    assert "a note" in kept.with_suffix(".txt").read_text()


def test_frames_without_a_browser_say_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(bench_page, "CHROMIUM", tmp_path / "nothing")
    with pytest.raises(ui.LabError, match="install chromium"):
        bench_page.frames("http://127.0.0.1:1/")


def all_kinds():
    yield from (kind for one in bench_messages.TESTS for kind in one.columns.values())
    yield from bench_objects.KINDS.values()
    yield from bench_many.KINDS.values()
    yield from bench_host.DEVICE_KINDS.values()
    for one in (bench_objects, bench_system, bench_web):
        yield from (value for value in vars(one).values() if isinstance(value, Kind))
    for title, (_rate, key) in bench_capture.RUNS.items():
        yield from bench_capture.kinds(key, title)
    for test in bench_record.TESTS:
        yield from (test.kind, bench_record.cost(test))
    for key in bench_costs.TESTS:
        names = ["wake-ups", "processor time", *bench_costs.COUNTED.values(), *bench_costs.WAITS.values(),
                 *bench_costs.big_lock("")]
        yield from (bench_costs.kind_of(bench_messages.test_of(key), name) for name in names)


def test_every_kind_has_a_key_of_its_own():
    keys = [kind.key for kind in all_kinds()]
    assert len(set(keys)) == len(keys)
    assert len({kind.title for kind in all_kinds()}) == len(keys)
    compared = {key for text in bench_host.COPIES.values() for key in text.split()}
    assert compared | {"write_lat_8", "write_lat_8_p99"} <= set(bench_messages.KINDS)


def test_groups_can_be_chosen_and_all_take_about_half_an_hour():
    assert bench.chosen(None, True) == [group for group in bench.GROUPS if not group.on_request]
    assert [group.name for group in bench.chosen(["capture", "web"], False)] == ["web", "capture"]
    assert [group.name for group in bench.chosen(["record"], True)] == ["record"]
    assert [group.name for group in bench.chosen(["scale", "rate"], True)] == ["rate", "scale"]
    assert not any(group.guests for group in bench.chosen(None, False))
    with pytest.raises(ui.LabError):
        bench.chosen(["rate"], False)
    assert bench.estimate_s(bench.chosen(None, True), 5) < 31 * 60
    assert len(set(bench.NAMES) | {bench.SWEEP}) == len(bench.GROUPS) + 1


def test_a_step_that_fails_is_noted_and_the_others_count(results):
    taken, mended = [], []

    def fail():
        raise ui.LabError("it broke\nand how")

    def steps():
        yield bench_steps.Step("first", fail)
        yield bench_steps.Step("second", lambda: taken.append(2))
        raise OSError("between")

    bench_steps.take_all(results, "group", steps(), lambda: mended.append(1))
    assert taken == [2] and len(mended) == 2
    assert results.notes[1:] == ["group, first: failed: it broke", "group: failed: between"]


def test_a_run_that_ends_early_is_kept(monkeypatch, tmp_path, capsys):
    def measure(results, _groups):
        results.figure(RATE).add("pib", 5.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "_measure", measure)
    monkeypatch.setattr(bench, "RUN", tmp_path / "bench")
    monkeypatch.setattr(bench.up, "machine", lambda **_wanted: None)
    monkeypatch.setattr(bench.host_build, "build", lambda **_more: None)
    assert bench.bench(1, tmp_path, False, None) == 1
    kept, = tmp_path.glob("*.json")
    assert bench_figures.load(kept).figure(RATE).median("pib") == 5
    assert "KeyboardInterrupt" in capsys.readouterr().out


def test_what_cannot_be_measured_or_kept_is_refused_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr(bench.up, "machine", lambda **_wanted: pytest.fail("the run has begun"))
    file = tmp_path / "file"
    file.touch()
    for output in (file, file / "results"):
        with pytest.raises(ui.LabError, match="--output .* Name a directory"):
            bench.bench(1, output, True, None)
    with pytest.raises(ui.LabError, match="--only sweep needs a guest"):
        bench.bench(1, tmp_path, False, [bench.SWEEP])


def test_a_second_bench_waits_for_the_first(monkeypatch, tmp_path, capsys):
    """Two benches would use the same lab, and measure each other."""
    monkeypatch.setattr(bench, "RUN", tmp_path / "bench")
    monkeypatch.setattr(bench.up, "machine", lambda **_wanted: None)
    monkeypatch.setattr(bench.host_build, "build", lambda **_more: None)
    (tmp_path / "bench").mkdir()
    free = ["flock", "--nonblock", tmp_path / "bench" / "lock", "true"]
    monkeypatch.setattr(bench, "_measure", lambda results, _groups: results.notes.append(
        "alone" if subprocess.run(free, check=False).returncode else "beside others"))
    assert bench.bench(1, tmp_path, False, None) == 0 and "\nalone\n" in capsys.readouterr().out


def test_output_of_the_program_in_the_guest_becomes_figures(results):
    compile(bench_objects.PROGRAM.read_text(), "guest", "exec")
    bench_objects.add_objects(results, "pib", json.dumps({name: 2.0 for name in bench_objects.KINDS}))
    for kind in bench_objects.KINDS.values():
        assert results.figure(kind).median("pib") == 2.0


def test_regions_of_the_program_in_the_guest_become_figures(results):
    compile(bench_many.PROGRAM.read_text(), "guest", "exec")
    bench_many.add_regions(results, json.dumps({name: 3.0 for name in bench_many.REGIONS}))
    for kind in bench_many.REGIONS.values():
        assert results.figure(kind).median("pib") == 3.0


def test_many_qps_send_as_many_messages_in_sum_and_perftests_least_each():
    assert bench_many.writes(8).messages("pib") == bench_many.writes(2048).messages("pib") + 128 == 80_000
    assert bench_many.writes(16384).iterations[0] == bench_many.LEAST


def test_figures_of_many_objects_have_titles(results, monkeypatch):
    lines = {f"{what}_{count}": {"count": count, "write_ns": 1.0, "mr_ns": 2.0, "cq_ns": 3.0, "qp_ns": 4.0}
             for what, count in (("qps", 8), ("qps", 16384), ("regions", 100_000))}
    monkeypatch.setattr(bench_host, "lines", lambda target, **environment: lines)
    next(iter(bench_host.scale_steps(results))).take()
    titles = {figure.kind.title: figure.median("pib") for figure in results.figures
              if figure.kind.key.startswith("scale_")}
    assert titles["work of a WRITE of 8 B, all ends, 16,384 QPs in turn"] == 1.0
    assert titles["MR, one of 100,000: made"] == 2.0 and len(titles) == 8


CMTIME = """\
Connect (100) test - with QPs
step             avg/iter  total(us)    us/conn    sum(us)    max(us)    min(us)
full connect         8233     823340          0          0     121540      24503
create id              17       1741         17       1702        260          8
Connect (100) test - no QPs
full connect         1233     123340          0          0     121540      24503
"""


def test_the_time_of_a_full_connect_is_read():
    assert bench_objects.full_connect_us(CMTIME) == 8233
    with pytest.raises(ui.LabError):
        bench_objects.full_connect_us("cmtime: no such address")


PROFILE = """\
Type               Object  Call site                     Wait Time (s)         Count  Average (us)
--------------------------------------------------------------------------------------------------
BQL mutex  0x55d1aa3e5580  ../system/cpus.c:527                1.50000          1000       1500.00
rec_mutex  0x55d1ab000000  ../util/async.c:712                 0.25000            10       1000.00
BQL mutex  0x55d1aa3e5580  ../util/main-loop.c:311             0.50000           500       1000.00
"""


def test_processor_time_of_ended_threads_counts():
    program = ("import threading, time\n"
               "def burn():\n while time.thread_time() < 0.3: pass\n"
               "one = threading.Thread(target=burn); one.start(); one.join()\n"
               "print(flush=True); input()")
    with subprocess.Popen(["/usr/bin/python3", "-c", program], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as running:
        running.stdout.readline()
        _sleeps, seconds = bench_host.usage([types.SimpleNamespace(pid=running.pid)])
        running.communicate(b"\n")
    assert seconds >= 0.25


def test_the_senders_last_line_counts(monkeypatch, tmp_path):
    sender = tmp_path / "sender"
    sender.write_text("#!/bin/sh\necho '{\"writes\": 1}'\necho '{\"writes\": 2}'\n")
    sender.chmod(0o755)

    def slow(line):
        time.sleep(0.3)
        return json.loads(line)
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    monkeypatch.setattr(bench_host, "FABRIC_LOAD", "sender")
    monkeypatch.setattr(bench_load, "json", types.SimpleNamespace(loads=slow))
    load = bench_load.Load(tmp_path, 64)
    load.begin()
    assert load.end() == 2


def test_costs_are_per_message():
    lock = bench_costs.big_lock(PROFILE)
    assert lock == {"BQL taken": 1500, "waiting for the BQL": 2e6}
    per = bench_costs.difference({**lock, "doorbells": 30}, {"BQL taken": 500, "doorbells": 10}, 100)
    assert per == {"BQL taken": 10e6, "waiting for the BQL": 2e4, "doorbells": 200_000}


@pytest.fixture(name="recorder")
def fixture_recorder(results, tmp_path, monkeypatch):
    """Guests of a bench, beside a lab whose recording grows with each message. bandwidths: results of perftest, without
    a recording and with one; calls: the name of the client and the size of each run; recording: the file, if it is
    there."""
    class Lab:
        def __init__(self, directory):
            self.directory = directory

        def up(self, wanted, artefacts):
            assert (wanted.count, artefacts) == (2, ["driver"])
            found.recording = wanted.recording(0)
            found.recording.touch()

        def node(self, name):
            return f"recorded {name}"

        def down(self):
            found.calls.append("down")

    def between(client, server, test, iterations):
        assert (client, server) in (("vm0", "vm1"), ("recorded vm0", "recorded vm1")) and iterations
        is_recorded = client.startswith("recorded")
        found.calls.append((client, test.size))
        if is_recorded:
            found.recording.write_text(found.recording.read_text() + found.written)
        return [test.size, 1, 0, found.bandwidths[is_recorded], found.bandwidths[is_recorded]]
    found = types.SimpleNamespace(
        lab=types.SimpleNamespace(directory=tmp_path / "lab"), artefacts=["driver"], hca=lambda node: node,
        ends={"pib": ["vm0", "vm1"]}, results=results, calls=[], bandwidths=(1000.0, 800.0), written="events")
    monkeypatch.setattr(bench_record.cluster, "Cluster", Lab)
    monkeypatch.setattr(bench_record.up, "make_subnet", lambda _lab: None)
    monkeypatch.setattr(bench_messages, "between", between)
    return found


def test_the_cost_of_a_recording_is_measured_in_turn(recorder, results):
    bench_steps.take_all(results, "record", bench_record.steps(recorder))
    sizes = [65536, 1 << 20, 64]
    assert recorder.calls == [*[(name, size) for size in sizes for name in ("vm0", "recorded vm0")],
                              *[(name, size) for size in sizes for name in ("recorded vm0", "vm0")], "down"]
    for test in bench_record.TESTS:
        rate, cost = results.figure(test.kind), results.figure(bench_record.cost(test))
        assert rate.times_better("pib", bench_record.NOT_RECORDED) == pytest.approx(0.8)
        assert cost.samples == {"pib": pytest.approx([20, 20])}
    assert results.figure(bench_record.TESTS[2].kind).median("pib") == 800e6     # perftest has millions
    assert results.notes == ["a note"] and not recorder.recording.parent.exists()


def test_a_recording_that_does_not_grow_is_no_measurement(recorder, results):
    recorder.written = ""
    bench_steps.take_all(results, "record", bench_record.steps(recorder))
    assert len(results.notes) == 7 and "run-vm0.rec has not grown" in results.notes[1]
    assert results.figure(bench_record.TESTS[0].kind).samples == {} and recorder.calls[-1] == "down"
    assert not recorder.recording.parent.exists()


@pytest.mark.parametrize("name, title", [("switch_2of36ports_64_1", "switch, 2 of 36 ports, 64 B, one a turn"),
                                         ("switch_8of8ports_4096_256", "switch, 8 ports, 4096 B"),
                                         ("multicast_31copies_256", "switch, multicast of 256 B to 31")])
def test_the_switchs_figures_have_titles(name, title):
    assert bench_host.switch_kind(name).title == title


def test_fabrics_of_sweeps_have_their_number_of_hosts_and_the_guest_at_one_port():
    places = set()
    for hosts in bench_sweep.FABRICS:
        net = topology.net(bench_sweep.text(hosts))
        assert len(net.hosts()) == hosts
        assert all(len(host.peers) == 1 for host in net.hosts())
        places.add((net.nodes[bench_sweep.HOST].guid, net.nodes[bench_sweep.HOST].port_guid(1)))
    assert len(places) == 1


LOG = """\
Nov 21 17:49:47 900000 [A] 0x04 -> state_mgr_light_sweep_start:
*** INITIATING LIGHT SWEEP ***
Nov 21 17:49:48 150000 [A] 0x04 -> do_sweep:
*** LIGHT SWEEP COMPLETE ***
*** LIGHT SWEEP COMPLETE ***
Nov 21 17:50:00 000000 [A] 0x80 -> Entering DISCOVERING state
Nov 21 17:50:02 500000 [A] 0x02 -> SUBNET UP
"""


def test_sweeps_are_read_from_opensms_log():
    assert bench_sweep.spans(LOG, "INITIATING LIGHT", "LIGHT SWEEP COMPLETE") == pytest.approx([0.25])
    assert bench_sweep.spans(LOG, "Entering DISCOVERING", "SUBNET UP") == pytest.approx([2.5])
    assert bench_sweep.spans(LOG, "SUBNET UP", "nothing") == []


# -- traffic without guests ------------------------------------------------------------

def test_a_route_leads_through_each_link():
    net = topology.load(paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo")
    reached = set()
    for route in bench_load.routes_to_links(net, "node6"):
        here = "node6"
        for port in route:
            peer, peer_port = net.nodes[here].peers[port]
            last = frozenset({(net.nodes[here].guid, port), (net.nodes[peer].guid, peer_port)})
            here = peer
        reached.add(last)
    assert reached == net.wiring() and len(bench_load.routes_to_links(net, "node6")) == len(reached)


def test_the_large_fabric_has_places_for_the_senders(tmp_path):
    file, routes = bench_load.large_fabric(tmp_path)
    net = topology.load(file)
    assert net.nodes["vm0"].peers[1][0] == net.nodes["vm1"].peers[1][0]
    assert len(routes.read_text().splitlines()) == len(net.wiring())


def test_the_work_of_readings_is_a_share_of_a_processor(results, tmp_path, monkeypatch):
    """A fabric of 24 links, and a switch process that works 1.2 s for all readings: 1 ms for each new figure. With the
    pane of a QP it works twice as long. The journals and tables of its switches are read before the measurement, and
    one journal again, because it names the instance of the process."""
    fabric = simulated_fabric.Fabric(topology.load(paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"))
    process = simulated_fabric.Process(tmp_path / "control", fabric)
    times = iter((5.0, 6.2, 7.0, 9.4))
    monkeypatch.setattr(bench_host, "usage", lambda _processes: (0, next(times)))
    load = types.SimpleNamespace(switch=types.SimpleNamespace(control=process.path), process=None)
    bench_web.readings(load, results)
    process.end()
    assert results.figure(bench_web.SHARE).median("pib") == pytest.approx(100)
    assert 0 < results.figure(bench_web.READER).median("pib") < 1000
    asked = [request["command"] for request in fabric.requests]
    assert results.figure(bench_web.QP_SHARE).median("pib") == pytest.approx(200)
    assert 0 < results.figure(bench_web.QP_READER).median("pib") < 1000
    assert asked.count("traffic") == 6 * (2 * bench_web.READINGS + 2)
    assert (asked.count("lft"), asked.count("journal")) == (6, 6 + 1)


def test_the_cost_of_a_page_is_the_difference_of_two_windows(results):
    begin = bench_load.Sample(10.0, 1.0, 1000, 5)
    alone = bench_web.Window.between(begin, bench_load.Sample(12.0, 2.0, 201000, 6))
    watched = bench_web.Window.between(begin, bench_load.Sample(12.0, 2.1, 197000, 6))
    assert (alone, watched.writes) == (bench_web.Window(100000.0, 5.0), 98000.0)
    bench_web.add(results, alone, watched)
    assert results.figure(bench_web.COST).median("pib") == pytest.approx(2)
    assert results.figure(bench_web.WRITES).median(bench_web.NO_PAGE) == 100000
    for still in (bench_load.Sample(12.0, 2.0, 1000, 9), bench_load.Sample(12.0, 2.0, 2000, 5)):
        with pytest.raises(ui.LabError, match="has sent nothing"):
            bench_web.Window.between(begin, still)
