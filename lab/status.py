# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib status and ./pib run: the running lab, and the command line of another VM that joins it."""

import shlex

from lab import table, ui
from lab.fabric import cluster, subnet, switch_process
from lab.guests import vm


def status(lab: cluster.Cluster) -> int:
    """0 when everything that was started still runs."""
    if not lab.state:
        print("Nothing runs. Start it:  ./pib up")
        return 1
    rows = [[name, "running" if running.alive() else "ended", str(running.pid)]
            for name, running in lab.state.processes.items()]
    print(table.table(["process", "state", "pid"], rows))
    ports = subnet.ports(lab)
    if ports:
        print("\n" + table.ports_table(ports, {}))
    for number in range(max(len(lab.state.parts), 1)):
        if not (switch := lab.switch(number)):
            continue
        print("\npib-switch:\n" + switch.ctl("status").rstrip())
    print(f"\nlogs and sockets: {lab.state.sockets}    "
          f"processor: {'KVM' if lab.state.accel == 'kvm' else 'emulation (TCG)'}")
    return 0 if all(running.alive() for running in lab.state.processes.values()) else 1


def run(lab: cluster.Cluster, number: int, fabric_address: str, arguments: list[str]) -> None:
    """Prints the command line that gives another VM an HCA on the fabric."""
    switch = lab.switch()
    address = fabric_address or (switch.address if switch else "")
    if not address:
        raise ui.LabError("no switch runs. Start the lab (./pib up), or a switch of your own:\n  "
                          f"{switch_process.PROGRAM} --listen unix:PATH --control PATH\n"
                          "and name it:  ./pib run --fabric unix:PATH")
    hca = vm.default_hca(number, address)
    argv = [vm.QEMU, "-machine", "q35", *hca.argv(0), *arguments]
    print(f"LD_PRELOAD={shlex.quote(str(vm.MODULE))} {shlex.join(argv)}")
