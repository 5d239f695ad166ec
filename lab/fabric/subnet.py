# SPDX-License-Identifier: GPL-2.0-or-later
"""The InfiniBand side of a running lab: ports, subnet manager, waiting for ACTIVE."""

import dataclasses
import time

from lab import ui
from lab.fabric import cluster
from lab.guests import remote

WAIT_S = 120
POLL_S = 0.2


@dataclasses.dataclass(frozen=True)
class Port:
    """An InfiniBand port as its guest's sysfs shows it."""
    node: str
    device: str
    number: int
    guid: str
    lid: int
    sm_lid: int
    state: str                  # Down, INIT, ARMED, ACTIVE: as in sysfs
    physical: str               # LinkUp, Polling, Disabled, …
    rate: str                   # e.g. "100 Gb/sec (4X EDR)"

    @property
    def connected(self) -> bool:
        return self.physical == "LinkUp"


def ports_of(node: remote.Remote) -> list[Port]:
    found = []
    for line in node.run(["/usr/local/lib/lab/ports"]).stdout.decode().splitlines():
        device, number, guid, lid, sm_lid, state, physical, rate = line.split("|")
        found.append(Port(node.name, device, int(number), guid, int(lid), int(sm_lid), state,
                          physical, rate))
    return found


def ports(lab: cluster.Cluster) -> list[Port]:
    return [port for name in lab.nodes() for port in ports_of(lab.node(name))]


def start_manager(node: remote.Remote) -> None:
    """Starts opensm in a guest unless it runs there."""
    if node.run(["pidof", "opensm"]).returncode == 0:
        return
    # udev loads ib_umad, which opensm needs, when it sees the HCA: on a busy host that can be later than the driver.
    done = node.run(["sh", "-c", "udevadm settle; exec opensm -B -f /var/log/opensm.log >/var/log/opensm.out 2>&1"])
    if done.returncode:
        raise ui.LabError(f"opensm did not start in {node.name}:\n"
                          + node.run(["tail", "-n", "20", "/var/log/opensm.out"]).stdout.decode())


def _wait(lab: cluster.Cluster, what: str, good) -> list[Port]:
    """Polls the ports until good(port) holds for each port in question."""
    end = time.monotonic() + WAIT_S
    while True:
        seen = ports(lab)
        if seen and all(map(good, seen)):
            return seen
        if time.monotonic() > end:
            raise ui.LabError(f"after {WAIT_S} s not every port is {what}:\n" + "\n".join(
                f"  {port.node} {port.device} port {port.number}: {port.state}, {port.physical}"
                for port in seen))
        time.sleep(POLL_S)


def wait_connected(lab: cluster.Cluster) -> list[Port]:
    """Waits until port 1 of each guest has its link to the switch."""
    return _wait(lab, "connected", lambda port: port.connected or port.number != 1)


def wait_down(lab: cluster.Cluster, devices: set[str]) -> list[Port]:
    """Waits until every port of devices of these names has noticed that its switch is gone."""
    return _wait(lab, "down", lambda port: not port.connected or port.device not in devices)


def wait_active(lab: cluster.Cluster, manager: str = "vm0") -> list[Port]:
    """Waits until each connected port is ACTIVE; opensm runs in the guest named manager."""
    try:
        return _wait(lab, "ACTIVE", lambda port: port.state == "ACTIVE" or not port.connected)
    except ui.LabError as error:
        log = lab.node(manager).run(["tail", "-n", "20", "/var/log/opensm.log"]).stdout.decode()
        raise ui.LabError(f"{error}\nopensm in {manager} says:\n{log}") from error


def wait_devices(lab: cluster.Cluster) -> None:
    """Waits until each guest's driver has registered its HCA."""
    end = time.monotonic() + WAIT_S
    for name in lab.nodes():
        node = lab.node(name)
        while not ports_of(node):
            if time.monotonic() > end:
                raise ui.LabError(f"{name} shows no InfiniBand device. Its kernel says:\n"
                                  + node.run(["sh", "-c", "dmesg | tail -n 20"]).stdout.decode())
            time.sleep(POLL_S)
