# SPDX-License-Identifier: GPL-2.0-or-later
"""What ./pib bench measures between two guests: perftest over the HCA and, between the same
guests, over Soft-RoCE on a virtio-net card of its own."""

import dataclasses
import signal

from lab import bench_figures, bench_host, cluster, measure, remote, subnet, ui, vm
from lab.bench_figures import LESS, MORE, Kind

ROCE, ROCE_DEVICE = "Soft-RoCE", "rxe0"
SOCKETS = "pib, sockets"        # the same HCAs, frames through sockets
DIRECT = "10.99.0.{}"           # addresses on the direct cable
HW_COUNTERS = "/sys/class/infiniband/{}/hw_counters/{}"
COUNTED = {"send_doorbells": "doorbells", "interrupts": "interrupts"}


@dataclasses.dataclass(frozen=True)
class Test:
    """A perftest program. columns: of its result line, and the kinds they are; factor: what a
    column's number is multiplied with. iterations: over the HCA, over Soft-RoCE: about a second."""
    program: str
    options: tuple[str, ...]
    size: int
    iterations: tuple[int, int]
    columns: dict[int, Kind]
    factor: float = 1.0
    events: bool = True         # can wait for completion events instead of polling


def _bandwidth(verb: str, size: int, text: str) -> Kind:
    return Kind(f"{verb.lower()}_bw_{text}", f"{verb}, {size >> 10} KiB", "MiB/s", MORE)


def _latency(verb: str, more: str = "") -> dict[int, Kind]:
    """Columns of the median and of two tails."""
    key = f"{verb.lower()}_lat_8" + ("_events" if more else "")
    title = f"{verb}, 8 B{more}"
    return {4: Kind(key, f"{title}, p50", "us", LESS),
            7: Kind(f"{key}_p99", f"{title}, p99", "us", LESS),
            8: Kind(f"{key}_p999", f"{title}, p99.9", "us", LESS)}


K64, MIB = 65536, 1 << 20
TESTS = (
    Test("ib_write_bw", (), K64, (4000, 400), {3: _bandwidth("WRITE", K64, "64k")},
         events=False),
    Test("ib_send_bw", (), K64, (2000, 400), {3: _bandwidth("SEND", K64, "64k")}),
    Test("ib_read_bw", (), K64, (4000, 400), {3: _bandwidth("READ", K64, "64k")}),
    Test("ib_write_bw", (), MIB, (500, 50), {3: _bandwidth("WRITE", MIB, "1m")}, events=False),
    Test("ib_send_bw", (), 64, (40000, 5000),
         {4: Kind("send_rate_64", "SEND, 64 B", "messages/s", MORE)}, 1e6),
    Test("ib_write_lat", (), 8, (2000, 1000), _latency("WRITE"), events=False),
    Test("ib_send_lat", ("-e",), 8, (1000, 500), _latency("SEND", ", events"), events=False),
    Test("ib_atomic_lat", ("-A", "FETCH_AND_ADD"), 8, (1000, 500),
         {4: Kind("atomic_lat", "FETCH & ADD, p50", "us", LESS)}, events=False),
)
KINDS = {kind.key: kind for test in TESTS for kind in test.columns.values()}
# Tests that also say what a message costs the host. Latency tests send one in each direction.
COSTS = {"write_bw_64k": 1, "send_rate_64": 1, "write_lat_8": 2}


@dataclasses.dataclass
class End:
    """A device in a guest. options: of perftest, so that it is used."""
    node: remote.Remote
    device: str
    options: tuple[str, ...] = ()


def _sh(node: remote.Remote, line: str) -> str:
    done = node.run([line])
    if done.returncode:
        raise ui.LabError(f"{node.name}: {line}\n{done.stdout.decode()}{done.stderr.decode()}")
    return done.stdout.decode()


# Which entry of the GID table is RoCE v2 over the IPv4 address; perftest wants its number.
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


def roce_end(node: remote.Remote, number: int) -> End:
    """Soft-RoCE on the direct cable; large frames, so that its packets carry 4096 bytes."""
    mac = vm.direct_mac(number)
    _sh(node, f"card=$(grep -l {mac} /sys/class/net/*/address | cut -d/ -f5); "
              f"ip link set $card mtu {vm.DIRECT_MTU} up && "
              f"ip addr replace {DIRECT.format(number + 1)}/24 dev $card && modprobe rdma_rxe && "
              f"(rdma link show {ROCE_DEVICE}/1 >/dev/null 2>&1 || "
              f"rdma link add {ROCE_DEVICE} type rxe netdev $card)")
    index = _sh(node, FIND_GID.format(device=ROCE_DEVICE)).strip()
    return End(node, ROCE_DEVICE, ("-x", index))


def ends(lab: cluster.Cluster) -> dict[str, list[End]]:
    """Client and server of everything that is compared."""
    nodes = [lab.node("vm0"), lab.node("vm1")]
    hca = [End(node, next(port.device for port in subnet.ports_of(node)
                          if port.state == "ACTIVE")) for node in nodes]
    roce = [roce_end(node, number) for number, node in enumerate(nodes)]
    return {bench_host.DEVICE: hca, ROCE: roce, SOCKETS: hca}


class Bench:
    """Measures between the guests of a lab that was booted with a direct cable."""

    def __init__(self, lab: cluster.Cluster, results: bench_figures.Results):
        self.results = results
        self.ends = ends(lab)
        self.lab = lab
        self.use_events: dict[tuple[str, str], bool] = {}

    def round(self) -> None:
        """Every test once over everything, side by side."""
        for test in TESTS:
            self._measure(test, bench_host.DEVICE)
            self._measure(test, ROCE)
        self._restart_switch("--no-shared-memory")
        for test in TESTS:
            self._measure(test, SOCKETS)
        self._restart_switch()

    def _restart_switch(self, *options: str) -> None:
        with self.lab.locked():
            self.lab.stop_switch(signal.SIGTERM)
            subnet.wait_down(self.lab, {end.device for end in self.ends[SOCKETS]})
            self.lab.start_switch(*options)
        subnet.wait_connected(self.lab)
        subnet.wait_active(self.lab)

    def _measure(self, test: Test, what: str) -> None:
        wanted = tuple(test.columns.values())[0].key
        if test.events and (wanted, what) not in self.use_events and what == ROCE:
            self.use_events[wanted, what] = self._events_are_better(test, what)
        before = self._costs(what) if wanted in COSTS else None
        row = self._run(test, what, self.use_events.get((wanted, what), False))
        if before:
            self._add_costs(test, what, wanted, before)
        for column, kind in test.columns.items():
            self.results.figure(kind).add(what, row[column] * test.factor)

    def _events_are_better(self, test: Test, what: str) -> bool:
        """On one processor polling takes from the guest's own kernel what it needs to answer."""
        column = next(iter(test.columns))
        polling, events = (self._run(test, what, on)[column] for on in (False, True))
        title = next(iter(test.columns.values())).title
        self.results.notes.append(f"{what}, {title}: {polling:.6g} polling, {events:.6g} with "
                                  "events; the better one is used")
        return events > polling

    def _run(self, test: Test, what: str, events: bool) -> list[float]:
        client, server = self.ends[what]
        count = test.iterations[what == ROCE]
        options = [*test.options, *(["-e"] if events else []), "-s", str(test.size),
                   "-n", str(count), *client.options]
        ports = [subnet.Port(end.node.name, end.device, 1, "", 0, 0, "", "", "")
                 for end in (client, server)]
        text = measure.perftest(client.node, server.node, test.program, options, *ports)
        return measure.columns(text, test.size)

    # -- what it costs the host ---------------------------------------------

    def _costs(self, what: str) -> dict[str, float]:
        running = [self.lab.state.processes[name] for name in ("switch", "vm0", "vm1")]
        sleeps, seconds = bench_host.usage(running)
        costs = {"wake-ups": sleeps, "processor time": seconds * 1e6}
        if what != ROCE:
            for end in self.ends[what]:
                names = " ".join(HW_COUNTERS.format(end.device, name) for name in COUNTED)
                values = _sh(end.node, f"cat {names}").split()
                for title, value in zip(COUNTED.values(), values):
                    costs[title] = costs.get(title, 0) + float(value)
        return costs

    def _add_costs(self, test: Test, what: str, key: str, before: dict[str, float]) -> None:
        """Per message; the start of the programs is in it."""
        after = self._costs(what)
        messages = test.iterations[what == ROCE] * COSTS[key]
        title = test.columns[next(iter(test.columns))].title
        for name, value in before.items():
            unit = "us/message" if name == "processor time" else "per message"
            kind = Kind(f"{key}_{name.replace(' ', '_')}", f"{title}: {name}", unit, LESS)
            self.results.figure(kind).add(what, (after[name] - value) / messages)
