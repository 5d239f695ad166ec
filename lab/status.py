# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib status, down and run: shows the running lab, ends it, prints the command line of another VM that joins it."""

import pathlib
import shlex
import subprocess

from lab.base import errors, paths, table, ui
from lab.fabric import cluster, labs, ports_table, rundir, spread, state, subnet, subnet_progress, switch_process
from lab.guests import guest_kernel, kvm, vm

PROCESSORS = {"kvm": "KVM", "tcg": "emulation (TCG)"}
ANSWER_S = 5                    # time limit for the answer of a guest or a switch
DISCOVER_S = 60                 # time limit for the discovery of a fabric
SWITCHES = "ibswitches"
MOST_SWITCHES = 40              # lines of its output that are shown


def status(lab: cluster.Cluster) -> int:
    """Prints the lab's state. Returns 0 if everything that was started still runs and answers."""
    good = bool(lab.state)
    if lab.state:
        good = _processes(lab) & _ports(lab) & (_hosts(lab) if lab.state.hosts else _switches(lab))
        print(f"\nlogs and sockets: {lab.state.sockets}    "
              f"processor: {PROCESSORS[lab.state.accel]}")
        if lab.state.accel == "tcg" and (reason := kvm.failure()):
            print(ui.named(reason))
        _tell_age(lab.state)
    elif strays := labs.running().get(lab.directory):
        print(ui.named(f"{', '.join(sorted(strays))}: runs without a record, which is lost. End it:  ./pib down"))
    else:
        print(ui.named("Nothing runs. Start it:  ./pib up"))
    _others()
    return 0 if good else 1


def _tell_age(running: state.State) -> None:
    if running.image and not guest_kernel.is_current(pathlib.Path(running.image), running.identity):
        print(ui.named("The guests' image is older than its recipe or its packages. Start guests of the new one:  "
                       "./pib up"))


def _processes(lab: cluster.Cluster) -> bool:
    seen = {name: _process_state(lab, name) for name in lab.record.processes}
    print(table.table(["process", "state", "pid"], [[name, state, str(lab.record.processes[name].pid)]
                                                    for name, state in seen.items()]))
    return set(seen.values()) <= {"running"}


def _process_state(lab: cluster.Cluster, name: str) -> str:
    """State of a process; for a guest, the run state that QMP reports: QEMU pauses a guest if the host has no space
    left for its overlay, and reports that only over QMP."""
    if not lab.alive(name):
        return "ended"
    if name not in lab.nodes() or lab.record.hosts:
        return "running"
    try:
        return vm.monitor_command(lab.monitor(name), "query-status")["status"]
    except ui.LabError:
        return "does not answer"


def _ports(lab: cluster.Cluster) -> bool:
    seen = subnet.look(lab, ANSWER_S)
    ports = [port for found in seen.values() for port in found or []]
    if ports:
        print("\n" + ports_table.text(ports, {}))
    silent = [name for name, found in seen.items() if found is None]
    if silent:
        print(f"\n{', '.join(silent)}: does not answer within {ANSWER_S} s. "
              f"Look at its console:  {lab.record.sockets}/{silent[0]}.console")
    return not silent


def _switches(lab: cluster.Cluster) -> bool:
    good = True
    for switch in lab.switches():
        try:
            print(f"\npib-{switch.name}:\n" + seen_by(switch))
        except ui.LabError as error:
            print(ui.named(f"\n{error}"))
            good = False
    return good


def seen_by(switch: switch_process.Switch) -> str:
    """Text about a switch process: one switch with its ports, or for a topology how far the subnet manager is."""
    if not switch.topology:
        return switch.ctl("status", timeout_s=ANSWER_S).rstrip()
    return ui.named(f"{subnet_progress.look([switch.control])}\n./pib map shows each link")


def _hosts(lab: cluster.Cluster) -> bool:
    """Prints the hosts, and the switches that the first guest discovers; returns whether that worked."""
    for number, guests in spread.placed(lab, lab.nodes()).items():
        print(f"\n{spread.title(number)}: {lab.record.hosts[number]}\n  {', '.join(guests) or 'no guest runs'}")
    print(f"on each host: virsh list, and the service pib-switch@{spread.names(lab).lab}")
    nodes = lab.nodes()
    return bool(nodes) and _discovered(lab, nodes[0])


def _discovered(lab: cluster.Cluster, name: str) -> bool:
    """Prints the switches that a guest discovers; returns whether that worked."""
    try:
        done = lab.node(name).run([SWITCHES], timeout_s=DISCOVER_S)
    except (subprocess.TimeoutExpired, ui.LabError) as error:
        print(ui.named(f"\n{name} finds no switches: {errors.sentence(error)}"))
        return False
    said = ui.printable((done.stderr if done.returncode else done.stdout).decode(errors="replace")).splitlines()
    if done.returncode:
        print(ui.named(f"\n{name} finds no switches: {said[-1] if said else f'status {done.returncode}'}. Look at "
                       f"its port:  ./pib exec {name} -- ibstat"))
        return False
    more = [f"… and {len(said) - MOST_SWITCHES} more"] if len(said) > MOST_SWITCHES else []
    print("\n".join([f"\nswitches that {name} finds:", *said[:MOST_SWITCHES], *more]))
    return True


def _others() -> None:
    others = {labs.title(directory): names for directory, names in labs.running().items() if directory != paths.RUN}
    for title, names in sorted(others.items()):
        print(ui.named(f"\n{title}, a lab of tests or benchmarks, also runs: {', '.join(names)}    end all:  "
                       "./pib down --all"))


def down(every: bool) -> int:
    """Ends the lab. every: also ends the labs of tests and benchmarks."""
    ended, failures = labs.down_all() if every else ({paths.RUN: labs.down(paths.RUN)}, [])
    for directory, names in ended.items():
        if names:
            print(f"ended: {', '.join(names)}" + ("" if directory == paths.RUN else f" of {labs.title(directory)}"))
    if failures:
        raise ui.LabError("\n".join(failures))
    if not any(ended.values()):
        print("nothing ran")
    _others()
    return 0


def accelerator(again: bool) -> int:
    """Prints whether guests use KVM. again: ignores the result of an earlier probe."""
    if again:
        kvm.forget()
    print(f"processor: {PROCESSORS[kvm.accelerator(guest_kernel.image())]}")
    return 0


def preload(lab: cluster.Cluster) -> pathlib.Path:
    """A path of the device's library without characters at which LD_PRELOAD splits."""
    if rundir.fit(str(vm.MODULE)):
        return vm.MODULE
    if not lab.state:
        raise ui.LabError(f"LD_PRELOAD cannot have a path with these characters: {vm.MODULE}. Start the lab, which "
                          "makes a link to it:  ./pib up")
    return lab.sockets() / vm.LINK / vm.MODULE.name


def address(lab: cluster.Cluster, given: str, command: str) -> str:
    """Address of the switch that a VM joins: the address `given` to the command, else the address of the lab's
    switch."""
    switch = lab.switch()
    if not given and lab.state and lab.state.hosts:
        raise ui.LabError("the switches run on other hosts. A virtual machine there joins that of its host, if QEMU's "
                          f"user is of the group pib-switch:  ./pib {command} --fabric {spread.names(lab).fabric}")
    if not given and not switch:
        raise ui.LabError("no switch runs. Start the lab (./pib up), or a switch of your own:\n  "
                          f"{switch_process.PROGRAM} --listen unix:PATH --control PATH\n"
                          f"and name it:  ./pib {command} --fabric unix:PATH")
    return given or (switch.address if switch else "")


def hca_of(lab: cluster.Cluster, number: int, given: str, command: str) -> vm.Hca:
    """The HCA of the user's own VM with this number. given and command: as for address()."""
    if not 0 <= number < vm.NUMBERS:
        raise ui.LabError(f"--number {number}: expected 0 to {vm.NUMBERS - 1}")
    return vm.default_hca(number, address(lab, given, command))


def run(lab: cluster.Cluster, number: int, fabric_address: str, arguments: list[str]) -> None:
    """Prints the command line that gives another VM an HCA on the fabric."""
    hca = hca_of(lab, number, fabric_address, "run")
    argv = [vm.QEMU, "-machine", "q35", *hca.argv(0), *arguments]
    print(f"LD_PRELOAD={shlex.quote(str(preload(lab)))} {shlex.join(argv)}")
