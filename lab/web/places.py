# SPDX-License-Identifier: GPL-2.0-or-later
"""Computes, with Graphviz, the places on the map for the switches of fabrics other than trees. The page itself places
trees, in rows by level."""

import subprocess

from lab.web.model import Fabric

# Numbers of switches: the page itself places fewer than LEAST; sfdp, which is faster than neato, places more than
# MOST_EXACT.
LEAST, MOST_EXACT = 7, 200
TIMEOUT_S = 60
# Size of a switch's box in inches. Boxes do not overlap. A layout is about as wide as high in inches; in units of this
# box it has about the shape of a window.
WIDTH, HEIGHT = 0.8, 1.0
HEAD = ("graph fabric { overlap=prism; overlap_scaling=-1; "
        f"node [shape=box, fixedsize=true, width={WIDTH}, height={HEIGHT}];")

Wiring = tuple[tuple[str, ...], frozenset[tuple[str, str]]]     # GUIDs of switches, and pairs of linked switches
Found = dict[str, tuple[float, float]]


def wiring(fabric: Fabric) -> Wiring | None:
    """The wiring of the switches; None for a tree, or for few switches."""
    switches = sorted(guid for guid, node in fabric.nodes.items() if node.kind == "switch")
    links = frozenset((min(link.a, link.b), max(link.a, link.b)) for link in fabric.links.values()
                      if fabric.nodes[link.b].kind == "switch" and link.a != link.b)
    flat = links and all(fabric.nodes[guid].level == 1 for guid in switches)
    return (tuple(switches), links) if flat and len(switches) >= LEAST else None


def _graph(of: Wiring) -> str:
    """The wiring in Graphviz's language, with switches as numbers."""
    switches, links = of
    numbers = {guid: number for number, guid in enumerate(switches)}
    edges = sorted((numbers[one], numbers[other]) for one, other in links)
    return " ".join([HEAD, *(f"{number};" for number in numbers.values()),
                     *(f"{one} -- {other};" for one, other in edges), "}\n"])


def _places(of: Wiring) -> Found:
    """Places in units of a switch's width and height. Without Graphviz {}: then the page places switches in a grid."""
    switches, _links = of
    program = "neato" if len(switches) <= MOST_EXACT else "sfdp"
    try:
        done = subprocess.run([program, "-Tplain"], input=_graph(of), capture_output=True, text=True, check=True,
                              timeout=TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = (line.split() for line in done.stdout.splitlines() if line.startswith("node "))
    return {switches[int(number)]: (float(x) / WIDTH, -float(y) / HEIGHT)
            for _node, number, x, y in (row[:4] for row in rows)}


class Places:
    """Keeps the places while the wiring does not change."""

    def __init__(self) -> None:
        self._of: Wiring | None = None
        self._found: Found = {}

    def give(self, fabric: Fabric) -> None:
        """Sets x and y of the switches."""
        of = wiring(fabric)
        if of != self._of:
            self._of, self._found = of, _places(of) if of else {}
        for guid, (x, y) in self._found.items():
            fabric.nodes[guid].x, fabric.nodes[guid].y = x, y
