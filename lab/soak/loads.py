# SPDX-License-Identifier: GPL-2.0-or-later
"""The loads of a round of ./pib soak. A load leaves the fabric as it was before, and raises LabError if it fails."""

import contextlib
import dataclasses
import json
import subprocess
from collections.abc import Callable, Iterator

from lab.base import ui, waiting
from lab.fabric import cluster, ctl, ipoib, measure, subnet
from lab.guests import vm
from lab.guests.guest import Guest
from lab.soak import storage

MANAGER = "vm0"
WAIT_S = 180                    # reached only by a hang
DISK_MIB = 32
# perftest programs for each transport and operation, with few messages, so that rounds are short.
TRAFFIC = (("ib_send_bw", "RC"), ("ib_send_bw", "UC"), ("ib_send_bw", "UD"), ("ib_send_bw", "XRC"),
           ("ib_write_bw", "RC"), ("ib_write_bw", "UC"), ("ib_read_bw", "RC"), ("ib_atomic_bw", "RC"))
UNLOAD = "modprobe -r ib_ipoib ib_umad rdma_ucm 2>/dev/null; rmmod pib_hca"
LOAD = "modprobe -a ib_umad ib_uverbs; modprobe pib_hca"


@dataclasses.dataclass(frozen=True)
class Load:
    name: str
    run: Callable[[cluster.Cluster], None]


def _sh(node: Guest, line: str, timeout_s: float = WAIT_S) -> str:
    try:
        done = node.run(["sh", "-c", line], timeout_s=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise ui.LabError(f"{node.name}: does not end within {timeout_s:.0f} s: {line}. Look at its "
                          f"console:  ./pib console {node.name}") from error
    if done.returncode:
        raise ui.LabError(f"{node.name}: status {done.returncode}: {line}. Look at its console:  ./pib console "
                          f"{node.name}\n{done.stdout.decode(errors='replace')}"
                          f"{done.stderr.decode(errors='replace')}")
    return done.stdout.decode(errors="replace")


def _settled(lab: cluster.Cluster) -> list[subnet.Port]:
    """Waits until all ports are Active and IP over InfiniBand works; returns the ports."""
    subnet.wait_devices(lab)
    subnet.wait_connected(lab)
    ports = subnet.wait_active(lab, MANAGER)
    ipoib.wait_joined(lab, ports)
    return ports


def _pairs(lab: cluster.Cluster) -> list[tuple[str, str]]:
    names = lab.nodes()
    return [(one, other) for one in names for other in names if one != other]


def traffic(lab: cluster.Cluster) -> None:
    """Each guest sends to each other guest, by each transport."""
    first = {port.node: port for port in reversed(subnet.ports(lab)) if port.state == "ACTIVE"}
    for client, server in _pairs(lab):
        for program, transport in TRAFFIC:
            options = [*([] if program == "ib_atomic_bw" else ["-c", transport, "-s", "2048"]), "-n", "200"]
            measure.perftest(lab.node(client), lab.node(server), program, options, first[client], first[server])


def ip(lab: cluster.Cluster) -> None:
    for client, server in _pairs(lab):
        _sh(lab.node(client), f"ping -q -c 50 -i 0.02 -s 8000 -w 60 {server}-ib")


@contextlib.contextmanager
def _disk(target: Guest, client: Guest) -> Iterator[str]:
    addresses = json.loads(_sh(target, "ip -j -4 address show ib0"))
    names = {"nqn": storage.NQN, "mib": DISK_MIB, "address": addresses[0]["addr_info"][0]["local"]}
    _sh(target, "set -e" + storage.TARGET.format(**names))
    try:
        _sh(client, storage.CONNECT.format(**names))
        yield waiting.poll("the disk", lambda: _sh(client, storage.NAME).strip(), WAIT_S)
    finally:
        _sh(client, storage.NO_DISK)
        _sh(target, storage.NO_TARGET.format(**names))


def disk(lab: cluster.Cluster) -> None:
    """Writes to an NVMe-oF disk in another guest, reads the data again and compares it."""
    names = lab.nodes()
    target, client = lab.node(names[0]), lab.node(names[-1])
    with _disk(target, client) as name:
        line = (f"dd if=/dev/urandom of=/tmp/data bs=1M count={DISK_MIB // 2} status=none; "
                f"dd if=/tmp/data of=/dev/{name} bs=64k oflag=direct status=none; "
                f"dd if=/dev/{name} bs=64k count={DISK_MIB * 8} iflag=direct status=none | cmp - /tmp/data")
        _sh(client, line)


def manager(lab: cluster.Cluster) -> None:
    """Stops the subnet manager and starts it again."""
    node = lab.node(MANAGER)
    _sh(node, "pkill -x opensm; while pidof opensm >/dev/null; do sleep 0.2; done")
    subnet.start_manager(node)
    _settled(lab)


def flaps(lab: cluster.Cluster) -> None:
    """Takes the link of each guest down and up again."""
    switch = lab.running_switches()[0]
    for name in lab.nodes():
        port = ctl.port_of(switch.control, name)
        for state in ("down", "up"):
            switch.ctl("link", port, state)
    _settled(lab)


def reload(lab: cluster.Cluster) -> None:
    """Unloads the driver of the last guest and loads it again."""
    node = lab.node(lab.nodes()[-1])
    _sh(node, UNLOAD)
    _sh(node, LOAD)
    _settled(lab)


def _device(lab: cluster.Cluster, name: str) -> str:
    """The value of the option -device for the guest's first HCA."""
    words = lab.record.commands[name].argv
    return next(word for word in words if word.startswith("pib-hca,id=hca0,"))


def hot_plug(lab: cluster.Cluster) -> None:
    """Unplugs the HCA of the last guest while its driver runs, and plugs it in again."""
    name = lab.nodes()[-1]
    node, monitor = lab.node(name), lab.monitor(name)
    vm.monitor_command(monitor, "device_del", id="hca0")
    waiting.poll("the HCA to be gone", lambda: "hca0" not in vm.monitor_line(monitor, "info qtree"), WAIT_S)
    if said := vm.monitor_line(monitor, f"device_add {_device(lab, name)}").strip():
        raise ui.LabError(f"{name}: QEMU did not plug the HCA in again: {said}. Start the guest anew:  "
                          f"./pib reboot {name}")
    waiting.poll("the HCA to be back", lambda: subnet.ports_of(node), WAIT_S)
    _settled(lab)


# The loads of a round, in order. The traffic of the next round shows whether the fabric works after the last ones.
LOADS = (Load("traffic", traffic), Load("ip", ip), Load("disk", disk), Load("manager", manager), Load("flaps", flaps),
         Load("reload", reload), Load("hot-plug", hot_plug))
