# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib top: QPs, links and guests by load, refreshed in the terminal, or as text once."""

import curses
import sys
import time
from collections.abc import Callable

from lab.base import table, ui
from lab.fabric import cluster
from lab.fabric.load import MIB, Load, Sample, load, sample

INTERVAL_S = 2.0
MOST_INTERVAL_S = 3600
NO_KEY = -1
QUIT = (ord("q"), ord("Q"), 27)
HELP = "q: quit"
Find = Callable[[], cluster.Cluster]


def _number(value: float) -> str:
    return f"{value:.0f}" if value else ""


def _mib(value: float) -> str:
    return f"{value / MIB:.1f}" if value else ""


def _guests(seen: Load, most: int) -> str:
    rows = [[one.name, f"{one.cpu * 100:.0f} %", _number(one.sent), _number(one.received), _number(one.dropped),
             str(one.qps)] for one in seen.guests[:most]]
    return table.table(["guest", "CPU", "packets/s out", "in", "dropped", "QPs"], rows)


def _links(seen: Load, most: int) -> str:
    rows = [[one.name, one.neighbour, one.state, one.rate, _mib(one.bytes_out), _mib(one.bytes_in),
             f"{one.share * 100:.1f} %" if one.share else "", _number(one.waited)] for one in seen.links[:most]]
    return table.table(["link", "to", "state", "width/speed", "MiB/s out", "in", "load", "XmitWait/s"], rows)


def _qps(seen: Load, most: int) -> str:
    rows = [[one.guest, f"{one.qpn:#x}", one.kind, one.state, _number(one.requests), _number(one.receives),
             _number(one.packets), str(one.waiting or ""), one.retries] for one in seen.qps[:most]]
    return table.table(["guest", "QP", "type", "state", "sends/s", "receives/s", "packets/s", "waiting",
                        "retries left"], rows)


def text(seen: Load, lines: int | None = None) -> str:
    """The load as text: guests, then links and QPs. lines: height of the terminal to fit in; None: everything."""
    whole = max(len(seen.guests), len(seen.links), len(seen.qps))
    if lines is None:
        limits = [whole] * 3
    else:
        room = max(lines - 8, 3)                # the headings and two blank lines
        guests = min(len(seen.guests), room // 4 or 1)
        links = min(len(seen.links), (room - guests) // 2)
        limits = [guests, links, room - guests - links]
    return ui.printable("\n\n".join(part(seen, limit) for part, limit in zip((_guests, _links, _qps), limits)))


def _sample(find: Find) -> Sample:
    """A sample of the lab as it is now: guests may have been started anew since the last one."""
    lab = find()
    if not lab.switches() and not lab.nodes():
        raise ui.LabError("nothing runs. Start the lab:  ./pib up")
    return sample(lab)


def once(find: Find, interval_s: float) -> str:
    before = _sample(find)
    time.sleep(interval_s)
    return text(load(before, _sample(find)))


def _draw(screen, seen: Load, interval_s: float) -> None:
    height, width = screen.getmaxyx()
    screen.erase()
    heading = f"pib top   {time.strftime('%H:%M:%S')}   every {interval_s:g} s   {HELP}"
    for row, line in enumerate([heading, *text(seen, height - 1).splitlines()][:height]):
        screen.addnstr(row, 0, line, width - 1, curses.A_BOLD if row == 0 else curses.A_NORMAL)
    screen.refresh()


def _watch(screen, find: Find, interval_s: float) -> None:
    curses.use_default_colors()
    curses.curs_set(0)
    before, seen, due = _sample(find), None, time.monotonic() + interval_s
    screen.addstr(0, 0, f"pib top   the first sample is being taken   {HELP}")
    while True:
        screen.timeout(max(round((due - time.monotonic()) * 1000), 0))
        if (key := screen.getch()) in QUIT:
            return
        # Another key, or a new size of the terminal, takes no sample: rates over a moment would be wrong.
        if key == NO_KEY:
            after = _sample(find)
            before, seen, due = after, load(before, after), time.monotonic() + interval_s
        if seen:
            _draw(screen, seen, interval_s)


def top(find: Find, interval_s: float, only_once: bool) -> None:
    """find: returns the lab as it is now."""
    if not 0 < interval_s <= MOST_INTERVAL_S:       # false for "nan", too
        raise ui.LabError(f"--interval {interval_s:g}: expected seconds, more than 0 and at most {MOST_INTERVAL_S}")
    if only_once or not (sys.stdout and sys.stdout.isatty() and sys.stdin and sys.stdin.isatty()):
        print(once(find, interval_s))
        return
    try:
        curses.wrapper(_watch, find, interval_s)
    except KeyboardInterrupt:
        pass
    except curses.error as error:
        raise ui.LabError(f"this terminal shows no full screen ({error}). Take:  ./pib top --once") from error
