# SPDX-License-Identifier: GPL-2.0-or-later
"""IP over InfiniBand: port 1 of each guest has an address from its boot, and a name such as vm0-ib. The interface
carries packets once the port has joined the broadcast group, which the subnet manager creates."""

from lab.base import ui, waiting
from lab.fabric import cluster, subnet

# A port usually joins at once, but a fabric may be set up to refuse it. The limit counts from the last guest that has
# joined, and grows with the nodes of the fabric: opensm computes the group's tree.
JOIN_S = 120
LEAST_GBIT_S = 10               # rate of opensm's broadcast group: slower ports cannot join
POLL_S = 0.2
CARRIER = ["cat", "/sys/class/net/ib0/carrier"]


def _takes_part(port: subnet.Port) -> bool:
    return port.number == 1 and bool(port.lid) and port.state == "ACTIVE" and port.gbit_s >= LEAST_GBIT_S


def wait_joined(lab: cluster.Cluster, ports: list[subnet.Port]) -> None:
    """Waits until the guests of these ports can use IP over InfiniBand. Prints which guests cannot; raises no error."""
    late = {port.node for port in ports if _takes_part(port)}
    begun = len(late)

    def ready() -> bool:
        late.difference_update([name for name in late if lab.node(name).run(CARRIER).stdout.strip() == b"1"])
        return not late
    try:
        waiting.poll("IP over InfiniBand", ready, JOIN_S + subnet.NODE_S * subnet.topology_nodes(lab), check=lab.check,
                     doing=lambda: f"{begun - len(late)} of {begun} guests have joined, not yet {_named(late)}",
                     progress=lambda: len(late), every_s=POLL_S)
    except waiting.TooLate:
        ui.say(f"ib0 of {_named(late)} has not joined the broadcast group: programs of rdma_cm cannot use it yet. What "
               "the subnet manager says:  ./pib exec vm0 -- tail /var/log/opensm.log")


def _named(names: set[str]) -> str:
    return ", ".join(sorted(names))
