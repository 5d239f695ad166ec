# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib map and ./pib metrics of a switch process that runs without guests, and of several simulated ones."""

import contextlib
import http.client
import pathlib
import socket
import subprocess
import threading
import time
import types
import urllib.request
import xml.etree.ElementTree

import prometheus_client
import pytest

import simulated_fabric
from lab.base import paths, process, ui
from lab.fabric import control, evidence, map as fabric_map, switch_process, topology
from lab.web import metrics

FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"
PATIENCE_S = 60


@pytest.fixture(scope="module")
def switch(tmp_path_factory):
    directory = tmp_path_factory.mktemp("switch")
    running = switch_process.Switch(directory, topology=str(FILE))
    log = directory / "log"
    started = process.start(running.argv(), log, directory=directory, name="switch")
    process.wait_for("pib-switch", running.answers, started, log, PATIENCE_S)
    yield running.control
    started.stop()


def test_the_map_shows_the_topology(switch):
    wanted = topology.load(FILE)
    with control.Control(switch) as asked:
        picture = control.picture(asked)
    assert {int(guid, 16) for guid in picture.nodes} == {node.guid for node in wanted.nodes.values()}
    assert {frozenset((int(end.guid, 16), end.port) for end in ends)
            for ends in picture.links} == wanted.wiring()
    assert {link.state for link in picture.links.values()} == {"Initialize"}


def test_text_has_every_node_and_link(switch):
    wanted = topology.load(FILE)
    text = fabric_map.text(*fabric_map.look([switch], 0.01))
    assert all(name in text for name in wanted.nodes)
    assert text.count("Initialize") == sum(len(node.peers) for node in wanted.switches())


def test_spines_are_above_leaves_and_leaves_above_hosts(switch):
    with control.Control(switch) as asked:
        picture = control.picture(asked)
    height = fabric_map.heights(picture)
    for guid, node in picture.nodes.items():
        assert height[guid] == {"n": 0, "l": 1, "s": 2}[node.name[0]]


def test_the_drawing_has_all_nodes_and_links(switch, tmp_path):
    picture, rates = fabric_map.look([switch], 0.01)
    fabric_map.draw(picture, rates, tmp_path / "map.svg")
    root = xml.etree.ElementTree.parse(tmp_path / "map.svg").getroot()
    groups = [group.get("class") for group in root.iter("{http://www.w3.org/2000/svg}g")]
    assert groups.count("node") == len(picture.nodes) and groups.count("edge") == len(picture.links)


def test_the_command_prints_or_draws_the_map(switch, tmp_path):
    file = tmp_path / "map.svg"
    printed, drawn = (subprocess.run([paths.ROOT / "pib", "map", "--control", switch, *words], capture_output=True,
                                     text=True, timeout=PATIENCE_S, check=True) for words in ((), ("--svg", file)))
    assert printed.stdout.count("Initialize") == 32 and printed.stderr == ""
    assert drawn.stdout == "" and drawn.stderr.endswith(f"drawn in {file}\n") and "spine1" in file.read_text()


def test_names_are_quoted_in_the_drawing():
    end, other = control.End("0x1", 1), control.End("0x2", 1)
    picture = control.Picture({"0x1": control.Node("0x1", 'a"];\\', "switch", 1)})
    picture.nodes["0x2"] = control.Node("0x2", "b", "host", 2)
    link = control.Link(end, other, "Down", "", 0)
    picture.links[frozenset({end, other})] = link
    assert r'label="a\"];\\\nLID 1"' in fabric_map.dot(picture, {frozenset({end, other}): 0.0})


def test_traffic_of_a_new_or_cleared_link_counts_from_zero():
    ends = frozenset({control.End("0x1", 1), control.End("0x2", 1)})
    def picture(moved):
        return control.Picture(links={ends: control.Link(*sorted(ends, key=lambda end: end.guid),
                                                         "Active", "4X EDR", moved)})
    assert fabric_map.traffic(picture(100), picture(300), 2.0) == {ends: 100.0}
    assert fabric_map.traffic(control.Picture(), picture(300), 2.0) == {ends: 150.0}
    assert fabric_map.traffic(picture(500), picture(300), 2.0) == {ends: 150.0}


def test_a_missing_switch_is_reported():
    with pytest.raises(ui.LabError, match="--control"):
        control.Control(paths.ROOT / "nobody")


def test_metric_names_are_valid():
    assert metrics.metric_name("PortRcvErrors") == "pib_port_rcv_errors"
    assert metrics.metric_name("VL15Dropped") == "pib_vl15_dropped"
    assert metrics.metric_name("PortSwHOQLifetimeLimitDiscards") == \
        "pib_port_sw_hoq_lifetime_limit_discards"


def scraped(*words):
    """The text of ./pib metrics, and what the command has said."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serving = subprocess.Popen([paths.ROOT / "pib", "metrics", *words, "--port", str(port)], stderr=subprocess.PIPE,
                               text=True)
    try:
        text, end = "", time.monotonic() + PATIENCE_S
        while not text and serving.poll() is None and time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                    text = answer.read().decode()
            except OSError:
                time.sleep(0.1)
        # A server on all addresses of the host would answer here, too.
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.2", port), timeout=10).close()
    finally:
        serving.terminate()
        said = serving.communicate()[1]
    return text, said


def test_metrics_are_served_over_http(switch):
    text, _ = scraped("--control", switch)
    assert 'pib_port_state{port="1",switch="leaf1"} 2.0' in text and "pib_up 1.0" in text
    assert 'pib_port_rcv_pkts_total{port="5",switch="spine1"}' in text or \
        'pib_port_rcv_pkts_total{port="4",switch="spine1"}' in text


@pytest.fixture(name="scrape")
def metrics_without_switches():
    """Asks a server of metrics; returns the status and the text of its answer."""
    registry = prometheus_client.CollectorRegistry(auto_describe=False)
    registry.register(metrics.Collector(lambda: []))
    with metrics.Server(0, prometheus_client.make_wsgi_app(registry)) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()

        def ask(**headers):
            connection = http.client.HTTPConnection(*server.server_address, timeout=PATIENCE_S)
            connection.request("GET", "/metrics", headers=headers)
            with connection.getresponse() as answer:
                return answer.status, answer.read().decode()
        ask.address = server.server_address
        yield ask
        server.shutdown()


@pytest.mark.parametrize("headers", [
    {"Host": "evil.example"}, {"Host": ""}, {"Origin": "http://evil.example"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},   # a page at another port
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}])
def test_metrics_are_not_for_pages_of_other_sites(scrape, headers):
    """A site's name may resolve to this machine's address, so that its page may read the answers."""
    status, text = scrape(**headers)
    assert status == 403 and "pib_up" not in text
    assert scrape() == scrape(Host="localhost:9417") == scrape(Host="[::1]:1", Accept="text/plain")
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert scrape() == scrape(**{"Sec-Fetch-Site": "none"}) == scrape(**link)
    assert "pib_up 1.0" in scrape()[1]


def test_head_gets_the_header_of_get_without_the_body(scrape):
    with contextlib.closing(http.client.HTTPConnection(*scrape.address, timeout=PATIENCE_S)) as connection:
        got = []
        for method in ("HEAD", "GET"):          # a body of HEAD's answer would precede that of GET
            connection.request(method, "/metrics")
            with connection.getresponse() as answer:
                got.append((answer.status, answer.headers["Content-Type"], answer.headers["Content-Length"]))
                text = answer.read()
    assert got[0] == got[1] and got[1] == (200, got[1][1], str(len(text))) and b"pib_up 1.0" in text


def test_clients_that_send_nothing_are_not_kept(scrape, monkeypatch):
    monkeypatch.setattr(metrics.Handler, "timeout", 0.1)
    with socket.create_connection(scrape.address, timeout=PATIENCE_S) as silent:
        assert silent.recv(1) == b""


def test_clients_that_send_nothing_do_not_pile_up(scrape):
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(scrape.address, timeout=PATIENCE_S))
                  for _ in range(metrics.MOST_REQUESTS + 3)]
        assert scrape()[0] == 200 and silent[0].recv(1) == b""


def test_clients_between_two_requests_keep_no_other_out(scrape):
    """They may send the next request octet by octet, and so never be idle for long."""
    with contextlib.ExitStack() as stack:
        for _ in range(metrics.MOST_REQUESTS):
            slow = http.client.HTTPConnection(*scrape.address, timeout=PATIENCE_S)
            stack.enter_context(contextlib.closing(slow))
            slow.request("GET", "/metrics")
            with slow.getresponse() as answer:
                assert answer.status == 200 and answer.read()
        assert scrape()[0] == 200


def test_without_a_switch_metrics_have_only_pib_up(tmp_path, monkeypatch):
    monkeypatch.setattr("test_map.PATIENCE_S", 10)
    text, said = scraped("--control", tmp_path / "none")
    assert "pib_up 0.0" in text and "pib_port_state{" not in text
    assert "no switch answers there" in said and "Traceback" not in said


def test_metrics_follow_the_lab_to_its_new_control_socket(switch, tmp_path):
    """./pib down and up give the control socket another path."""
    found = iter([tmp_path / "old", switch])
    collector = metrics.Collector(lambda: [next(found)])
    assert [next(iter(collector.collect())).samples[0].value for _ in range(2)] == [0, 1]


# -- several switch processes -------------------------------------------------------------

TWO = """
Switch 2 "leaf1"
[1] "node1"[1]
[2] "leaf2"[2]

Switch 2 "leaf2"
[1] "node2"[1]
[2] "leaf1"[2]

Ca 1 "node1"
[1] "leaf1"[1]

Ca 1 "node2"
[1] "leaf2"[1]
"""


@pytest.fixture(name="two")
def two_processes(tmp_path):
    """A fabric of two switch processes, which a trunk joins."""
    (tmp_path / "two.topo").write_text(TWO)
    net = topology.load(tmp_path / "two.topo")
    running = [simulated_fabric.Process(tmp_path / name, simulated_fabric.Fabric(net, only=name))
               for name in ("leaf1", "leaf2")]
    yield running
    for one in running:
        one.end()


def test_the_map_shows_the_switches_of_all_processes(two):
    picture, rates = fabric_map.look([one.path for one in two], 0.01)
    assert {node.name: node.kind for node in picture.nodes.values()} == {
        "leaf1": "switch", "leaf2": "switch", "node1": "host", "node2": "host"}
    text = fabric_map.text(picture, rates)
    assert len(picture.links) == 3 and "leaf1   LID 1\n" in text and "leaf2   LID 2\n" in text


def ports_in(collector: metrics.Collector) -> tuple[float, set[tuple[str, str]]]:
    """pib_up, and (switch, port) of each state."""
    families = {family.name: family.samples for family in collector.collect()}
    return families["pib_up"][0].value, {(one.labels["switch"], one.labels["port"])
                                         for one in families.get("pib_port_state", [])}


def test_metrics_have_the_ports_of_all_processes_that_answer(two, tmp_path, capsys):
    paths_of = [one.path for one in two]
    collector = metrics.Collector(lambda: paths_of)
    leaf1, leaf2 = ({(name, "1"), (name, "2")} for name in ("leaf1", "leaf2"))
    assert ports_in(collector) == (1, leaf1 | leaf2)
    paths_of[0] = tmp_path / "gone"
    assert ports_in(collector) == (0, leaf2) and ports_in(collector) == (0, leaf2)
    assert capsys.readouterr().err.count("no switch answers there") == 1


def test_switches_with_one_name_are_told_apart(two, tmp_path):
    """pib-switch without a topology file has always the same id."""
    first, second = two[0].path, tmp_path / "second"
    second.symlink_to(first)
    guid = simulated_fabric.guid(two[0].fabric.net.nodes["leaf1"])
    assert set(evidence.switches([first, second])) == {"leaf1", guid}
    controls = [first, second]
    collector = metrics.Collector(lambda: controls)
    assert {name for name, _port in ports_in(collector)[1]} == {"leaf1", guid}
    first.rename(tmp_path / "ended")
    second.unlink()
    second.symlink_to(tmp_path / "ended")
    assert {name for name, _port in ports_in(collector)[1]} == {guid}      # the other switch keeps its name
    controls[:] = [second]
    assert {name for name, _port in ports_in(collector)[1]} == {"leaf1"}    # another lab


def test_metrics_of_a_lab_ask_for_each_process_that_should_run():
    def lab(parts, switches):
        def running():
            if not switches:
                raise ui.LabError("no switch runs")
            return switches
        return types.SimpleNamespace(running_switches=running, record=types.SimpleNamespace(parts=parts),
                                     sockets=lambda: pathlib.Path("/run"))
    assert metrics.of_lab(lab([], ["switch"])) == [pathlib.Path("/run/switch.control")]
    assert metrics.of_lab(lab([["leaf1"], ["leaf2"]], ["switch"])) == [
        pathlib.Path("/run/switch.control"), pathlib.Path("/run/switch1.control")]
    with pytest.raises(ui.LabError):
        metrics.of_lab(lab([], []))
