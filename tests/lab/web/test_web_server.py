# SPDX-License-Identifier: GPL-2.0-or-later
"""The server of ./pib web: access, answers, changes, and the stream."""

import contextlib
import http.client
import json
import pathlib
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

import simulated_fabric
from lab.base import paths, process, ui
from lab.fabric import source, switch_process, topology
from lab.web import access, publish, server, watch

FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"
PATIENCE_S = 60


class Page:
    """A client of a running server."""

    def __init__(self, url: str):
        self.url = url

    def ask(self, what: str, **question) -> dict:
        with urllib.request.urlopen(f"{self.url}{what}?{urllib.parse.urlencode(question)}", timeout=PATIENCE_S) as got:
            return json.load(got)

    def change(self, what: str, body: object, **headers) -> tuple[int, dict]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{what}", data, {"Content-Type": "application/json", **headers})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as got:
                return got.status, json.load(got)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)

    def refusal(self, path: str = "", **headers) -> int:
        request = urllib.request.Request(urllib.parse.urljoin(self.url, path), headers=headers)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=PATIENCE_S).close()
        refused.value.close()
        return refused.value.code


class Stream:
    """Messages of the server, in order."""

    def __init__(self, url: str):
        self.answer = urllib.request.urlopen(f"{url}events", timeout=PATIENCE_S)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_failure) -> None:
        self.answer.close()

    def next(self) -> tuple[str, dict]:
        end = time.monotonic() + PATIENCE_S
        while True:
            line = self.answer.readline().decode()
            assert line and time.monotonic() < end, "the stream has ended, or has comments only"
            if line.startswith("event: "):
                return line[7:].strip(), json.loads(self.answer.readline().decode().removeprefix("data: "))

    def until(self, name: str, good=lambda _data: True):
        """Waits for the first message of this name for which `good` is true."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            got, data = self.next()
            if got == name and good(data):
                return data
        raise AssertionError(f"no such message of {name}")

    def until_both(self, one: str, good_one, other: str, good_other) -> None:
        """Reads on until a good message of each name has come, in any order."""
        wanted = {one: good_one, other: good_other}
        end = time.monotonic() + PATIENCE_S
        while wanted:
            assert time.monotonic() < end, f"no such message of {', '.join(wanted)}"
            got, data = self.next()
            if got in wanted and wanted[got](data):
                del wanted[got]


def served(watcher: watch.Watcher, host: str = "127.0.0.1") -> server.Server:
    running = server.Server((host, 0), watcher)
    watcher.start()
    threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return running


def wait(ready):
    """Polls until the result is true, and returns it."""
    end = time.monotonic() + PATIENCE_S
    while not (found := ready()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


@pytest.fixture(name="tree", scope="module")
def simulated_tree(tmp_path_factory):
    fabric = simulated_fabric.Fabric(topology.load(FILE), {"node1": "vm0", "node16": "vm1"})
    running = simulated_fabric.Process(tmp_path_factory.mktemp("web") / "control", fabric)
    yield running
    running.end()


@pytest.fixture(name="web", scope="module")
def server_of_the_tree(tree):
    net, fabric = tree.fabric.net, tree.fabric
    failure = simulated_fabric.failure(time.time(), fabric.lids["node16"])
    guests = {"vm0": simulated_fabric.guest(net, fabric, "node1", [
                  simulated_fabric.qp(0x41, fabric.lids["node16"], 0x51)], [failure]),
              "vm1": simulated_fabric.guest(net, fabric, "node16", [
                  simulated_fabric.qp(0x51, fabric.lids["node1"], 0x41)]), "vm2": None}
    watcher = watch.Watcher(simulated_fabric.Source(tree, guests), 0.05)
    running = served(watcher)
    wait(lambda: any(node.guest for node in watcher.fabric.nodes.values()) and len(watcher.history.frames) > 1)
    yield running
    running.stop()
    watcher.stop()


@pytest.fixture(name="page")
def client(web) -> Page:
    return Page(web.url)


def link_of(web, text: str) -> str:
    fabric = web.watcher.fabric
    return next(link.id for link in fabric.links.values() if text in fabric.link_name(link))


def node_of(web, name: str) -> str:
    return next(node.id for node in web.watcher.fabric.nodes.values() if node.name == name)


# -- access ---------------------------------------------------------------------------

def test_the_page_and_its_files_are_served(page):
    with urllib.request.urlopen(page.url, timeout=PATIENCE_S) as got:
        text = got.read().decode()
        headers = dict(got.headers)
    assert "default-src 'self'" in headers["Content-Security-Policy"] and headers["Referrer-Policy"] == "no-referrer"
    for name in re.findall(r'(?:src|href)="([^"]+)"', text):
        with urllib.request.urlopen(page.url + name, timeout=PATIENCE_S) as got:
            assert got.status == 200


def test_an_installed_page_names_the_installed_command(page, monkeypatch):
    def served_text(path: str) -> str:
        with urllib.request.urlopen(f"{page.url}{path}", timeout=PATIENCE_S) as got:
            return got.read().decode()
    assert "Is ./pib web running?" in served_text("api.js")
    monkeypatch.setattr(paths, "COMMAND", "pib")
    assert "Is pib web running?" in served_text("api.js")
    status, refused = Page(urllib.parse.urljoin(page.url, "/wrong/")).change("cable", {})
    assert status == 403 and "the address that pib web has printed" in refused["error"]


def test_the_page_imports_its_modules_and_no_others():
    text = "".join(file.read_text() for file in server.PAGE.glob("*.js"))
    assert {"./app.js", *re.findall(r"""\b(?:from|import)\b[ (]*["']([^"'\s]+)["']""", text)} == {
        f"./{file.name}" for file in server.PAGE.glob("*.js")}


def test_the_page_loads_only_its_own_files():
    for file in server.PAGE.iterdir():
        text = file.read_text().replace("http://www.w3.org/", "")
        assert not re.search(r"""https?:|["'(]//\w""", text), file.name


def test_requests_without_the_token_are_refused(web, page):
    token = web.token
    for path in ("/", "/link", f"/{'x' * 32}/", f"/{token[:-1]}/", f"/{token}x/", f"/{token.swapcase()}/events"):
        assert page.refusal(path) == 403
    assert len({access.new_token() for _ in range(100)}) == 100


def test_foreign_host_headers_are_refused(page):
    for name in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::1", "evil.example:80"):
        assert page.refusal(Host=name) == 403
    for name in ("localhost", "127.0.0.1:1", "[::1]:8470", "192.168.3.4"):
        assert access.host_allowed(name)


def test_name_servers_are_queried_only_for_requests_with_the_token(page, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(access.socket, "getfqdn", lambda: asked.append("") or "own.example")
    assert page.refusal("/", Host="evil.example") == 403 and access.host_allowed("localhost:8470") and not asked
    assert access.host_allowed("own.example:1") and page.refusal(Host="evil.example") == 403 and len(asked) == 2


def test_a_page_of_another_site_can_change_nothing(web, page):
    link = link_of(web, "leaf1[1]")
    for origin in ("http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"):
        assert page.change("link", {"link": link, "state": "down"}, Origin=origin)[0] == 403
    assert page.change("link", {"link": link, "state": "down"}, **{"Content-Type": "text/plain"})[0] == 415
    assert not web.watcher.source.process.fabric.pulled


def test_bad_changes_are_refused(web, page):
    link = link_of(web, "leaf1[1]")
    for body in (b"", b"x", b"[]", b"[" * 4000, b"1", {}, {"link": 5, "state": "down"},
                 {"link": "nothing", "state": "down"}, {"link": link}, {"link": link, "state": ["down"]},
                 {"link": link, "state": "down", "end": "c"}, {"link": link, "state": "down", "end": "b"},
                 {"link": link, "state": "down", "end": ["a"]}):
        assert page.change("link", body)[0] == 400
    for faults in (None, [], {"nothing": 1}, {"seed": 1}):
        assert page.change("fault", {"link": link, "set": faults})[0] == 400
    assert page.change("link", b" " * (server.MOST_BODY + 1))[0] == 413
    assert page.change("nothing", {})[0] == 404
    assert not web.watcher.source.process.fabric.pulled


def test_a_wrong_content_length_is_refused(web):
    for length in ("-1", "1e3", "9" * 5000, "², ", ""):
        connection = http.client.HTTPConnection(*web.server_address, timeout=PATIENCE_S)
        connection.putrequest("POST", f"/{web.token}/link")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", length.encode())
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()


def test_unknown_questions_are_refused(web, page):
    for path in ("link", "link?link=x", "switch?node=x", "hca?node=x", "qp?node=x&qpn=y", "moment?at=x",
                 "compare?begin=1", "routes", f"qp?node={node_of(web, 'vm0')}&qpn=inf", "moment?at=nan"):
        assert page.refusal(path) == 400
    assert page.refusal("nothing.js") == 404 and page.refusal("..%2fserver.py") == 404


def answer_of(web, target: str) -> bytes:
    """The first line of the answer to a GET whose target urllib would not send."""
    with socket.create_connection(web.server_address, timeout=PATIENCE_S) as sock, sock.makefile("rb") as got:
        sock.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return got.readline()


def test_targets_that_are_not_paths_are_refused(web, capsys):
    for target in ("http://[/", "http://[::1/x", f"/{web.token}/link?" + "a=b&" * 9):
        assert b" 400 " in answer_of(web, target), target
    assert not capsys.readouterr().err          # no traceback, which any local user could repeat


def test_an_answer_that_fails_is_reported(web, page, monkeypatch):
    def fails(_question):
        raise KeyError("vm0")
    monkeypatch.setitem(web.answers.get, "balance", fails)
    assert page.refusal("balance") == 500


def test_a_list_of_pages_that_is_full_is_reported(web, page):
    streams: list[Stream] = []
    wait(lambda: not web.watcher.hub._streams)      # pylint: disable=protected-access
    try:
        for _ in range(publish.MOST_STREAMS):
            streams.append(Stream(web.url))
            streams[-1].next()
        assert page.refusal("events") == 503
    finally:
        for stream in streams:
            stream.__exit__()
    # The server notices closed pages when it sends the next message.
    wait(lambda: not web.watcher.hub._streams)      # pylint: disable=protected-access


def test_a_server_that_has_ended_answers_no_open_connection(quiet):
    running = served(quiet)
    connection = http.client.HTTPConnection(*running.server_address, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("GET", f"/{running.token}/icon.svg")
        assert connection.getresponse().read()
        running.stop()
        connection.request("GET", f"/{running.token}/icon.svg")
        with pytest.raises(http.client.RemoteDisconnected):
            connection.getresponse()


def test_a_slow_page_loses_its_stream():
    hub = publish.Hub()
    slow, quick = hub.join([]), hub.join([])
    for number in range(publish.MOST_WAITING + 1):
        hub.send("loads", number)
        assert quick.get(PATIENCE_S).startswith(b"event: loads")
    assert not slow.open and quick.open


# -- answers --------------------------------------------------------------------------

def test_a_page_that_opens_when_a_failure_begins_is_told(tmp_path, monkeypatch):
    watcher = watch.Watcher(source.Processes(tmp_path / "none"))
    begun, join = threading.Thread(target=watcher.read_fabric), watcher.hub.join

    def late(first):
        begun.start()
        begun.join(0.5)
        return join(first)
    monkeypatch.setattr(watcher.hub, "join", late)
    stream = watcher.join()
    begun.join()
    told = [stream.waiting.get_nowait() for _ in range(stream.waiting.qsize())]
    assert b"no switch answers there" in told[-1], told


def test_the_stream_begins_with_everything_and_goes_on(web):
    with Stream(web.url) as stream:
        fabric = stream.next()
        assert fabric[0] == "fabric" and len(fabric[1]["nodes"]) == 22 and len(fabric[1]["links"]) == 24
        assert "RETRY_EXC_ERR" in stream.until("events")[0]["text"]
        first = stream.until("loads")["at"]
        assert stream.until("loads")["at"] >= first


def test_a_pulled_cable_is_reported_and_comes_back(web, page):
    link = link_of(web, "leaf2[1]")
    with Stream(web.url) as stream:
        assert page.change("link", {"link": link, "end": "a", "state": "down"})[0] == 200
        stream.until_both("changes", lambda data: any(
            one["id"] == link and not one["cable"] and one["state"] == "Down" for one in data["links"]),
            "events", lambda events: any("the cable was pulled" in one["text"] for one in events))
        assert page.change("link", {"link": link, "state": "up"})[0] == 200
        stream.until("changes", lambda data: any(one["id"] == link and one["cable"] for one in data["links"]))


def test_faults_are_set_at_the_end_that_was_named(web, page):
    fabric = web.watcher.fabric
    link = next(link for link in fabric.links.values() if fabric.nodes[link.b].kind == "switch")
    for end in ("a", "b"):
        assert page.change("fault", {"link": link.id, "end": end, "direction": "in", "set": {"drop": 0.5}})[0] == 200
        found = page.ask("link", link=link.id)["ends"]
        assert found[end]["faults"]["in"]["drop"] == 0.5 and found[end]["faults"]["out"]["drop"] == 0
        assert len(found[end]["vls"]["by_vl"]) == 9
        page.change("fault", {"link": link.id, "end": end, "set": {}})
    assert all(not faults[way]["drop"] for faults in (
        one["faults"] for one in page.ask("link", link=link.id)["ends"].values()) for way in ("in", "out"))


def test_a_switch_has_ports_and_tables(web, page):
    found = page.ask("switch", node=node_of(web, "leaf1"))
    fabric = web.watcher.source.process.fabric
    assert found["lft"] == [[lid, port] for lid, port in sorted(fabric.tables["leaf1"].items())]
    assert len(found["ports"]) == 36 and found["mft"]
    assert [one["port"] for one in found["vls"]] == sorted(fabric.net.nodes["leaf1"].peers)
    assert found["vls"][0]["by_vl"][0]["credits"] == 256 and found["vls"][0]["high_limit"] == 10


def test_an_hca_has_its_objects_and_a_phantom_none(web, page):
    found = page.ask("hca", node=node_of(web, "vm0"))
    assert [qp["qpn"] for qp in found["qps"]["entries"]] == [0x41] and found["cqs"]["count"] == 1
    assert found["failures"][0]["status"] == "IBV_WC_RETRY_EXC_ERR" and found["state"] == "running"
    assert page.refusal(f"hca?node={node_of(web, 'node5')}") == 400


def test_a_qp_has_its_route_and_its_peer(web, page):
    found = page.ask("qp", node=node_of(web, "vm0"), qpn=0x41)
    assert found["complete"] and len(found["there"]) == len(found["back"]) == 4
    assert found["there"][0] == [link_of(web, "vm0[1]"), False] and found["there"][-1] == [link_of(web, "vm1[1]"), True]
    assert (found["peer"]["name"], found["peer"]["qp"]["qpn"]) == ("vm1", 0x51)
    assert [one["opcode"] for one in found["qp"]["requester"]["wqes"]] == ["RDMA_WRITE", "SEND_WITH_IMM"]
    assert found["srq"] is None and [one["counter"] for one in found["qp"]["rq"]["wqes"]] == [3, 4]
    for qpn, cqes in ((0x41, found["cqes"]), (0x51, found["peer"]["cqes"])):
        assert [(one["qpn"], one["counter"], one["age"], one["status"]) for one in cqes] == [
            (qpn, 13, 2.0, "IBV_WC_SUCCESS"), (qpn, 13, 2.0, "IBV_WC_RETRY_EXC_ERR")]
    assert page.ask("qp", node=node_of(web, "vm0"), qpn=7)["qp"] is None
    assert page.refusal(f"qp?node={node_of(web, 'node5')}&qpn=7") == 400


def test_qps_are_found_by_number(web, page):
    vm0, vm1 = node_of(web, "vm0"), node_of(web, "vm1")
    assert page.ask("qps", qpn=0x41) == [{"node": vm0, "name": "vm0", "qpn": 0x41, "type": "RC", "state": "RTS"}]
    assert [one["node"] for one in page.ask("qps", qpn=0x51, guest="VM1")] == [vm1]
    assert page.ask("qps", qpn=0x51, guest="vm0") == page.ask("qps", qpn=9) == []


def test_a_link_that_goes_down_names_the_connections_that_it_cuts(web, page):
    fabric = web.watcher.source.process.fabric
    vm0, lid = node_of(web, "vm0"), fabric.lids["node16"]
    link, out = page.ask("qp", node=vm0, qpn=0x41)["there"][1]
    users = page.ask("link", link=link)["connections"]["entries"]
    assert {"node": vm0, "name": "vm0", "qpn": 0x41, "to": "vm1"} in users
    assert page.ask("link", link=link_of(web, "node5[1]"))["connections"] == {"count": 0, "all": True, "entries": []}
    with Stream(web.url) as stream:
        page.change("link", {"link": link, "end": "a", "state": "down"})
        told = stream.until("events", lambda events: any(one["kind"] == "cut" for one in events))
        cut = next(one for one in told if one["qpn"] == 0x41)
        name = web.watcher.fabric.link_name(web.watcher.fabric.links[link])
        assert cut["text"] == f"vm0 QP 0x41 is cut off from vm1: its packets passed {name}"
        assert (cut["guest"], cut["slot"], cut["about"]) == ("vm0", 0, "vm0:0x41")
        wait(lambda: not page.ask("qp", node=vm0, qpn=0x41)["complete"])
        before = fabric.tables["leaf1"][lid]
        fabric.tables["leaf1"][lid] = next(port for port in (5, 6) if port != before)
        fabric.reroutes["leaf1"] += 1
        told = stream.until("events", lambda events: any(one["kind"] == "mended" for one in events))
        assert "vm0 QP 0x41 has a route to vm1 again, after " in next(
            one["text"] for one in told if one["kind"] == "mended")
    other = page.ask("qp", node=vm0, qpn=0x41)["there"][1]
    assert other[0] != link
    page.change("link", {"link": link, "state": "up"})
    fabric.tables["leaf1"][lid] = before
    fabric.reroutes["leaf1"] += 1
    wait(lambda: [link, out] in page.ask("qp", node=vm0, qpn=0x41)["there"])


def test_packets_of_a_qp_are_recorded(web, page):
    fabric = web.watcher.source.process.fabric
    near, far = fabric.lids["node1"], fabric.lids["node16"]
    fabric.packets = [(100.0, simulated_fabric.packet(near, far, 0x51, 4, 7)),
                      (100.5, simulated_fabric.packet(far, near, 0x41, 17, 7, bytes([0x60, 0, 0, 3])))]
    about = {"node": node_of(web, "vm0"), "qpn": 0x41}
    wait(lambda: page.ask("sequence", **about)["next"] == 2)
    found = page.ask("sequence", **about)
    assert [(one["at"], one["slid"], one["name"], one["psn"], one["answer"]) for one in found["messages"]] == [
        (100.0, near, "RC SEND_ONLY", 7, ""), (100.5, far, "RC ACKNOWLEDGE", 7, "NAK, PSN sequence error")]
    assert (found["lost"], found["missed"], found["lids"]) == (0, 0, [near])
    fabric.packets.append((101.0, simulated_fabric.packet(near, far, 0x51, 4, 8)))
    since = {"began": found["began"], "since": found["next"]}
    wait(lambda: page.ask("sequence", **about, **since)["next"] == 3)
    assert [(one["number"], one["psn"]) for one in page.ask("sequence", **about, **since)["messages"]] == [(2, 8)]
    wanted = next(one["rules"] for one in reversed(fabric.requests) if one["command"] == "capture")
    assert wanted == [{"dlid": near, "qp": 0x41}, {"slid": near, "dlid": far, "qp": 0x51}]
    assert page.refusal(f"sequence?node={node_of(web, 'vm0')}&qpn=9") == 502


def test_a_capture_that_the_switch_refuses_is_reported_without_a_failure(web, page):
    fabric = web.watcher.source.process.fabric
    web.answers.recordings.stop()
    fabric.most_captures = 0
    assert "4 captures run" in page.ask("sequence", node=node_of(web, "vm0"), qpn=0x41)["error"]
    fabric.most_captures = 4
    assert page.ask("sequence", node=node_of(web, "vm0"), qpn=0x41)["next"] >= 0


def test_routes_balance_moments_and_lines_of_why_are_answered(web, page):
    link = link_of(web, "vm0[1]")
    assert page.ask("routes", link=link)["out"] == 15
    balance = page.ask("balance")
    assert [link, True, 15] in balance["links"] and balance["loops"] == []
    now = page.ask("moment", at=time.time())
    assert now["links"][link]["state"] == "Active"
    assert page.ask("compare", begin=now["at"], end=now["at"])["links"] == {}
    assert any("vm0 QP 0x41: RETRY_EXC_ERR, because" in line for line in page.ask("why")["lines"])
    assert "no node" in page.ask("why", about="vm77")["error"]


def test_the_routes_of_an_earlier_moment_are_answered(web, page):
    """A routing engine may have been replaced since."""
    fabric, log = web.watcher.source.process.fabric, web.watcher.routing
    log.note_engine(time.time(), "minhop")
    wait(lambda: len(log.now()) == len(fabric.tables))
    before, first = time.time(), page.ask("balance")
    link, out, _ = max(first["links"], key=lambda one: one[2])
    table = fabric.tables["leaf1"]
    fabric.reroute("leaf1")
    wait(lambda: page.ask("rerouted", begin=before, end=time.time())["switches"])
    log.note_engine(time.time(), "ftree")
    assert page.ask("balance")["links"] != first["links"] and page.ask("balance")["engine"] == "ftree"
    assert page.ask("balance", at=before) == {**first, "engine": "minhop"}
    assert page.ask("routes", link=link, at=before)["out" if out else "in"] == max(one[2] for one in first["links"])
    compared = page.ask("rerouted", begin=before, end=time.time())
    for when, engine in (("before", "minhop"), ("after", "ftree")):
        assert compared[when]["engine"] == engine
        assert len(compared[when]["counts"]) == compared[when]["links"]
    fabric.tables["leaf1"] = table
    fabric.reroutes["leaf1"] += 1


def test_answers_about_the_past_tell_when_present_parts_were_read(web, page):
    fabric, log = web.watcher.source.process.fabric, web.watcher.routing
    leaf, vm0 = node_of(web, "leaf1"), node_of(web, "vm0")
    wait(lambda: log.table(leaf) == fabric.tables["leaf1"])
    first, before, table = web.watcher.guests_at, time.time(), dict(fabric.tables["leaf1"])
    way = page.ask("qp", node=vm0, qpn=0x41)["there"]
    lid, up = fabric.lids["node16"], fabric.tables["leaf1"][fabric.lids["node16"]]
    fabric.tables["leaf1"][lid] = next(port for port in (5, 6) if port != up)
    fabric.reroutes["leaf1"] += 1
    wait(lambda: page.ask("qp", node=vm0, qpn=0x41)["there"] != way)
    past = page.ask("qp", node=vm0, qpn=0x41, at=before)
    assert past["there"] == way and first <= past["read"] <= time.time()
    switch = page.ask("switch", node=leaf, at=before)
    assert dict(switch["lft"]) == table != dict(page.ask("switch", node=leaf)["lft"])
    assert all(first <= page.ask(what, **about)["read"] <= time.time() for what, about in (
        ("switch", {"node": leaf}), ("hca", {"node": vm0}), ("link", {"link": way[0][0]})))
    fabric.tables["leaf1"] = table
    fabric.reroutes["leaf1"] += 1


def test_a_switch_process_that_ends_is_reported_and_found_again(tmp_path):
    fabric = simulated_fabric.Fabric(topology.load(FILE))
    running = simulated_fabric.Process(tmp_path / "control", fabric)
    watcher = watch.Watcher(source.Processes(tmp_path / "control"), 0.05)
    web = served(watcher)
    try:
        with Stream(web.url) as stream:
            stream.until("fabric", lambda data: data["nodes"])
            running.end()
            running.hang_up()
            (tmp_path / "control").unlink()
            assert "no switch answers" in stream.until("trouble", lambda data: "no switch" in data["text"])["text"]
            running = simulated_fabric.Process(tmp_path / "control", fabric)
            stream.until("trouble", lambda data: not data["text"])
    finally:
        web.stop()
        watcher.stop()
        running.end()


# -- the command ------------------------------------------------------------------------

def test_the_page_shows_a_running_switch(tmp_path):
    """./pib web shows a real switch process, pulls a cable of it, and sets faults."""
    running = switch_process.Switch(tmp_path, topology=str(FILE))
    started = process.start(running.argv(), tmp_path / "log", directory=tmp_path, name="switch")
    log = tmp_path / "web.log"
    with open(log, "w") as out:
        process.wait_for("pib-switch", running.answers, started, tmp_path / "log", PATIENCE_S)
        web = subprocess.Popen([paths.ROOT / "pib", "web", "--port", "0", "--control", running.control], stderr=out)
    try:
        url = wait(lambda: re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", log.read_text()))[0]
        page = Page(url)
        with Stream(url) as stream:
            fabric = stream.until("fabric", lambda data: data["nodes"])
            names = {node["id"]: node["name"] for node in fabric["nodes"]}
            assert set(names.values()) == set(topology.load(FILE).nodes)
            link = next(link["id"] for link in fabric["links"] if names[link["a"]] == "leaf1" and link["a_port"] == 1)
            assert page.change("link", {"link": link, "state": "down"})[0] == 200
            stream.until("events", lambda events: any("the cable was pulled" in one["text"] for one in events))
            assert page.change("fault", {"link": link, "set": {"drop": 0.25, "delay_us": 50}})[0] == 200
            stream.until("events", lambda events: any("drop 0.25, delay 50 us" in one["text"] for one in events))
            end = page.ask("link", link=link)["ends"]["a"]
            assert end["faults"]["in"]["drop"] == 0.25 and end["vls"]["by_vl"][0]["queued_packets"] == 0
            status, refused = page.change("fault", {"link": link, "set": {"drop": 2}})
            assert status == 502 and "probability" in refused["error"]
            assert any("the cable was pulled" in line for line in page.ask("why")["lines"])
            assert page.ask("switch", node=next(guid for guid, name in names.items() if name == "leaf1"))["lft"] == []
    finally:
        web.terminate()
        web.wait(PATIENCE_S)
        started.stop()
    assert "Traceback" not in log.read_text()


def test_a_port_that_is_taken_is_reported(web):
    with pytest.raises(ui.LabError, match="--port"):
        server.serve(watch.Watcher(source.Processes(paths.ROOT / "nothing")), *web.server_address)


def pages_of(control: pathlib.Path) -> list[str]:
    """Process ids of the programs that show the switch with this control socket."""
    found = []
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):          # the process has just ended
            words = file.read_bytes().split(b"\0")
            if b"web" in words and str(control).encode() in words:
                found.append(file.parent.name)
    return found


def test_a_switch_starts_its_own_page(tmp_path):
    """pib-switch --http: the address is in a file that only the switch's user can read, and not in the log; only
    requests with the token are answered; the page ends with the switch."""
    running = switch_process.Switch(tmp_path, ("--http", "0"), topology=str(FILE))
    log = tmp_path / "log"
    started = process.start(running.argv(), log, directory=tmp_path, name="switch")
    try:
        file = running.control.with_name(f"{running.control.name}.page")
        wait(lambda: str(file) in log.read_text())
        url = file.read_text().rstrip("\n")
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]+/", url) and file.stat().st_mode & 0o777 == 0o600
        assert url.split("/")[3] not in log.read_text()
        with Stream(url) as stream:
            fabric = stream.until("fabric", lambda data: data["nodes"])
        assert {node["name"] for node in fabric["nodes"]} == set(topology.load(FILE).nodes)
        link = {"link": fabric["links"][0]["id"], "state": "down"}
        other = Page(url.rsplit("/", 2)[0] + "/wrong/")
        assert other.refusal("balance") == 403 and other.change("link", link)[0] == 403
        assert Page(url).change("link", link)[0] == 200
        assert len(pages_of(running.control)) == 1
    finally:
        started.stop()
    wait(lambda: not pages_of(running.control) and not file.exists())
