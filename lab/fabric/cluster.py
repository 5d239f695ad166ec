# SPDX-License-Identifier: GPL-2.0-or-later
"""A running lab: hub, switch, guests; its state is a file, so that every ./pib
command finds what an earlier one left running."""

import contextlib
import dataclasses
import fcntl
import json
import pathlib
import shutil
import subprocess
import tempfile

from lab import paths, process, ui
from lab.fabric import split, switch_process, topology
from lab.guests import guest_kernel, initramfs, kvm, remote, vm


MOST_NODES = 32                 # a switch has 36 ports; rc names 64 guests


@dataclasses.dataclass
class State:
    """State of the running lab. sockets: a short directory, because a socket's path has at most 107 bytes."""
    sockets: str
    accel: str
    stamp: str                  # digest of everything that the guests were started from
    processes: dict[str, process.Process] = dataclasses.field(default_factory=dict)
    ssh_ports: dict[str, int] = dataclasses.field(default_factory=dict)
    parts: list[list[str]] = dataclasses.field(default_factory=list)    # switches by process
    part_ports: list[int] = dataclasses.field(default_factory=list)     # TCP ports of processes

    def save(self, path: pathlib.Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1))

    @staticmethod
    def load(path: pathlib.Path) -> "State | None":
        try:
            data = json.loads(path.read_text())
            data["processes"] = {name: process.Process(**fields)
                                 for name, fields in data["processes"].items()}
            return State(**data)
        except (OSError, ValueError, TypeError, KeyError):
            return None


class Cluster:
    """Guests vm0 … on one management network and, if built, on one fabric."""

    def __init__(self, directory: pathlib.Path | None = None):
        self.directory = directory or paths.RUN
        self.directory.mkdir(parents=True, exist_ok=True)
        self.file = self.directory / "state.json"
        self.state = State.load(self.file)

    # -- looking ------------------------------------------------------------

    def alive(self, name: str) -> bool:
        return bool(self.state and name in self.state.processes
                    and self.state.processes[name].alive())

    def nodes(self) -> list[str]:
        """Names of the guests that run."""
        names = [name for name in (self.state.ssh_ports if self.state else ())
                 if self.alive(name)]
        return sorted(names, key=lambda name: int(name[2:]))

    def node(self, name: str) -> remote.Remote:
        if not self.state or not self.alive(name):
            running = ", ".join(self.nodes()) or "none"
            raise ui.LabError(f"{name} is not running (running: {running}). Start it:  ./pib up")
        sockets = pathlib.Path(self.state.sockets)
        return remote.Remote(name, self.state.ssh_ports[name], self.key(),
                             sockets / f"{name}.ssh", sockets / f"{name}.ssh.log")

    def key(self) -> pathlib.Path:
        return self.directory / "key"

    def monitor(self, name: str) -> pathlib.Path:
        """The QMP socket of a guest's QEMU."""
        return pathlib.Path(self.state.sockets) / f"{name}.qmp"

    def switch(self, number: int = 0) -> switch_process.Switch | None:
        """A process of the fabric, if it runs; a fabric that is not split has one process."""
        found = switch_process.Switch(pathlib.Path(self.state.sockets), number=number) if self.state else None
        return found if found and self.alive(found.name) else None

    # -- starting -----------------------------------------------------------

    @contextlib.contextmanager
    def locked(self):
        """Lock for the one command that changes the lab."""
        with open(self.directory / "lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                ui.say("waiting for another ./pib command to finish")
                fcntl.flock(lock, fcntl.LOCK_EX)
            self.state = State.load(self.file)
            yield

    def up(self, count: int, artefacts: list[pathlib.Path], *, hca_options: str = "",
           size: vm.Size = vm.Size(), fabric_file: pathlib.Path | None = None,
           direct: bool = False, processes: int = 1, hcas: bool = True) -> None:
        """Makes exactly count guests run, keeping those that already run what is wanted. With a
        topology file as fabric_file they are hosts of that fabric, which is as many processes, else
        at one switch. direct: vm0 and vm1 have a network cable to each other, too. hcas: False for
        guests without the device."""
        net = topology.load(fabric_file) if fabric_file else None
        parts = split.parts(net, processes) if net and processes > 1 else []
        places = topology.places(net, count) if net else None
        wiring = fabric_file.read_bytes() if fabric_file else b""
        base = guest_kernel.image()
        accel = kvm.accelerator(base)
        stamp = paths.recipe_hash(str(base), accel, hca_options, str(size),
                                  initramfs.stamp(artefacts), switch_process.stamp(), wiring,
                                  str(count) if net else "", str(direct), str(parts), str(hcas))
        if self.state and self.state.stamp != stamp:
            if self.nodes():
                ui.say("what the guests run has changed: starting them anew")
            self.down()
        if not self.state:
            self.state = State(tempfile.mkdtemp(prefix="pib-"), accel, stamp, parts=parts,
                               part_ports=[vm.free_port() for _ in parts])
            self._save()
            if net:
                switch_process.Switch(pathlib.Path(self.state.sockets)).topology.write_bytes(wiring)
        self._make_key()
        for surplus in [name for name in self.nodes() if int(name[2:]) >= count]:
            self.stop_node(surplus)
        self._start_hub()
        for number in range(max(len(parts), 1)):
            self.start_switch(number=number)
        devices = [[self._hca(number, places, hca_options, net)] if hcas else [] for number in range(count)]
        self._start_guests(base, devices, artefacts, size, direct)

    def _save(self) -> None:
        self.state.save(self.file)

    def _make_key(self) -> None:
        if not self.key().exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "pib-lab",
                            "-f", self.key()], check=True, stdin=subprocess.DEVNULL)
        self.key().chmod(0o600)     # ssh refuses a key that others can read

    def _start_hub(self) -> None:
        if self.alive("hub"):
            return
        sockets = pathlib.Path(self.state.sockets)
        path, log = sockets / "hub", sockets / "hub.log"
        path.unlink(missing_ok=True)
        started = process.start(["/usr/bin/python3", "-B", "-m", "lab.guests.hub", path], log)
        process.wait_for("the management network", path.exists, started, log, 30)
        self.state.processes["hub"] = started
        self._save()

    def start_switch(self, *options: str, number: int = 0) -> None:
        """Starts the switch, or that process of a split fabric, unless it runs or has not been
        built. options: of the program; with --only they replace those of the process."""
        switch = switch_process.Switch(pathlib.Path(self.state.sockets), options, number)
        if self.alive(switch.name) or not switch_process.built():
            return
        if self.state.parts and "--only" not in options:
            net = topology.load(switch.topology)
            switch.options += tuple(split.options(net, self.state.parts, number,
                                                  self.state.part_ports))
        self.state.processes[switch.name] = switch.start()
        self._save()

    def _hca(self, number: int, places: list[topology.Node] | None, options: str,
             net: topology.Net | None) -> vm.Hca:
        """A guest's device: one of its own, or the host of the topology that it stands for."""
        directory = pathlib.Path(self.state.sockets)
        if not places:
            return vm.default_hca(number, switch_process.Switch(directory).address, options)
        host = places[number]
        part = split.part_of(net, self.state.parts, host) if self.state.parts else 0
        address = switch_process.Switch(directory, number=part).address
        if host.ports > 1 and "ports=" not in options:
            options = ",".join(filter(None, (f"ports={host.ports}", options)))
        return vm.Hca(address, host.guid, host.port_guid(1), options)

    def _start_guests(self, base: pathlib.Path, hcas: list[list[vm.Hca]], artefacts: list[pathlib.Path],
                      size: vm.Size, direct: bool) -> None:
        wanted = [number for number in range(len(hcas)) if not self.alive(f"vm{number}")]
        if not wanted:
            return
        ui.say(f"booting {', '.join(f'vm{number}' for number in wanted)} "
               f"({'KVM' if self.state.accel == 'kvm' else 'emulation, TCG'})")
        sockets = pathlib.Path(self.state.sockets)
        initrd = initramfs.make(base, sockets / "initramfs.cpio", artefacts,
                                self.key().with_suffix(".pub"))
        machines = [self._machine(base, initrd, number, hcas[number], size)
                    for number in wanted]
        for machine in machines:
            if direct and machine.number in (0, 1):
                machine.direct = sockets / "direct"
        for machine in machines:
            self.state.processes[machine.name] = vm.start(machine)
            self.state.ssh_ports[machine.name] = machine.ssh_port
            self._save()
        for machine in machines:
            vm.wait_ready(machine, self.state.processes[machine.name])
            self.node(machine.name).connect()

    def _machine(self, base: pathlib.Path, initrd: pathlib.Path, number: int, hcas: list[vm.Hca],
                 size: vm.Size) -> vm.Machine:
        sockets = pathlib.Path(self.state.sockets)
        for name in ("console", "qmp", "ssh"):
            (sockets / f"vm{number}.{name}").unlink(missing_ok=True)
        return vm.Machine(number, base / "vmlinuz", initrd, base / "root.ext4", sockets,
                          self.state.accel, vm.free_port(), sockets / "hub",
                          hcas if vm.module_usable() else [], size)

    # -- stopping -----------------------------------------------------------

    def stop_node(self, name: str) -> None:
        if self.alive(name):
            self.node(name).disconnect()
            self.state.processes[name].stop()
        self.state.processes.pop(name, None)
        self.state.ssh_ports.pop(name, None)
        self._save()

    def stop_switch(self, signal: int, number: int = 0) -> None:
        """signal: to begin with."""
        if switch := self.switch(number):
            self.state.processes[switch.name].stop(signal)

    def down(self) -> None:
        """Stops all processes and removes the state. Safe to call when nothing runs."""
        if not self.state:
            return
        for name in list(self.state.ssh_ports):
            self.stop_node(name)
        for running in self.state.processes.values():
            running.stop()
        shutil.rmtree(self.state.sockets, ignore_errors=True)
        self.file.unlink(missing_ok=True)
        self.state = None
