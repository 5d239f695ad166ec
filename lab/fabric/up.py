# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib up: prepares the machine, boots guests, brings their subnet up and measures it."""

import contextlib
import dataclasses
import pathlib
import subprocess
from collections.abc import Iterable, Iterator

from lab.base import memory, paths, ui
from lab.build import deps, guest_build, host_build, kernel_module, preflight, steps
from lab.fabric import cluster, counters, evidence, ipoib, measure, ports_table, spread, subnet, switch_process
from lab.fabric.wanted import Wanted
from lab.guests import guest_kernel, own_image, own_kernel, vm

GUIDE = "docs/user-guide.md, section 15"
MANAGER = "vm0"                 # the guest in which the subnet manager runs


def machine(*packages: pathlib.Path, guests: bool = True, builds: Iterable[pathlib.Path] = (paths.BUILD,),
            needed: preflight.Needed | None = None) -> None:
    """Checks the machine and, except for an installed lab, installs missing packages. packages: lists in addition to
    packages.txt; guests: whether the command uses guests; builds: build directories that it uses; needed: what it
    needs except builds, by default the guests' image."""
    deps.name_container()
    needed = needed or (guest_kernel.needed() if guests else preflight.Needed())
    builds_gib = 0 if paths.INSTALLED else host_build.missing_gib(builds)
    preflight.check(dataclasses.replace(needed, builds=builds_gib), guests)
    if not paths.INSTALLED:
        deps.install(*packages)
    preflight.check_programs(guests)


def prepare(driver: pathlib.Path | None = kernel_module.OURS,
            packages: tuple[str, ...] = ()) -> tuple[pathlib.Path, list[pathlib.Path]]:
    """Installs and builds everything for the guests; returns (image, trees to lay over it). driver: its directory.
    packages: those that the caller adds to the image, for which there must be space."""
    def guest_side() -> tuple[pathlib.Path, list[pathlib.Path]]:
        base = guest_kernel.image()
        return base, [*own_kernel.artefacts(base), *guest_build.build(base, driver)]
    machine(needed=guest_kernel.needed(packages))
    if paths.INSTALLED:
        return guest_side()
    made, _ = steps.together(guest_side, host_build.build)
    return made


def _prepare_image(file: pathlib.Path) -> tuple[pathlib.Path, list[pathlib.Path]]:
    """Prepares guests with the user's own disk image, as prepare(). Refuses a bad image before it builds anything."""
    machine(needed=guest_kernel.needed(run_gib=own_image.NEW_GIB, builds=False))
    own_image.check(file)
    if not paths.INSTALLED:
        host_build.build()
    return guest_kernel.image(), []


def boot(lab: cluster.Cluster, wanted: Wanted) -> None:
    """Boots guests and, if their driver registers InfiniBand devices, sets up their subnet, so that every connected
    port is ACTIVE. Our own driver must register devices. An interrupt ends everything that was started; after other
    failures booted guests keep running for inspection."""
    deps.name_container()
    if wanted.hosts:
        spread.check(wanted)
    else:
        _check_memory([wanted.size_of(number) for number in range(len(lab.nodes()), wanted.count)])
    base, artefacts = (_prepare_image(wanted.image_file) if wanted.image_file
                       else prepare(wanted.driver, wanted.packages))
    wanted.disk(base)
    with lab.ended_on_failure(KeyboardInterrupt):
        lab.up(wanted, artefacts)
        if wanted.share:
            _check_share(lab)
        if not (vm.module_usable() and switch_process.built()):
            raise ui.LabError("the device or the switch has not been built; the guests run without a "
                              "fabric. Look at the output of:  ninja -C build")
        if wanted.driver == kernel_module.OURS or all(subnet.look(lab).values()):
            with _told_of_hosts(wanted):
                make_subnet(lab)


@contextlib.contextmanager
def _told_of_hosts(wanted: Wanted) -> Iterator[None]:
    """Adds advice about several hosts to errors of the block."""
    try:
        yield
    except ui.LabError as late:
        if not wanted.hosts:
            raise
        raise ui.LabError(f"{late}\nDoes each host have the package pib-switch, and did its libvirtd start after that "
                          "was installed? Do the others reach the first one's TCP port? What the switch of a host "
                          f"says:  journalctl -u 'pib-switch@*'   See {GUIDE}") from late


def reboot(lab: cluster.Cluster, name: str) -> None:
    """Restarts one guest. If it has a driver, waits until its connected ports are ACTIVE. The other guests may hang."""
    lab.reboot(name)
    node = lab.node(name)
    if not subnet.ports_of(node):
        return
    if name == MANAGER:
        subnet.start_manager(node)
    subnet.wait_active_again(lab, name, MANAGER)


def _check_memory(new: list[vm.Size]) -> None:
    sizes = [size.memory_mib for size in new]
    memory.check(f"{len(new)} guests", sum(min(vm.LEAST_USED_MIB, size) for size in sizes), sum(sizes),
                 "Take fewer or smaller ones:  ./pib up -n N --memory MIB")


def _check_share(lab: cluster.Cluster) -> None:
    for name in lab.nodes():
        if lab.node(name).run(["mountpoint", "-q", f"/{vm.SHARE}"]).returncode:
            raise ui.LabError(f"{name} has not mounted the directory as /{vm.SHARE}: its kernel needs 9p. Use that of "
                              "--kernel debian")


def make_subnet(lab: cluster.Cluster) -> list[subnet.Port]:
    subnet.wait_devices(lab)
    subnet.wait_connected(lab)
    ui.say("starting the subnet manager in vm0")
    subnet.start_manager(lab.node(MANAGER))
    ports = subnet.wait_active(lab)
    ipoib.wait_joined(lab, ports)
    return ports


def restart_switch(lab: cluster.Cluster, *options: str) -> None:
    """Restarts the switch with these options, and waits until the guests' ports are Active again."""
    hcas = {port.device for port in subnet.ports(lab) if port.lid}  # Soft-RoCE ports have no LID
    with lab.locked():
        lab.stop_switch()
        subnet.wait_down(lab, hcas)
        lab.start_switch(*options)
    subnet.wait_connected(lab)
    subnet.wait_active(lab)


def clear_errors(lab: cluster.Cluster, ports: list[subnet.Port], quiet_s: int = 0) -> None:
    """Clears the error counters if this command has started a switch or a guest, whose start takes links down. On a
    fabric that ran before, the counted errors stay for the user. ports: the guests' ports. quiet_s: as for
    counters.clear_errors()."""
    if ports and any(map(lab.has_started, {*lab.running()} - {cluster.HUB})):
        if counters.clear_errors(lab.node(MANAGER), subnet.topology_nodes(lab), quiet_s):
            evidence.note_cleared(lab)


def up(wanted: Wanted) -> int:
    lab = cluster.Cluster()
    try:
        boot(lab, wanted)
        ports = subnet.ports(lab)
        if not ports:
            print(ui.named("No guest has an InfiniBand device. Load a driver:  ./pib driver [DIR]"))
            return 0
        measured = _measured(lab) if wanted.count > 1 else {}
        clear_errors(lab, ports)
        print(ports_table.text(ports, measured))
        if measured:
            print("bandwidth: ib_write_bw, 64 KiB; latency: ib_write_lat, 8 bytes; vm0 to vm1")
    finally:
        if lab.nodes():
            print(ui.named("The guests keep running: ./pib exec vm0 -- ibnetdiscover, ./pib shell vm0, ./pib down"))
    return 0 if measured or wanted.count == 1 else 1


def _measured(lab: cluster.Cluster) -> dict[str, measure.Result]:
    """Measures between vm0 and vm1; returns results by guest. Prints a failure and returns {}; the guests keep
    running."""
    ui.say("measuring between vm0 and vm1")
    try:
        result = measure.measure(lab.node("vm0"), lab.node("vm1"), subnet.topology_nodes(lab))
    except (ui.LabError, subprocess.TimeoutExpired) as error:
        lab.check()
        ui.say(f"the measurement failed: {error}")
        return {}
    return {"vm0": result, "vm1": result}
