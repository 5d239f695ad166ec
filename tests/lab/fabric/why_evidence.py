# SPDX-License-Identifier: GPL-2.0-or-later
"""A small fabric with two guests as ./pib why sees it, and functions by which tests change it."""

import time
from collections.abc import Callable

from lab.fabric.evidence import Evidence, Table

NOW = time.mktime((2026, 11, 23, 12, 3, 30, 0, 0, -1))
GUIDS = {"leaf1": 0x11, "leaf2": 0x12, "spine1": 0x21, "spine2": 0x22}
LIDS = {"vm0": 1, "vm1": 2}
GUEST_GUIDS = {"vm0": 0xA0, "vm1": 0xA1}
CABLES = [("leaf1", 1, "spine1", 1), ("leaf1", 2, "spine2", 1), ("leaf2", 1, "spine1", 2), ("leaf2", 2, "spine2", 2),
          ("leaf1", 3, "vm0", 1), ("leaf2", 3, "vm1", 1)]
LFT = {"leaf1": {1: 3, 2: 1}, "leaf2": {1: 1, 2: 3}, "spine1": {1: 1, 2: 2}, "spine2": {1: 1, 2: 2}}
FAILURE = {"kind": "completion", "qpn": 0x41, "queue": "send", "counter": 3, "status": "IBV_WC_RETRY_EXC_ERR",
           "vendor_err": 0, "port": 1, "dlid": 1, "dest_qpn": 0x40, "timeout": 18, "retry_cnt": 7, "rnr_retry": 7}


def at(clock: str) -> float:
    hours, minutes, seconds = map(int, clock.split(":"))
    return time.mktime((2026, 11, 23, hours, minutes, seconds, 0, 0, -1))


def neighbour(node: str, port: int) -> dict:
    guid = GUIDS.get(node) or GUEST_GUIDS[node]
    port_guid = guid if node in GUIDS else guid + 0x100
    return {"node_guid": f"{guid:#018x}", "port_guid": f"{port_guid:#018x}", "port": port, "description": f"{node} x"}


def switch_port(number: int, peer: str, peer_port: int) -> dict:
    return {"port": number, "state": "Active", "phys_state": "LinkUp", "connected": True, "cable": True,
            "faults": False, "neighbour": neighbour(peer, peer_port)}


def switch(name: str) -> dict:
    ports = ([switch_port(b, c, d) for a, b, c, d in CABLES if a == name]
             + [switch_port(d, a, b) for a, b, c, d in CABLES if c == name])
    return {"status": {"switch": {"guid": f"{GUIDS[name]:#018x}", "description": name}, "ports": ports},
            "lft": {"entries": [list(entry) for entry in LFT[name].items()]}, "journal": [], "counters": [],
            "faults": {}}


def qp(number: int, peer: str, peer_number: int, **members) -> dict:
    return {"qpn": number, "type": "RC", "state": "RTS", "dest_qpn": peer_number, "timeout": 18, "retry_cnt": 7,
            "rnr_retry": 7, "path": {"port": 1, "dlid": LIDS[peer]},
            "requester": {"in_window": 0, "retries_left": 7, "rnr_retries_left": 7}, **members}


def guest(name: str, *qps: dict) -> dict:
    port = {"port": 1, "guid": f"{GUEST_GUIDS[name] + 0x100:#x}", "lid": LIDS[name], "lmc": 0, "state": 4}
    return {"state": "running", "hcas": [{"objects": {"ports": {"entries": [port]}, "qps": {"entries": list(qps)}},
                                          "journal": [], "refusals": []}]}


def two_guests() -> Evidence:
    """Two guests at two leaves, with one connection between them. The tables lead over spine1."""
    return Evidence(NOW, {name: switch(name) for name in GUIDS},
                    {"vm0": guest("vm0", qp(0x40, "vm1", 0x41)), "vm1": guest("vm1", qp(0x41, "vm0", 0x40))})


def changes(seen: Evidence, name: str, port: int, *entries: tuple) -> None:
    for clock, change, *detail in entries:
        seen.switches[name]["journal"].append(
            {"at": at(clock), "port": port, "change": change, "times": 1, "detail": detail[0] if detail else ""})


def set_port(seen: Evidence, name: str, number: int, **members) -> None:
    for port in seen.switches[name]["status"]["ports"]:
        if port["port"] == number:
            port.update(members)


def pull(seen: Evidence, name: str, port: int, clock: str = "12:03:09") -> None:
    changes(seen, name, port, (clock, "cable pulled"), (clock, "down"))
    set_port(seen, name, port, state="Down", phys_state="Polling", cable=False)


def fails(seen: Evidence, guest_name: str, clock: str = "12:03:11", **members) -> None:
    seen.guests[guest_name]["hcas"][0]["journal"].append({**FAILURE, "at": at(clock), **members})


def only(lines: list[str], words: str) -> str:
    found = [line for line in lines if words in line]
    assert len(found) == 1, lines
    return found[0]


def port_events(seen: Evidence, guest_name: str, *entries: tuple) -> None:
    seen.guests[guest_name]["hcas"][0]["journal"] += [
        {"kind": "event", "at": at(clock), "event": " ".join(f"IBV_EVENT_{name}" for name in names), "number": 0,
         "data": 0, "port": 1} for clock, *names in entries]


def known_tables(at_: Callable[[float], dict[str, dict[int, int]]]) -> Callable[[float], dict[str, Table]]:
    """The tables by GUID, from those by name."""
    return lambda moment: {f"{GUIDS[name]:#018x}": table for name, table in at_(moment).items()}
