# SPDX-License-Identifier: GPL-2.0-or-later
"""Saves a guest's IPoIB interfaces and routes before its driver is unloaded, and restores them afterwards."""

import dataclasses
import json
import shlex

from lab.guests.guest import Guest

# LOOK saves the interfaces in a file of the guest. While the driver has registered no InfiniBand device, there are no
# interfaces, and LOOK prints the saved ones. Soft-RoCE devices, whose link layer is Ethernet, have none and stay.
SAVED = "/run/lab/ipoib"
DEVICES = "$(grep -ls InfiniBand /sys/class/infiniband/*/ports/*/link_layer)"
# The routes that a command or a network manager has made follow the line of their family.
ROUTES = ("for family in 4 6; do echo $family; for maker in boot static; do ip -j -$family route show proto $maker; "
          "done; done")
LOOK = (f'mkdir -p /run/lab; [ -z "{DEVICES}" ] || {{ ip -j -d addr show type ipoib; {ROUTES}; }} >{SAVED}; '
        f"cat {SAVED} 2>/dev/null; true")
IF_ANY = f'[ "{DEVICES}" ] || exit 0; '
FAMILIES = ("4", "6")
WAIT_S = 10                     # limit until an interface appears, which may be later than the HCA


@dataclasses.dataclass(frozen=True)
class Interface:
    """An IPoIB interface. parent: name of the parent of an interface that a command made for another P_Key; else "".
    """
    name: str
    up: bool
    mtu: int
    mode: str
    parent: str
    pkey: str
    addresses: tuple[str, ...]


def parse(text: str) -> tuple[list[Interface], list[dict]]:
    """Interfaces and routes in the output of LOOK. Each route has the member "family", "4" or "6"."""
    family, interfaces, routes = "", [], []
    for line in text.splitlines():
        if line in FAMILIES:
            family = line
        elif family:
            routes += [{**route, "family": family} for route in json.loads(line or "[]")]
        else:
            interfaces += [_interface(link) for link in json.loads(line or "[]") if link]
    return interfaces, routes


def _interface(link: dict) -> Interface:
    data = link.get("linkinfo", {}).get("info_data", {})
    addresses = tuple(f"{found['local']}/{found['prefixlen']}" for found in link.get("addr_info", [])
                      if not found.get("dynamic") and found.get("scope") != "link")
    return Interface(link["ifname"], "UP" in link["flags"], link["mtu"], data.get("mode", ""), link.get("link", ""),
                     data.get("pkey", ""), addresses)


def commands(interfaces: list[Interface], routes: list[dict]) -> list[str]:
    """Shell commands for the guest that restore interfaces and routes."""
    lines = [line for found in sorted(interfaces, key=lambda one: bool(one.parent)) for line in _restore(found)]
    names = {found.name for found in interfaces}
    return lines + [_route(route) for route in routes if route.get("dev") in names]


def _restore(found: Interface) -> list[str]:
    name = shlex.quote(found.name)
    if found.parent:
        lines = [f"[ -e /sys/class/net/{name} ] || "
                 f"ip link add link {shlex.quote(found.parent)} name {name} type ipoib pkey {shlex.quote(found.pkey)}"]
    else:
        lines = [f"timeout {WAIT_S} sh -c 'until [ -e /sys/class/net/{name} ]; do sleep 0.1; done'"]
    if found.mode:
        lines.append(f"ip link set {name} type ipoib mode {shlex.quote(found.mode)}")
    lines.append(f"ip link set {name} mtu {found.mtu}" + (" up" if found.up else ""))
    return lines + [f"ip addr replace {address} dev {name}" for address in found.addresses]


def _route(route: dict) -> str:
    words = ["ip", f"-{route['family']}", "route", "replace", route["dst"]]
    for word, member in (("via", "gateway"), ("dev", "dev"), ("src", "prefsrc"), ("metric", "metric")):
        if member in route:
            words += [word, str(route[member])]
    return shlex.join(words + [flag for flag in route.get("flags", []) if flag == "onlink"])


def look(node: Guest) -> tuple[list[Interface], list[dict]]:
    return parse(node.run([LOOK]).stdout.decode())


def restore(node: Guest, interfaces: list[Interface], routes: list[dict]) -> str:
    """Restores interfaces and routes; returns the commands' error output. Does nothing without an InfiniBand device."""
    lines = commands(interfaces, routes)
    done = node.run([IF_ANY + "; ".join(lines)]) if lines else None
    return (done.stdout + done.stderr).decode(errors="replace").strip() if done else ""
