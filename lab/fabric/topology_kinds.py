# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib topology: writes topology files of common kinds of fabrics."""

import inspect
import itertools
from collections.abc import Callable

from lab.base import ui
from lab.fabric import topology

MOST_PORTS = 36
WIDTHS = ("1x", "2x", "4x", "8x", "12x")
SPEEDS = ("SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR")     # pib-switch passes over other words
DEFAULT_SPEED = "4xEDR"
LICENCE = "SPDX-License-Identifier: " + "GPL-2.0-or-later"


def _host(net: topology.Net) -> topology.Node:
    return net.host(f"node{net.made['Ca'] + 1}")


def _with_hosts(net: topology.Net, switch: topology.Node, hosts: int) -> None:
    for _ in range(hosts):
        net.link(switch, _host(net))


def _times(count: int, net: topology.Net, one: topology.Node, other: topology.Node) -> None:
    for _ in range(count):
        net.link(one, other)


def single(net, hosts=16):
    """one switch"""
    _with_hosts(net, net.switch("switch1", MOST_PORTS), hosts)


def pair(net, hosts=8, trunks=2):
    """two joined switches; each host has a port at both"""
    switches = [net.switch(f"switch{i}", MOST_PORTS) for i in (1, 2)]
    for number in range(hosts):
        host = net.host(f"node{number + 1}", 2)
        for port, switch in enumerate(switches, 1):
            net.link(switch, host, (number + 1, port))
    _times(trunks, net, *switches)


def line(net, switches=4, hosts=2):
    """switches in a row"""
    chain = [net.switch(f"switch{i + 1}", 8) for i in range(switches)]
    for switch in chain:
        _with_hosts(net, switch, hosts)
    for one, other in itertools.pairwise(chain):
        net.link(one, other)


def star(net, leaves=6, hosts=4, trunks=2):
    """leaf switches around one in the middle"""
    middle = net.switch("middle", MOST_PORTS)
    for number in range(leaves):
        leaf = net.switch(f"leaf{number + 1}", 24)
        _with_hosts(net, leaf, hosts)
        _times(trunks, net, leaf, middle)


def fat_tree(net, leaves=4, spines=2, hosts=4, links=1):
    """two levels: every leaf is joined to every spine"""
    below = [net.switch(f"leaf{i + 1}", MOST_PORTS) for i in range(leaves)]
    above = [net.switch(f"spine{i + 1}", MOST_PORTS) for i in range(spines)]
    for leaf in below:
        _with_hosts(net, leaf, hosts)
    for leaf, spine in itertools.product(below, above):
        _times(links, net, leaf, spine)


def fat_tree_3(net, pods=6, leaves=6, middles=6, cores=3, hosts=18, up=3, links=6):
    """three levels: pods of leaf and middle switches, and core switches; the cores of a middle switch are joined to the
    middle switch with the same number in all pods. up: links from a leaf to a middle switch; links: from a middle
    switch to a core. The default has 648 hosts and full bisection bandwidth"""
    tops = [[net.switch(f"core{group + 1}-{i + 1}", MOST_PORTS) for i in range(cores)]
            for group in range(middles)]
    for pod in range(pods):
        below = [net.switch(f"pod{pod + 1}-leaf{i + 1}", MOST_PORTS) for i in range(leaves)]
        middle = [net.switch(f"pod{pod + 1}-middle{i + 1}", MOST_PORTS) for i in range(middles)]
        for leaf in below:
            _with_hosts(net, leaf, hosts)
        for leaf, aggregate in itertools.product(below, middle):
            _times(up, net, leaf, aggregate)
        for aggregate, top in zip(middle, tops):
            for core in top:
                _times(links, net, aggregate, core)


def _grid(net, sizes, hosts, wraps):
    at = {}
    for place in itertools.product(*map(range, sizes)):
        at[place] = net.switch("switch-" + "-".join(map(str, place)), 2 * len(sizes) + hosts)
    for place, switch in at.items():
        for axis, size in enumerate(sizes):
            if size > 1 and (place[axis] + 1 < size or wraps):
                beyond = list(place)
                beyond[axis] = (place[axis] + 1) % size
                # Ports 1 and 2 are the two directions of the first axis, and so on.
                net.link(switch, at[tuple(beyond)], (2 * axis + 1, 2 * axis + 2))
    for switch in at.values():
        for number in range(hosts):
            net.link(switch, _host(net), (2 * len(sizes) + 1 + number, 1))


def mesh(net, x=4, y=4, hosts=1):
    """a grid in two dimensions"""
    _grid(net, (x, y), hosts, wraps=False)


def torus_2d(net, x=4, y=4, hosts=2):
    """a grid in two dimensions whose opposite edges are joined"""
    _grid(net, (x, y), hosts, wraps=True)


def torus_3d(net, x=4, y=4, z=4, hosts=1):
    """the same in three dimensions"""
    _grid(net, (x, y, z), hosts, wraps=True)


def ring(net, switches=8, hosts=2):
    """switches in a circle"""
    _grid(net, (switches,), hosts, wraps=True)


def hypercube(net, dimensions=4, hosts=1):
    """each switch is joined to those whose number differs in one bit"""
    switches = [net.switch(f"switch{i}", dimensions + hosts) for i in range(1 << dimensions)]
    for number, bit in itertools.product(range(1 << dimensions), range(dimensions)):
        if not number >> bit & 1:
            net.link(switches[number], switches[number | 1 << bit], (bit + 1, bit + 1))
    for switch in switches:
        _with_hosts(net, switch, hosts)


def dragonfly(net, groups=9, routers=4, globals=2, hosts=2):  # pylint: disable=redefined-builtin
    """groups of switches, all joined within a group; one link between any two groups"""
    if groups > routers * globals + 1:
        raise ui.LabError(f"{routers} routers with {globals} links each reach "
                          f"{routers * globals} other groups, not {groups - 1}: take fewer groups, or more links or "
                          "routers")
    net.check_room(groups * routers * (1 + hosts))
    ports = routers - 1 + globals + hosts
    at = [[net.switch(f"group{g + 1}-router{r + 1}", ports) for r in range(routers)]
          for g in range(groups)]
    for group in at:
        for switch in group:
            _with_hosts(net, switch, hosts)
        for one, other in itertools.combinations(group, 2):
            net.link(one, other)
    for one, other in itertools.combinations(range(groups), 2):
        # The link to the k-th other group starts at router k / globals.
        net.link(at[one][(other - 1) // globals], at[other][one // globals])


KINDS: dict[str, Callable[..., None]] = {
    "single": single, "pair": pair, "line": line, "star": star, "fat-tree": fat_tree,
    "fat-tree-3": fat_tree_3, "mesh": mesh, "torus-2d": torus_2d, "torus-3d": torus_3d,
    "ring": ring, "hypercube": hypercube, "dragonfly": dragonfly,
}


def usage() -> str:
    """A line of help for each kind."""
    lines = []
    for name, kind in KINDS.items():
        settings = " ".join(f"{key}={value.default}" for key, value
                            in list(inspect.signature(kind).parameters.items())[1:])
        lines.append(f"  {name:12} {' '.join((kind.__doc__ or '').split())}\n{'':15}{settings}")
    return "\n".join(lines)


def _check_speed(speed: str) -> None:
    if speed not in (width + name for width in WIDTHS for name in SPEEDS):
        raise ui.LabError(f"--speed {speed}: expected a width and a speed, such as {DEFAULT_SPEED}; widths are "
                          f"{', '.join(WIDTHS)}, speeds {', '.join(SPEEDS)}")


def make(kind: str, settings: list[str], speed: str) -> str:
    """The text of a topology file; settings are NAME=NUMBER."""
    if kind not in KINDS:
        raise ui.LabError(f"no such kind of topology: {kind}. There are:\n{usage()}")
    _check_speed(speed)
    known = list(inspect.signature(KINDS[kind]).parameters)[1:]
    values = {}
    for setting in settings:
        name, _, number = setting.partition("=")
        if (name not in known or not number.isdecimal() or len(number) > len(str(topology.MOST_NODES))
                or not 1 <= int(number) <= topology.MOST_NODES):
            raise ui.LabError(f"{setting}: expected NAME=NUMBER, NAME one of {', '.join(known)}, NUMBER 1 to "
                              f"{topology.MOST_NODES}")
        values[name] = int(number)
    net = topology.Net(speed)
    KINDS[kind](net, **values)
    chosen = [] if speed == DEFAULT_SPEED else ["--speed", speed]
    words = " ".join(["./pib topology", *chosen, kind, *settings])
    text = net.text(f"{LICENCE}\nhosts: {len(net.hosts())}, switches: {len(net.switches())}; made by\n"
                    f"    {words}")
    if len(text) > topology.MOST_BYTES:
        raise ui.LabError(f"the file would have {len(text) >> 20} MiB, and pib-switch reads at most "
                          f"{topology.MOST_BYTES >> 20}: take fewer links")
    return text
