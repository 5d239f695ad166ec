# SPDX-License-Identifier: GPL-2.0-or-later
"""What ./pib bench makes of its measurements."""

import json
import xml.etree.ElementTree

import pytest

from lab import bench, bench_figures, bench_guests, bench_plot, bench_sweep, topology, ui
from lab.bench_figures import LESS, MORE, Figure, Kind, Results

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


def test_the_median_counts_and_a_factor_above_one_is_better(results):
    rate, time = results.figure(RATE), results.figure(TIME)
    assert rate.median("pib") == 300 and rate.times_better("pib", "Soft-RoCE") == 15
    assert time.median("pib") == 5 and time.times_better("pib", "Soft-RoCE") == 16
    assert time.times_better("Soft-RoCE", "pib") == 1 / 16


def test_what_was_not_measured_has_no_factor(results):
    rate = results.figure(RATE)
    assert rate.median("pipe") is None and rate.times_better("pib", "pipe") is None
    rate.add("broken", 0.0)
    assert rate.times_better("pib", "broken") is None


def test_results_survive_their_file(results, tmp_path):
    path = tmp_path / "results.json"
    path.write_text(bench_figures.to_json(results))
    assert bench_figures.load(path) == results
    assert json.loads(path.read_text())["figures"][0]["median"]["pib"] == 300


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}',
                                  '{"version": 1, "machine": {}, "rounds": 1, "notes": [], '
                                  '"figures": [{}]}'])
def test_other_files_are_refused(text):
    with pytest.raises(ui.LabError):
        bench_figures.from_json(text)


@pytest.mark.parametrize("value, text", [(None, "-"), (0.0, "0"), (0.01234, "0.0123"),
                                         (5.0, "5"), (56.78, "56.8"), (1234.5, "1234")])
def test_numbers_have_three_digits_that_count(value, text):
    assert bench_figures.number(value) == text


def test_the_table_names_median_range_and_factors(results):
    assert bench_figures.heading(results, "pib") == ["figure", "pib", "range", "Soft-RoCE", "pipe"]
    assert bench_figures.rows(results, "pib") == [
        ["SEND, 64 B, messages/s", "300", "100 … 900", "20 (15×)", "-"],
        ["WRITE, 8 B, p50, us", "5", "4 … 6", "80 (16×)", "10 (2×)"]]


def test_figures_of_comparators_alone_are_no_rows(results):
    results.figures.append(Figure(Kind("x", "X", "us", LESS), {"pipe": [1.0]}))
    assert len(bench_figures.rows(results, "pib")) == 2


def test_the_plot_is_xml_and_shows_every_bar(results):
    root = xml.etree.ElementTree.fromstring(bench_plot.svg(results, "Soft-RoCE"))
    assert len([part for part in root if part.tag.endswith("rect")]) == 5
    assert bench_plot.svg(Results({}, 1), "Soft-RoCE")


def test_a_run_is_kept_in_three_files(results, tmp_path):
    kept = bench.save(results, tmp_path)
    assert bench_figures.load(kept) == results
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".svg", ".txt"]
    assert "a note" in kept.with_suffix(".txt").read_text()


def test_every_kind_has_a_key_of_its_own():
    kinds = [kind for one in bench_guests.TESTS for kind in one.columns.values()]
    assert len({kind.key for kind in kinds}) == len(kinds) == len(bench_guests.KINDS)
    assert set(bench_guests.COSTS) <= set(bench_guests.KINDS)


def test_the_fabrics_of_sweeps_have_the_hosts_that_they_say_and_the_guest_in_the_same_place():
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


def test_sweeps_are_read_out_of_opensms_log():
    assert bench_sweep.spans(LOG, "INITIATING LIGHT", "LIGHT SWEEP COMPLETE") == pytest.approx([0.25])
    assert bench_sweep.spans(LOG, "Entering DISCOVERING", "SUBNET UP") == pytest.approx([2.5])
    assert bench_sweep.spans(LOG, "SUBNET UP", "nothing") == []
