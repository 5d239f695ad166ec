# SPDX-License-Identifier: GPL-2.0-or-later
"""One guest: its QEMU command line, and booting it."""

import dataclasses
import json
import os
import pathlib
import socket

from lab import paths, process, ui

QEMU = "qemu-system-x86_64"
MODULE = paths.BUILD / "qemu-hw" / "glue" / "libpib-hca.so"
READY = "lab: ready"
BOOT_S = 900                    # only a hang takes this long, on whatever host
# Locally administered EUI-64s: "pib", the kind of thing, its number.
NODE_GUID = 0x0270_6962_0001_0000
PORT_GUID = 0x0270_6962_0002_0000
PORTS_PER_NODE = 16             # room in the numbering, not in the device
DIRECT_MTU = 9000
ZERO_COPY = "zero-copy=switch"  # property of an HCA; the guest's memory must be such that others can map it
MOST_CPUS = 64


@dataclasses.dataclass
class Hca:
    """One -device pib-hca. fabric: address of the switch, e.g. unix:PATH."""
    fabric: str
    node_guid: int
    port_guid: int
    extra: str = ""             # more properties, as on the command line

    def argv(self, slot: int) -> list[str]:
        device = (f"pib-hca,id=hca{slot},bus=fabric{slot},fabric={self.fabric},node-guid={self.node_guid:#018x},"
                  f"port-guid={self.port_guid:#018x}")
        return ["-device", f"pcie-root-port,id=fabric{slot},chassis={slot + 1}",
                "-device", device + (f",{self.extra}" if self.extra else "")]


def default_hca(number: int, fabric: str, extra: str = "") -> Hca:
    return Hca(fabric, NODE_GUID + number, PORT_GUID + number * PORTS_PER_NODE, extra)


def direct_mac(number: int) -> str:
    """Address of a guest's card at the direct cable."""
    return f"52:54:00:70:02:{number & 0xff:02x}"


@dataclasses.dataclass(frozen=True)
class Size:
    """Settings of each guest."""
    memory_mib: int = 1024
    cpus: int = 1


@dataclasses.dataclass
class Machine:
    """All parameters of a guest's command line."""
    number: int
    kernel: pathlib.Path
    initrd: pathlib.Path
    disk: pathlib.Path
    directory: pathlib.Path     # short: holds sockets
    accel: str                  # "kvm" or "tcg"
    ssh_port: int
    hub: pathlib.Path | None
    hcas: list[Hca]
    size: Size = Size()
    direct: pathlib.Path | None = None  # socket of a network cable between vm0 and vm1

    @property
    def name(self) -> str:
        return f"vm{self.number}"

    @property
    def console(self) -> pathlib.Path:
        return self.directory / f"{self.name}.console"

    @property
    def monitor(self) -> pathlib.Path:
        return self.directory / f"{self.name}.qmp"

    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(MODULE)} if self.hcas else {}

    def argv(self) -> list[str]:
        return [QEMU, "-name", self.name, *self._machine(), *self._boot(), *self._disk(),
                *self._networks(), *self._channels(),
                *(word for slot, hca in enumerate(self.hcas) for word in hca.argv(slot))]

    def _machine(self) -> list[str]:
        # Five-level page tables make every TLB miss of an emulated processor longer.
        cpu = "host" if self.accel == "kvm" else "max,la57=off"
        # With a thread for each processor QEMU 10.0 sometimes crashes at boot, when one of them reads a map of memory
        # that another one has just changed: iotlb_to_section: Assertion `section_index < ...' failed.
        accel = "tcg,thread=single" if self.accel == "tcg" and self.size.cpus > 1 else self.accel
        memory = f"{self.size.memory_mib}M"
        shared = any(ZERO_COPY in hca.extra for hca in self.hcas)
        return ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                *(["-object", f"memory-backend-memfd,id=ram,share=on,size={memory}"] if shared else []),
                "-machine", "q35,memory-backend=ram" if shared else "q35",
                "-accel", accel, "-cpu", cpu,
                "-smp", str(self.size.cpus), "-m", memory]

    def _boot(self) -> list[str]:
        line = (f"console=ttyS0 quiet panic=-1 net.ifnames=0 mitigations=off "
                f"lab.node={self.number}")
        return ["-kernel", str(self.kernel), "-initrd", str(self.initrd), "-append", line]

    def _disk(self) -> list[str]:
        return ["-drive", f"file={self.disk},format=raw,if=none,id=root,snapshot=on",
                "-device", "virtio-blk-pci,drive=root",
                "-object", "rng-random,id=entropy,filename=/dev/urandom",
                "-device", "virtio-rng-pci,rng=entropy"]

    def _networks(self) -> list[str]:
        low = self.number.to_bytes(2, "big").hex(":")
        words = ["-netdev", f"user,id=exec,restrict=on,ipv6=off,"
                            f"hostfwd=tcp:127.0.0.1:{self.ssh_port}-10.0.2.15:22",
                 "-device", f"virtio-net-pci,netdev=exec,mac=52:54:00:70:01:{low[-2:]},romfile="]
        if self.hub:
            words += ["-netdev", f"stream,id=lan,server=off,addr.type=unix,addr.path={self.hub}",
                      "-device",
                      f"virtio-net-pci,netdev=lan,mac=52:54:00:70:00:{low[-2:]},romfile="]
        return words + (self._direct() if self.direct else [])

    def _direct(self) -> list[str]:
        end = "server=on" if self.number == 0 else "server=off,reconnect-ms=100"
        return ["-netdev", f"stream,id=direct,{end},addr.type=unix,addr.path={self.direct}",
                "-device", f"virtio-net-pci,netdev=direct,mac={direct_mac(self.number)},"
                           f"host_mtu={DIRECT_MTU},romfile="]

    def _channels(self) -> list[str]:
        return ["-chardev", f"file,id=console,path={self.console}", "-serial", "chardev:console",
                "-qmp", f"unix:{self.monitor},server=on,wait=off"]


def free_port() -> int:
    """A free TCP port of the loopback address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(machine: Machine) -> process.Process:
    """Starts QEMU; the guest boots meanwhile."""
    log = machine.directory / f"{machine.name}.qemu"
    started = process.start(machine.argv(), log, machine.environment())
    process.wait_for(f"QEMU of {machine.name}", machine.monitor.exists, started, log, 30)
    return started


def wait_ready(machine: Machine, running: process.Process) -> None:
    """Waits until the guest's start-up files have run."""
    def ready() -> bool:
        return machine.console.exists() and READY in machine.console.read_text(errors="replace")
    try:
        process.wait_for(machine.name, ready, running, machine.directory / f"{machine.name}.qemu",
                         BOOT_S)
    except ui.LabError as error:
        raise ui.LabError(f"{error}\nconsole of {machine.name}:\n"
                          f"{ui.tail(machine.console)}") from error


def monitor_command(path: pathlib.Path, command: str, /, **arguments):
    """One QMP command; its return value."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        sock.connect(str(path))
        stream = sock.makefile("rw")
        stream.readline()
        for execute, given in (("qmp_capabilities", {}), (command, arguments)):
            stream.write(json.dumps({"execute": execute, "arguments": given}) + "\n")
            stream.flush()
            while "event" in (answer := json.loads(stream.readline())):
                pass
        if "error" in answer:
            raise ui.LabError(f"{command}: {answer['error'].get('desc')}")
        return answer["return"]


def monitor_line(path: pathlib.Path, line: str) -> str:
    """Output of a command of the human monitor."""
    return monitor_command(path, "human-monitor-command", **{"command-line": line})


def device_property(path: pathlib.Path, name: str, slot: int = 0):
    """A JSON property of an HCA, decoded."""
    # pylint: disable-next=positional-only-arguments-expected,redundant-keyword-arg
    return json.loads(monitor_command(path, "qom-get", path=f"/machine/peripheral/hca{slot}", property=name))


def module_usable() -> bool:
    """Whether the device has been built."""
    return os.access(MODULE, os.R_OK) and (MODULE.parent / "pib-hca-device.so").exists()
