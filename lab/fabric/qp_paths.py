# SPDX-License-Identifier: GPL-2.0-or-later
"""The present paths of connected QPs, beside links that are down: which they cut off, and which may have used them."""

import collections
import dataclasses
import functools
from collections.abc import Iterator

from lab.fabric.causes import Causes, qp_name
from lab.fabric.evidence import Json
from lab.fabric.wiring import HcaPort, Link, Outage

SENDING = ("RTR", "RTS", "SQD")
MOST_NAMED = 4                  # limit of QPs that a line names


@dataclasses.dataclass(frozen=True)
class Path:
    """The links that a QP's packets take to its peer, and those that the answers take back, as far as the forwarding
    tables lead. complete: both ways lead to their end. target: None if no guest has the peer's port."""
    links: list[Link]
    complete: bool
    source: HcaPort
    dlid: int
    target: HcaPort | None

    @property
    def loops_back(self) -> bool:
        """Whether the packets are to the port's own LID: they do not leave the port, which sends them while Active."""
        return self.source.owns(self.dlid)


@dataclasses.dataclass(frozen=True)
class Present:
    """A present outage, and in words what it means for a QP."""
    is_on_path: bool
    link: Link
    outage: Outage
    words: str


def _some(names: list[str], singular: str, plural: str) -> str:
    """The number of QPs, a word about them, and their names."""
    more = ", …" if len(names) > MOST_NAMED else ""
    count = f"1 QP {singular}" if len(names) == 1 else f"{len(names)} QPs {plural}"
    return f"; {count} ({', '.join(names[:MOST_NAMED])}{more})" if names else ""


class QpPaths:
    def __init__(self, causes: Causes):
        self.causes, self.wiring = causes, causes.wiring
        self._paths: dict[tuple[HcaPort, int], Path] = {}      # by source and DLID

    def path(self, guest: str, qp: Json) -> Path | None:
        """None: the QP is not connected, or its port is not known."""
        if qp["state"] not in SENDING or not qp.get("path", {}).get("dlid"):
            return None
        source = self.causes.source(guest, qp["path"]["port"])
        return self._between(source, qp["path"]["dlid"]) if source else None

    def _between(self, source: HcaPort, dlid: int) -> Path:
        if (source, dlid) not in self._paths:
            target = self.wiring.port_of_lid(dlid)
            there, back = self.wiring.route(source, dlid), self.wiring.route(target, source.lid) if target else []
            ends = [self.wiring.host_link(port) for port in (source, target) if port]
            complete = target is not None and all(link and link in there and link in back for link in ends)
            links = list(dict.fromkeys([*there, *back, *(link for link in ends if link)]))
            self._paths[source, dlid] = Path(links, complete, source, dlid, target)
        return self._paths[source, dlid]

    def _users(self) -> Iterator[tuple[Path, list[str]]]:
        """Each path of connected QPs, with their names."""
        found: dict[int, tuple[Path, list[str]]] = {}
        for guest in self.causes.evidence.guests:
            for qpn, qp in self.causes.qps(guest).items():
                if path := self.path(guest, qp):
                    found.setdefault(id(path), (path, []))[1].append(qp_name(guest, qpn))
        yield from found.values()

    @functools.cached_property
    def _by_link(self) -> dict[Link, tuple[list[str], list[str]]]:
        """For each link that is down, names of the QPs that it cuts off, and of those that may have used it."""
        down = {link: outage for link, outage in self.wiring.present() if outage.down}
        found: dict[Link, tuple[list[str], list[str]]] = collections.defaultdict(lambda: ([], []))
        for path, names in self._users() if down else ():
            cut = [link for link in down if link in path.links]
            for link in cut:
                found[link][0].extend(names)
            if path.complete and not cut and path.target:
                for link, outage in down.items():
                    if self.wiring.is_on_shortest(link, path.source.guest, path.target.guest) and \
                            self.causes.used(link, path.source, path.dlid, outage.begin) is not False:
                        found[link][1].extend(names)
        return found

    def survived(self, link: Link) -> str:
        """Words that follow the outage of a link: the QPs that it cuts off, and the QPs that may have used the link and
        have other paths now. The link is on a shortest path between the ports of the latter."""
        cut, around = self._by_link.get(link, ([], []))
        return _some(cut, "is cut off by it", "are cut off by it") + _some(
            around, "may have used it and has another path now", "may have used it and have other paths now")

    def about(self, guest: str, qp: Json) -> list[Present]:
        """Tells what each link that is down, and faults on the QP's path, mean for the QP. Those on its path come
        first, then the newest."""
        path, found, name = self.path(guest, qp), [], qp_name(guest, qp["qpn"])
        for link, outage in self.wiring.present():
            if path and link in path.links and (outage.down or not path.loops_back):
                found.append(Present(True, link, outage, f"{name} sends to its own port, which needs the link to be "
                                     "Active" if path.loops_back else f"the path of {name} passes it"))
            elif outage.down:
                found.append(Present(False, link, outage, _beside(name, qp, path)))
        return sorted(found, key=lambda one: (not one.is_on_path, -one.outage.begin))


def _beside(name: str, qp: Json, path: Path | None) -> str:
    """Words that tell what a link that is down means for a QP whose path does not pass it."""
    if path and not path.complete and path.target:
        return f"{name} has no complete path now: the forwarding tables do not lead to {path.target.guest} and back"
    if path:
        return f"the path of {name} does not pass it now"
    return f"{name} has no path of its own" if "path" not in qp else f"{name} is in {qp['state']} and has no path"
