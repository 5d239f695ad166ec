# SPDX-License-Identifier: GPL-2.0-or-later
"""The subnet of a running lab: reads the ports, starts the subnet manager, waits until ports are Active."""

import concurrent.futures
import dataclasses
import pathlib
import re
import subprocess
from typing import Callable

from lab.base import ui, waiting
from lab.fabric import cluster, sm_log, sm_steps, subnet_progress, topology
from lab.guests.guest import Guest, answers

WAIT_S = 300                    # reached only by a hang
WAIT_EACH_S = 30                # additional time for each guest, because guests share the host's processors
NODE_S = 0.1                    # additional time for each node of the fabric: the subnet manager computes routes
SWEEP_S = 120                   # limit from the last progress to SUBNET UP, which a faulty fabric may delay
POLL_S = 0.2
SWEEP_POLL_S = 0.5
LOOK_S = 120
ALONE_S = 20                    # wait after which a guest whose ports are not Active may have no subnet manager
# A line of the guests' program `ports`. The last fields are empty if the port goes meanwhile.
PORT = re.compile(r"([^|]+)\|([0-9]{1,5})\|([^|]*)\|([0-9]{1,10})\|([0-9]{1,10})\|([^|]*)\|([^|]*)\|([^|]*)")
RATE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?(?= )")


@dataclasses.dataclass(frozen=True)
class Port:
    """An InfiniBand port, from its guest's sysfs."""
    node: str
    device: str
    number: int
    guid: str
    lid: int
    sm_lid: int
    state: str                  # as in sysfs: DOWN, INIT, ARMED, ACTIVE
    physical: str               # LinkUp, Polling, Disabled, …
    rate: str                   # for example "100 Gb/sec (4X EDR)"

    @property
    def connected(self) -> bool:
        return self.physical == "LinkUp"

    @property
    def gbit_s(self) -> float:
        """The rate; 0 if it is not known."""
        found = RATE.match(self.rate)
        return float(found[0]) if found else 0


def ports_of(node: Guest, timeout_s: float = LOOK_S) -> list[Port]:
    """The ports of a guest. Its output is untrusted, as all output of guests."""
    found = []
    said = node.run(["/usr/local/lib/lab/ports"], timeout_s=timeout_s).stdout.decode(errors="replace")
    for line in ui.printable(said).splitlines():
        if not (fields := PORT.fullmatch(line)):
            raise ui.LabError(f"{node.name}: its list of ports has a line that is not a port: {line[:100]}. Start the "
                              f"guest anew:  ./pib reboot {node.name}")
        device, number, guid, lid, sm_lid, state, physical, rate = fields.groups()
        found.append(Port(node.name, device, int(number), guid, int(lid), int(sm_lid), state,
                          physical, rate))
    return found


def look(lab: cluster.Cluster, timeout_s: float = LOOK_S,
         asked: list[str] | None = None) -> dict[str, list[Port] | None]:
    """Ports of each running guest, queried in parallel. None: the guest does not answer. asked: names of the
    guests to query; None: all."""
    def of(name: str) -> list[Port] | None:
        try:
            return ports_of(lab.node(name), timeout_s)
        except (subprocess.TimeoutExpired, ui.LabError):
            return None
    names = lab.nodes() if asked is None else asked
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(len(names), 1)) as askers:
        return dict(zip(names, askers.map(of, names)))


def ports(lab: cluster.Cluster, asked: list[str] | None = None) -> list[Port]:
    seen = look(lab, asked=asked)
    if silent := [name for name, found in seen.items() if found is None]:
        lab.check()
        raise ui.LabError(f"{', '.join(silent)}: no answer. What runs:  ./pib status")
    return [port for found in seen.values() for port in found or []]


def _said(node: Guest, *command: str) -> str:
    """Runs a command in a guest; returns its output for an error message. A guest's kernel log and opensm's log may
    have any bytes, for example in the description of another guest's node."""
    return ui.printable(node.run(list(command)).stdout.decode(errors="replace"))


def start_manager(node: Guest) -> None:
    """Starts opensm in a guest unless it already runs there."""
    if node.run(["pidof", "opensm"]).returncode == 0:
        return
    # opensm needs ib_umad, which udev loads when the HCA appears; on a busy host that may be after the driver's start.
    done = node.run(["sh", "-c", f"udevadm settle; exec opensm -B {sm_log.FLUSH} -f {sm_log.FILE} "
                                 ">/var/log/opensm.out 2>&1"])
    if done.returncode:
        raise ui.LabError(f"opensm did not start in {node.name}. Start it again:  ./pib up   It said:\n"
                          + _said(node, "tail", "-n", "20", "/var/log/opensm.out"))


def topology_nodes(lab: cluster.Cluster) -> int:
    """Number of nodes in the lab's topology file; 0: the lab has no file, but a single switch."""
    file = lab.record.topology
    return len(topology.load(pathlib.Path(file)).nodes) if file else 0


def _limit_s(lab: cluster.Cluster) -> float:
    """Time limit without progress."""
    return WAIT_S + WAIT_EACH_S * len(lab.nodes()) + NODE_S * topology_nodes(lab)


def _wait(lab: cluster.Cluster, what: str, good: Callable[[Port], bool],
          watch: subnet_progress.Watch | None = None) -> list[Port]:
    """Polls the ports until good(port) is true for all of them; returns them. With watch, the time limit restarts at
    each progress of the subnet manager, which may compute for a long time between two steps."""
    seen: list[Port] = []

    def ready() -> list[Port]:
        seen[:] = ports(lab)
        return seen if all(map(good, seen)) else []

    def doing() -> str:
        return "; ".join(f"{port.node} {port.device} port {port.number}: {port.state}, {port.physical}"
                         for port in seen if not good(port)) + (f"\n{watch}" if watch else "")
    return list(waiting.poll(f"every port {what}", ready, _limit_s(lab), check=lab.check, doing=doing,
                             progress=watch.best if watch else waiting.same, every_s=POLL_S))


def wait_connected(lab: cluster.Cluster) -> list[Port]:
    """Waits until port 1 of each guest has a link to the switch."""
    return _wait(lab, "connected", lambda port: port.connected or port.number != 1)


def wait_down(lab: cluster.Cluster, devices: set[str]) -> list[Port]:
    """Waits until all ports of devices with these names are down after their switch's end."""
    return _wait(lab, "down", lambda port: not port.connected or port.device not in devices)


def wait_active(lab: cluster.Cluster, manager: str = "vm0") -> list[Port]:
    """Waits until each connected port is Active, and opensm in the guest `manager` has come to the end of its sweep:
    until then it sets up the ports of other nodes."""
    sockets = [switch.control for switch in lab.switches()] if lab.record.topology else []
    opensm = sm_steps.Manager(lambda: lab.node(manager))
    watch = subnet_progress.Watch(sockets, opensm)
    try:
        found = _wait(lab, "ACTIVE", lambda port: port.state == "ACTIVE" or not port.connected, watch)
    except ui.LabError as error:
        lab.check()
        raise _with_log(lab, manager, error) from error
    _wait_swept(lab, opensm, watch, lab.check)
    return found


def _wait_swept(lab: cluster.Cluster, opensm: sm_steps.Manager, watch: subnet_progress.Watch,
                check: Callable[[], None]) -> None:
    """Waits for the end of opensm's sweep. If it does not come, prints that and raises no error, because the guests'
    own ports are Active."""
    try:
        waiting.poll("SUBNET UP", opensm.has_finished, SWEEP_S + NODE_S * topology_nodes(lab), check=check,
                     doing=lambda: str(watch), progress=watch.best, every_s=SWEEP_POLL_S)
    except waiting.TooLate as late:
        ui.say(f"opensm has not come to the end of its sweep. {late}")


def _answers(lab: cluster.Cluster, name: str) -> bool:
    try:
        return answers(lab.node(name))
    except ui.LabError:
        return False


def _with_log(lab: cluster.Cluster, manager: str, late: ui.LabError) -> ui.LabError:
    """The error with the end of opensm's log, or why that cannot be read: the guest may have ended meanwhile."""
    try:
        log = _said(lab.node(manager), "tail", "-n", "20", sm_log.FILE)
    except ui.LabError as error:
        log = str(error)
    return ui.LabError(f"{late}\nLook for the cause:  ./pib why   opensm in {manager} says:\n{log}")


def wait_active_again(lab: cluster.Cluster, name: str, manager: str) -> None:
    """Waits until the connected ports of one guest are Active, and, if that guest is the guest `manager`, until opensm
    has come to the end of its sweep. Other guests may hang, or have ended. If `manager` has, the wait ends early."""
    seen: list[Port] = []

    def ready() -> bool:
        seen[:] = ports_of(lab.node(name))
        return bool(seen) and all(port.state == "ACTIVE" or not port.connected for port in seen)

    def check() -> None:
        lab.node(name)          # raises LabError if the guest has ended

    def wait(limit_s: float) -> None:
        waiting.poll(f"every port of {name} ACTIVE", ready, limit_s, every_s=POLL_S, check=check,
                     doing=lambda: "; ".join(f"{port.device} port {port.number}: {port.state}" for port in seen))
    opensm = sm_steps.Manager(lambda: lab.node(manager))
    try:
        wait(ALONE_S)
    except waiting.TooLate:
        if name != manager and not _answers(lab, manager):
            ui.say(f"the ports of {name} are not ACTIVE, as {manager}, whose subnet manager would do that, does not "
                   f"answer. Start it anew:  ./pib reboot {manager}")
            return
        try:
            wait(_limit_s(lab))
        except waiting.TooLate as late:
            raise _with_log(lab, manager, late) from late
    if name == manager:
        _wait_swept(lab, opensm, subnet_progress.Watch([], opensm), lambda: None)


def wait_devices(lab: cluster.Cluster) -> None:
    """Waits until each guest's driver has registered its HCA."""
    bare: list[str] = []

    def ready() -> bool:
        bare[:] = [name for name, found in look(lab).items() if not found]
        return not bare
    try:
        waiting.poll("an InfiniBand device in each guest", ready, _limit_s(lab), check=lab.check,
                     doing=lambda: f"not yet in {', '.join(bare)}", every_s=POLL_S)
    except ui.LabError as error:
        lab.check()
        raise ui.LabError(f"{error}\nStart it anew:  ./pib reboot {bare[0]}   The kernel of {bare[0]} says:\n"
                          + _said(lab.node(bare[0]), "sh", "-c", "dmesg | tail -n 20")) from error
