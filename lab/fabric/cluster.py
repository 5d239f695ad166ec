# SPDX-License-Identifier: GPL-2.0-or-later
"""A running lab: hub, switch, guests. up() starts and ends programs until exactly the wanted programs run."""

import contextlib
import pathlib
import shutil
import signal

from lab.base import paths, ui
from lab.build import guest_build, image
from lab.fabric import rundir, split, spread, state, switch_process, topology
from lab.fabric.recorded import Recorded
from lab.fabric.wanted import Wanted
from lab.guests import guest_kernel, initramfs, key, kvm, libvirt_xml, own_image, vm
from lab.guests.guest import Guest
from lab.hosts import connection

HUB = "hub"


def _number(name: str) -> int:
    """A guest's number; -1: not a guest's name."""
    number = name.removeprefix("vm")
    return int(number) if name != number and number.isdigit() else -1


def _names(wanted: Wanted) -> list[str]:
    """Names of the wanted guests."""
    return [f"vm{number}" for number in range(wanted.count)]


class Cluster(Recorded):
    """Guests vm0, vm1, … on one management network and, if the switch is built, on one fabric."""

    def __init__(self, directory: pathlib.Path | None = None):
        super().__init__(directory or paths.RUN)

    # -- looking ------------------------------------------------------------

    def nodes(self) -> list[str]:
        """Names of the running guests."""
        return sorted((name for name in self.running() if _number(name) >= 0), key=_number)

    def ended_nodes(self) -> list[str]:
        """Names of the guests that have ended although no command has ended them."""
        recorded = self.state.processes if self.state else {}
        return sorted((name for name in recorded if _number(name) >= 0 and not self.alive(name)), key=_number)

    def node(self, name: str) -> Guest:
        if not self.alive(name):
            running = ", ".join(self.nodes()) or "none"
            raise ui.LabError(f"{name} is not running (running: {running}). Start it:  ./pib up")
        if name not in self.record.ssh_ports:
            raise ui.LabError(f"{name} has not booted. Let ./pib up come to its end, or start it again:  ./pib up")
        return Guest(name, self.record.ssh_ports[name], self.key(),
                     self.sockets() / f"{name}.ssh", self.log(f"{name}.ssh"))

    def key(self) -> pathlib.Path:
        return self.directory / "key"

    def monitor(self, name: str) -> pathlib.Path:
        """The QMP socket of a guest's QEMU."""
        if self.record.hosts:
            raise ui.LabError(f"QEMU of {name} runs on another host: ask libvirt there for its monitor (virsh "
                              "qemu-monitor-command)")
        return vm.Files(name, self.sockets()).monitor

    def symbols(self, name: str = "") -> pathlib.Path:
        """Directory of the symbols of modules. With a name: modules that this guest has loaded since its boot; without:
        modules that guests load at boot."""
        return self.sockets() / (f"{name}.symbols" if name else "symbols")

    def switch(self, number: int = 0) -> switch_process.Switch | None:
        """A switch process, or None if it does not run. A fabric without --split has one process."""
        found = self._switch(number) if self.state else None
        return found if found and self.alive(found.name) else None

    def switches(self) -> list[switch_process.Switch]:
        """The running switch processes."""
        count = max(len(self.state.parts), 1) if self.state else 0
        return [found for number in range(count) if (found := self.switch(number))]

    def running_switches(self) -> list[switch_process.Switch]:
        """The running switch processes; an error if none runs."""
        if found := self.switches():
            return found
        if self.state and self.state.hosts:
            raise ui.LabError("the switches run on other hosts. There, as root:  pib-switch ctl --control "
                              f"{spread.names(self).control} COMMAND")
        raise ui.LabError("no switch runs. Start the lab:  ./pib up")

    def _switch(self, number: int, options: tuple[str, ...] = ()) -> switch_process.Switch:
        return switch_process.Switch(self.sockets(), options, number, self.record.topology)

    # -- starting -----------------------------------------------------------

    def up(self, wanted: Wanted, artefacts: list[pathlib.Path]) -> None:
        """Makes exactly the wanted guests run. Guests that already run as wanted are kept. After a failure, the
        programs that it has started are ended. artefacts: trees to lay over the image, which another command may build
        anew."""
        with self.locked(), self.ended_on_failure():
            self.end_strays()
            base = guest_kernel.image()
            uris = [host.uri for host in wanted.hosts]
            accel = connection.accelerator(uris) if uris else kvm.accelerator(base)
            if uris:
                libvirt_xml.check_processors(libvirt_xml.TYPES[accel], wanted.size.cpus)
            key.ensure(self.key())
            with guest_build.unchanged() if artefacts else contextlib.nullcontext():
                self._begin(base, accel, wanted, wanted.stamp(base, accel, artefacts, key.public(self.key())))
                new = [name for name in _names(wanted) if not self.alive(name)]
                boot = self._boot_files(base, wanted, artefacts) if new else None
            self._stop_surplus(wanted.count)
            if not wanted.hosts:
                self._start_hub()
                for number in range(max(len(wanted.parts), 1)):
                    self.start_switch(*wanted.switch_options(number), number=number)
            if boot:
                self._start_guests(boot, wanted, new)
            self._wait_booted([vm.Files(name, self.sockets()) for name in _names(wanted)])
            for name in self.nodes():
                self.node(name).connect()

    def _stop_surplus(self, count: int) -> None:
        """Stops the guests from number `count` on."""
        surplus = [name for name in self.nodes() if _number(name) >= count]
        if surplus:
            ui.say(f"stopping {', '.join(surplus)}, because the wanted number of guests is {count}: what these guests "
                   "have written to their disks is lost")
        for name in surplus:
            self.stop_node(name)

    def _begin(self, base: pathlib.Path, accel: str, wanted: Wanted, stamp: str) -> None:
        """Prepares the state for the wanted guests, and its files. Ends the running lab if it does not fit."""
        if self.state and (self.state.stamp != stamp or not rundir.ours(pathlib.Path(self.state.sockets))
                           or spread.lost(self)):
            if self.nodes():
                ui.say(f"{self._difference(wanted.described(base, accel))}. All guests start anew: what they have "
                       "written to their disks is lost")
            self.down()
        if not self.state:
            self.state = state.State(state.Place.of(self.directory), str(rundir.make()), accel, stamp,
                                     parts=wanted.parts, image=str(base), identity=image.identity(base),
                                     bare=not wanted.driver, own_image=str(wanted.image_file or ""),
                                     hosts=[host.uri for host in wanted.hosts],
                                     described=wanted.described(base, accel))
        self.state.topology = str(self._write_topology(wanted.wiring)) if wanted.net else ""
        link = self.sockets() / vm.LINK
        link.unlink(missing_ok=True)
        link.symlink_to(vm.MODULE.parent)
        self.save()

    def _difference(self, wanted: dict[str, str]) -> str:
        """The differences between the running guests and the wanted ones, in words."""
        before = self.record.described
        changed = [f"{name}: {wanted[name] or 'none'} (now: {before[name] or 'none'})" for name in wanted
                   if name in before and before[name] != wanted[name]]
        if changed:
            return f"the running guests differ in {'; '.join(changed)}"
        return "the guests' image, driver or programs, or the switch, have changed since the guests booted"

    def _write_topology(self, wiring: bytes) -> pathlib.Path:
        file = self.directory / "topology"
        file.write_bytes(wiring)
        return file

    def _start_hub(self) -> None:
        if self.alive(HUB):
            return
        path = self.sockets() / HUB
        path.unlink(missing_ok=True)
        self.start_and_wait(HUB, ["/usr/bin/python3", "-I", "-B", str(paths.ROOT / "lab" / "start.py"),
                                  "lab.guests.hub", str(path)], path.exists)

    def start_switch(self, *options: str, number: int = 0) -> None:
        """Starts a switch process, unless it runs or has not been built. number: that of the process in a split fabric.
        options: further options of pib-switch; with --only they replace the options of this part of the fabric."""
        switch = self._switch(number, options)
        if self.alive(switch.name) or not switch_process.built():
            return
        words = switch.argv()
        if self.record.parts and "--only" not in options:
            trunks = split.trunks(self.sockets(), len(self.record.parts))
            words += split.options(topology.load(pathlib.Path(switch.topology)), self.record.parts, number,
                                   trunks[number], trunks)
        switch.remove_sockets()
        self.start_and_wait(switch.name, words, switch.answers)

    def _start_guests(self, boot: vm.Boot, wanted: Wanted, new: list[str]) -> None:
        ui.say(f"booting {', '.join(new)} ({'KVM' if self.record.accel == 'kvm' else 'emulation, TCG'})")
        if wanted.hosts:
            spread.start_hosts(self, wanted, boot)
        for name in new:
            self._start_guest(self._machine(boot, wanted, _number(name)), wanted)

    def _boot_files(self, base: pathlib.Path, wanted: Wanted, artefacts: list[pathlib.Path]) -> vm.Boot:
        sockets = self.sockets()
        if wanted.image_file:
            return own_image.fit(wanted.image_file, base, self.record.accel, sockets, self.key())
        initrd = sockets / "initramfs.cpio"
        initramfs.make(base, initrd, artefacts, self.key())
        self._keep_symbols(artefacts)
        return vm.Boot(base / "vmlinuz", initrd, wanted.disk(base))

    def _start_guest(self, machine: vm.Machine, wanted: Wanted) -> None:
        machine.files.remove()
        self.record.ssh_ports.pop(machine.name, None)
        if wanted.hosts:
            self.start(machine.name, spread.guest(self, wanted, machine))
        else:
            self.start(machine.name, machine.argv(), machine.environment())

    def _keep_symbols(self, artefacts: list[pathlib.Path]) -> None:
        """Copies the symbols of the guests' modules, because the next build replaces the originals."""
        for found in filter(pathlib.Path.is_dir, (tree.with_name(f"{tree.name}.symbols") for tree in artefacts)):
            shutil.copytree(found, self.symbols(), dirs_exist_ok=True)

    def _wait_booted(self, machines: list[vm.Files]) -> None:
        """Waits until all guests have booted, also guests that an interrupted earlier command started."""
        late = [(machine, self.record.processes[machine.name]) for machine in machines
                if machine.name not in self.record.ssh_ports]
        ports = {machine.name: vm.wait_started(machine, running) for machine, running in late}
        vm.wait_ready(late)
        self.record.ssh_ports |= ports
        self.save()

    def _machine(self, boot: vm.Boot, wanted: Wanted, number: int) -> vm.Machine:
        sockets = self.sockets()
        return vm.Machine(number, boot, sockets, self.record.accel, sockets / HUB,
                          wanted.hcas_of(number, sockets) if vm.module_usable() else [], wanted.size_of(number),
                          sockets / "direct" if wanted.direct and number in (0, 1) else None, wanted.share)

    def reboot(self, name: str) -> None:
        """Restarts a guest with a fresh disk. The other guests and the fabric keep running."""
        with self.locked():
            command = self.record.commands.get(name)
            if not command or _number(name) < 0:
                guests = ", ".join(sorted(filter(lambda one: _number(one) >= 0, self.record.commands), key=_number))
                raise ui.LabError(f"{name} is not a guest of this lab. Its guests: {guests or 'none'}")
            ui.say(f"booting {name} anew ({'KVM' if self.record.accel == 'kvm' else 'emulation, TCG'})")
            self.stop_node(name)
            files = vm.Files(name, self.sockets())
            files.remove()
            shutil.rmtree(self.symbols(name), ignore_errors=True)
            self.start(name, command.argv, command.env)
            self._wait_booted([files])
            self.node(name).connect()

    # -- stopping -----------------------------------------------------------

    def stop_node(self, name: str) -> None:
        if name in self.record.ssh_ports and self.alive(name):
            self.node(name).disconnect()
        self.end(name)

    def stop_switch(self, first: int = signal.SIGTERM, number: int = 0) -> None:
        """Stops a switch process. first: the signal to send first."""
        if switch := self.switch(number):
            self.end(switch.name, first=first)
