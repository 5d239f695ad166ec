# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws fabric.svg, the picture in README.md:  python3 docs/images/fabric.py"""

import pathlib
from xml.sax.saxutils import escape

SVG = pathlib.Path(__file__).with_suffix(".svg")
WIDTH, HEIGHT = 860, 430
# The picture has a background of its own, for light and dark pages.
STYLE = """
text { font: 14px "DejaVu Sans", Verdana, sans-serif; fill: #1c2733 }
.small { font-size: 12px; fill: #4a5a6a }
.name { font-weight: bold }
.white { fill: #fff; font-weight: bold }
.mono { font-family: "DejaVu Sans Mono", monospace; font-size: 13px }
.page { fill: #f7f9fb }
.machine { fill: #fff; stroke: #8fa1b3; stroke-width: 1.5 }
.stock { fill: #e4eaf0; stroke: #b5c2ce }
.ours { fill: #cfe6dc; stroke: #4f9a7c }
.device { fill: #2f7d5d; stroke: #1f5a42 }
.link { stroke: #2f7d5d; stroke-width: 3; fill: none }
.trunk { stroke: #4a5a6a; stroke-width: 2; stroke-dasharray: 7 4; fill: none }
.host { fill: none; stroke: #b5c2ce; stroke-dasharray: 3 4 }
"""
LAYERS = (                              # layers of a guest, from above: text, class of the box, class of the text
    ("opensm, ibnetdiscover, …", "stock", ""),
    ("ib_write_bw, your program", "stock", ""),
    ("libibverbs + libpib", "ours", "mono"),
    ("pib_hca.ko", "ours", "mono"),
    ("-device pib-hca", "device", "white mono"),
)
GUEST_W, LAYER_H, GAP = 236, 30, 6
TOP = 46


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def box(x: float, y: float, w: float, h: float, kind: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" class="{kind}"/>'


def guest(x: float, name: str, layers: tuple) -> list[str]:
    height = 40 + len(layers) * (LAYER_H + GAP)
    parts = [box(x, TOP, GUEST_W, height, "machine"),
             text(x + 12, TOP + 22, name, "name", "start"),
             text(x + GUEST_W - 12, TOP + 22, "QEMU", "small", "end")]
    for number, (words, kind, letters) in enumerate(layers):
        y = TOP + 34 + number * (LAYER_H + GAP)
        parts += [box(x + 10, y, GUEST_W - 20, LAYER_H, kind),
                  text(x + GUEST_W / 2, y + 20, words, letters)]
    return parts


def line(points: str, kind: str) -> str:
    return f'<polyline points="{points}" class="{kind}"/>'


def picture() -> str:
    bottom = TOP + 34 + len(LAYERS) * (LAYER_H + GAP) - GAP
    below = bottom + 64
    first, second, third = 30, 30 + GUEST_W + 24, WIDTH - GUEST_W - 40
    centers = [x + GUEST_W / 2 for x in (first, second, third)]
    parts = [box(0, 0, WIDTH, HEIGHT, "page"),
             box(14, 14, second + GUEST_W + 2, HEIGHT - 28, "host"),
             text(26, 34, "a laptop, or a CI runner", "small", "start"),
             box(third - 16, 14, GUEST_W + 42, HEIGHT - 28, "host"),
             text(third - 4, 34, "another host, if you like", "small", "start"),
             *guest(first, "vm0", LAYERS), *guest(second, "vm1", LAYERS[1:]),
             *guest(third, "vm2", LAYERS[1:])]
    ends = [bottom, bottom - LAYER_H - GAP, bottom - LAYER_H - GAP]
    parts += [line(f"{center},{end} {center},{below}", "link") for center, end in zip(centers, ends)]
    parts += [text((centers[0] + centers[1]) / 2, below - 22, "InfiniBand links: LRH, credits, VLs,", "small"),
              text((centers[0] + centers[1]) / 2, below - 7, "in shared memory", "small")]
    for x, w, words in ((first, second + GUEST_W - first, "pib-switch: ports, LFT, SMA, faults, captures"),
                        (third, GUEST_W, "pib-switch")):
        parts += [box(x, below, w, 44, "device"), text(x + w / 2, below + 27, words, "white mono")]
    parts += [line(f"{second + GUEST_W},{below + 22} {third},{below + 22}", "trunk"),
              box((second + GUEST_W + third) / 2 - 48, below + 52, 96, 20, "page"),
              text((second + GUEST_W + third) / 2, below + 66, "trunk, by TLS", "small"),
              text(first, HEIGHT - 28, "green: pib-hca", "small", "start"),
              text(first + 110, HEIGHT - 28, "grey: what Debian has, unmodified", "small", "start")]
    body = "\n".join(parts)
    return ("<!-- SPDX-License-Identifier: GPL-2.0-or-later -->\n"
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'aria-label="Virtual machines with an emulated InfiniBand adapter, joined by a software switch">\n'
            "<!-- Drawn by fabric.py. -->\n"
            f"<style>{STYLE}</style>\n{body}\n</svg>\n")


if __name__ == "__main__":
    SVG.write_text(picture())
