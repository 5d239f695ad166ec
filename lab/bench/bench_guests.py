# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab of ./pib bench: two guests on a fabric. The same two guests have Soft-RoCE on a virtio-net card."""

import contextlib
import dataclasses
import pathlib

from lab.base import ui
from lab.bench import bench_figures, bench_host
from lab.fabric import cluster, subnet, up
from lab.fabric.wanted import Wanted
from lab.guests import vm
from lab.guests.guest import Guest

ROCE, ROCE_DEVICE = "Soft-RoCE", "rxe0"
SOCKETS = "pib, sockets"        # the same HCAs with links on sockets
PEER_COPY = "pib, peer copy"      # the same HCAs with peer copy
DIRECT = "10.99.0.{}"           # addresses on the direct cable


@dataclasses.dataclass
class End:
    """An RDMA device of a guest. options: perftest's, to select it; gid: GID index, for networks without LIDs."""
    node: Guest
    device: str
    options: tuple[str, ...] = ()
    gid: int | None = None


def sh(node: Guest, line: str, timeout_s: float = 300) -> str:
    done = node.run([line], timeout_s=timeout_s)
    if done.returncode:
        raise ui.LabError(f"{node.name}: status {done.returncode}: {line}\n"
                          "Start again:  ./pib bench   The command said:\n"
                          f"{done.stdout.decode()}{done.stderr.decode()}")
    return done.stdout.decode()


def run_program(node: Guest, program: pathlib.Path, arguments: list[str], again: str, timeout_s: float = 120) -> str:
    """Runs a Python program of the host in a guest; returns its output. again: the command that measures again."""
    done = node.run(["python3", "-", *arguments], stdin=program.read_bytes(), timeout_s=timeout_s)
    if done.returncode:
        raise ui.LabError(f"{node.name}: {program.name} failed. Start again:  {again}   It said:\n"
                          f"{done.stderr.decode()}")
    return done.stdout.decode()


# Prints the index of the IPv4 address's RoCE v2 GID. perftest needs this index.
FIND_GID = """
ports=/sys/class/infiniband/{device}/ports/1
for try in $(seq 100); do
    for index in $(seq 0 15); do
        case $(cat $ports/gids/$index 2>/dev/null) in
        *:ffff:*) grep -q v2 $ports/gid_attrs/types/$index 2>/dev/null && echo $index && exit 0 ;;
        esac
    done
    sleep 0.1
done
exit 1
"""


def roce_end(node: Guest, number: int) -> End:
    """Sets up Soft-RoCE on the direct cable. Large frames let its packets carry 4096 bytes."""
    mac = vm.direct_mac(number)
    sh(node, f"card=$(grep -l {mac} /sys/class/net/*/address | cut -d/ -f5); "
             f"ip link set $card mtu {vm.DIRECT_MTU} up && "
             f"ip addr replace {DIRECT.format(number + 1)}/24 dev $card && modprobe rdma_rxe && "
             f"(rdma link show {ROCE_DEVICE}/1 >/dev/null 2>&1 || "
             f"rdma link add {ROCE_DEVICE} type rxe netdev $card)")
    index = sh(node, FIND_GID.format(device=ROCE_DEVICE)).strip()
    return End(node, ROCE_DEVICE, ("-x", index), int(index))


class Guests:
    """The lab, and the client and server End of each compared subject."""

    def __init__(self, directory: pathlib.Path, results: bench_figures.Results):
        self.lab = cluster.Cluster(directory)
        self.results = results
        self.ends: dict[str, list[End]] = {}
        self.count = 2
        self.hca_options = ""
        self.switch_options: tuple[str, ...] = ()
        _, self.artefacts = up.prepare()

    def boot(self, count: int = 2) -> None:
        """Boots guests up to this number and keeps running ones. Afterwards all ports are Active."""
        self.count = count
        self.lab.up(Wanted(count, self.hca_options, direct=True), self.artefacts)
        up.make_subnet(self.lab)
        self.find_ends()

    def find_ends(self) -> None:
        nodes = [self.lab.node("vm0"), self.lab.node("vm1")]
        hca = [self.hca(node) for node in nodes]
        roce = [roce_end(node, number) for number, node in enumerate(nodes)]
        self.ends = {bench_host.DEVICE: hca, ROCE: roce, SOCKETS: hca, PEER_COPY: hca}

    @staticmethod
    def hca(node: Guest) -> End:
        return End(node, next(port.device for port in subnet.ports_of(node) if port.state == "ACTIVE"))

    def mend(self) -> None:
        """Restarts the lab after a failed measurement, which ends programs left in the guests."""
        self.down()
        self.boot(self.count)
        if self.switch_options:
            self._restart_switch(*self.switch_options)

    def down(self) -> None:
        self.lab.down()

    @contextlib.contextmanager
    def crowd(self, count: int):
        """Boots more guests for the duration of the block."""
        self.boot(count)
        try:
            yield
        finally:
            self.boot(2)

    @contextlib.contextmanager
    def peer_copy(self):
        """Boots other guests with peer copy for the duration of the block."""
        self.hca_options = vm.PEER_COPY
        self.boot()
        try:
            yield
        finally:
            self.hca_options = ""
            self.boot()

    @contextlib.contextmanager
    def sockets(self):
        """Uses sockets for all links for the duration of the block."""
        self._restart_switch("--no-shared-memory")
        try:
            yield
        finally:
            self._restart_switch()

    def _restart_switch(self, *options: str) -> None:
        self.switch_options = options
        up.restart_switch(self.lab, *options)
