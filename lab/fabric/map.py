# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib map: the running fabric as text, or drawn by Graphviz."""

import contextlib
import pathlib
import subprocess
import time
from collections.abc import Iterable

from lab.base import table, ui
from lab.fabric import control

MIB = 1 << 20
INTERVAL_S = 1.0                # interval between the two samples of traffic
LARGE = 120                     # a fabric with more nodes is not drawn in layers, which would be too wide
COLOURS = {"Active": "#2a9d4a", "Armed": "#e0a100", "Initialize": "#e0a100"}
DOWN = "#c43131"

Traffic = dict[frozenset[control.End], float]       # bytes per second, the sum of both directions


def look(paths: Iterable[pathlib.Path], interval_s: float = INTERVAL_S) -> tuple[control.Picture, Traffic]:
    """The fabric and its traffic. paths: control sockets of all switch processes."""
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(control.Control(path)) for path in paths]
        before, began = control.picture(*processes), time.monotonic()
        time.sleep(interval_s)
        after, passed = control.picture(*processes), time.monotonic() - began
    return after, traffic(before, after, passed)


def traffic(before: control.Picture, after: control.Picture, seconds: float) -> Traffic:
    """Rates between two samples. Counters of a new link, and of a link that was reset meanwhile, count from 0."""
    rates = {}
    for ends, link in after.links.items():
        earlier = before.links.get(ends)
        moved = link.bytes - (earlier.bytes if earlier else 0)
        rates[ends] = (moved if moved >= 0 else link.bytes) / seconds
    return rates


def _megabytes(rate: float) -> str:
    return f"{rate / MIB:.1f} MiB/s" if rate else ""


# -- text -------------------------------------------------------------------

def text(picture: control.Picture, rates: Traffic) -> str:
    """The fabric as text: a table for each switch."""
    parts, links = [], picture.links_by_node()
    for node in picture.nodes.values():
        if node.kind != "switch":
            continue
        rows = []
        for port, end, link in links[node.guid]:
            peer = picture.nodes[end.guid]
            line = "────" if link.state == "Active" else "╌╌╌╌" if link.rate else "    "
            rows.append([f"[{port}]", line, f"{peer.name}[{end.port}]",
                         str(peer.lid or ""), link.state, link.rate,
                         _megabytes(rates[frozenset({link.a, link.b})])])
        heading = ["port", "", "neighbour", "LID", "state", "width/speed", "traffic"]
        parts.append(f"{node.name}   LID {node.lid}\n" + table.table(heading, rows))
    return "\n\n".join(parts) + "\n"


# -- drawing ----------------------------------------------------------------

def _quoted(words: str) -> str:
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _node(node: control.Node) -> str:
    shape = "box, style=filled, fillcolor=\"#dce6f5\"" if node.kind == "switch" else "ellipse"
    label = _quoted(node.name + (f"\nLID {node.lid}" if node.lid else "")).replace("\n", "\\n")
    return f"  {_quoted(node.guid)} [label={label}, shape={shape}, tooltip={_quoted(node.guid)}];"


def heights(picture: control.Picture) -> dict[str, int]:
    """Number of links from each node to the nearest host, by GUID; 0: there is no path."""
    found = {guid: 0 for guid, node in picture.nodes.items() if node.kind == "host"}
    layer, links = list(found), picture.links_by_node()
    while layer:
        around = {end.guid for guid in layer for _, end, _ in links[guid]} - set(found)
        found |= {guid: found[layer[0]] + 1 for guid in around}
        layer = list(around)
    return {guid: found.get(guid, 0) for guid in picture.nodes}


def _edge(link: control.Link, rate: float, busiest: float, height: dict[str, int]) -> str:
    """An edge in Graphviz's language. The higher node comes first: Graphviz places an edge's first end above."""
    upper, lower = sorted((link.a.guid, link.b.guid), key=lambda guid: -height[guid])
    width = 1 + (5 * rate / busiest if busiest else 0)
    style = "" if link.rate else ", style=dashed"
    about = f"[{link.a.port}] to [{link.b.port}], {link.state} {link.rate} {_megabytes(rate)}".strip()
    label = f", label={_quoted(_megabytes(rate))}" if rate > MIB else ""
    return (f"  {_quoted(upper)} -- {_quoted(lower)} "
            f"[color=\"{COLOURS.get(link.state, DOWN)}\", penwidth={width:.1f}{style}{label}, "
            f"edgetooltip={_quoted(about)}];")


def dot(picture: control.Picture, rates: Traffic) -> str:
    """The fabric as a graph in Graphviz's language."""
    busiest = max(rates.values(), default=0)
    layout = "sfdp" if len(picture.nodes) > LARGE else "dot"
    lines = ["graph fabric {", f"  layout={layout}; overlap=prism; ranksep=1.2;",
             "  node [fontname=\"sans-serif\", fontsize=11]; edge [fontname=\"sans-serif\", fontsize=9];"]
    lines += map(_node, picture.nodes.values())
    height = heights(picture)
    lines += [_edge(link, rates[ends], busiest, height) for ends, link in picture.links.items()]
    return "\n".join([*lines, "}", ""])


def draw(picture: control.Picture, rates: Traffic, path: pathlib.Path) -> None:
    try:
        done = subprocess.run(["dot", "-Tsvg"], input=dot(picture, rates), capture_output=True,
                              text=True, check=False)
    except FileNotFoundError as error:
        raise ui.LabError("dot is not installed. Run as root:  apt-get install graphviz") from error
    if done.returncode:
        raise ui.LabError(f"dot: {done.stderr.strip()}. The map as text:  ./pib map")
    path.write_text(done.stdout)
