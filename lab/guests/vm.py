# SPDX-License-Identifier: GPL-2.0-or-later
"""One guest: its QEMU command line and its boot."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import socket
from collections.abc import Iterator

from lab.base import paths, process, ui, waiting
from lab.guests import hca_properties

QEMU = "qemu-system-x86_64"
MODULE = paths.DEVICE
LINK = "glue"                   # name of a link in the lab's short directory to the directory of the device's library
READY = "lab: ready"
# Five-level page tables make every TLB miss of an emulated processor slower.
CPU = {"kvm": "host", "tcg": "max,la57=off"}
BOOT_S = 900                    # reached only by a hang, even on a slow host
BOOT_EACH_S = 60                # additional time for each guest that boots at the same time
MONITOR_S = 10
FORWARDED = re.compile(r"TCP\[HOST_FORWARD\].*?127\.0\.0\.1 +(\d+) ")     # format of "info usernet"
# Locally administered EUI-64s: "pib", the kind of object, its number. They begin with 0x06, because SRP
# targets use their GUID as service ID, and ib_cm refuses service IDs that begin with 0x02.
NODE_GUID = 0x0670_6962_0001_0000
PORT_GUID = 0x0670_6962_0002_0000
PORTS_PER_NODE = 16             # port GUIDs reserved for each guest; the device has fewer ports
NUMBERS = 1 << 12               # numbers of virtual machines; the next one would have the port GUID of a switch
DIRECT_MTU = 9000
PEER_COPY = "peer-copy=on"      # property of an HCA; needs guest memory that other processes can map
SHARE = "share"                 # mount tag of the shared host directory; guests mount it as /share
MOST_CPUS = 64
LEAST_MEMORY_MIB = 256          # a guest with less does not boot
LEAST_USED_MIB = 400            # memory that a guest and its QEMU use after the boot, independent of the guest's size


def value(path: pathlib.Path | str) -> str:
    """Escapes a path or an address for a QEMU option, in which commas separate values."""
    return str(path).replace(",", ",,")


@dataclasses.dataclass
class Hca:
    """One -device pib-hca. fabric: address of the switch, e.g. unix:PATH."""
    fabric: str
    node_guid: int
    port_guid: int
    extra: str = ""             # further properties, as on the command line

    def argv(self, slot: int) -> list[str]:
        device = (f"pib-hca,id=hca{slot},bus=fabric{slot},fabric={value(self.fabric)},"
                  f"node-guid={self.node_guid:#018x},port-guid={self.port_guid:#018x}")
        return ["-device", f"pcie-root-port,id=fabric{slot},chassis={slot + 1}",
                "-device", device + (f",{self.extra}" if self.extra else "")]


def default_hca(number: int, fabric: str, extra: str = "") -> Hca:
    return Hca(fabric, NODE_GUID + number, PORT_GUID + number * PORTS_PER_NODE, extra)


def direct_mac(number: int) -> str:
    """MAC address of a guest's network card on the direct cable."""
    return f"52:54:00:70:02:{number & 0xff:02x}"


@dataclasses.dataclass(frozen=True)
class Size:
    """Size of each guest. iommu: its devices' DMA goes through an emulated IOMMU, which the guest's kernel programs."""
    memory_mib: int = 1024
    cpus: int = 1
    iommu: bool = False


@dataclasses.dataclass(frozen=True)
class Files:
    """Files of a guest in the lab's short directory. serial: socket of its console. console: the console's output."""
    name: str
    directory: pathlib.Path

    @property
    def console(self) -> pathlib.Path:
        return self.directory / f"{self.name}.console"

    @property
    def serial(self) -> pathlib.Path:
        return self.directory / f"{self.name}.serial"

    @property
    def monitor(self) -> pathlib.Path:
        return self.directory / f"{self.name}.qmp"

    @property
    def log(self) -> pathlib.Path:
        return self.directory / f"{self.name}.log"

    @property
    def domain(self) -> pathlib.Path:
        """File with the libvirt domain of a guest on another host."""
        return self.directory / f"{self.name}.xml"

    @property
    def port(self) -> pathlib.Path:
        """File with the number of the local port that leads to the ssh server of a guest on another host."""
        return self.directory / f"{self.name}.port"

    def remove(self) -> None:
        """Removes files that an earlier guest of this name has left."""
        for file in (self.console, self.serial, self.monitor, self.port, self.directory / f"{self.name}.ssh"):
            file.unlink(missing_ok=True)


@dataclasses.dataclass(frozen=True)
class Boot:
    """Files from which guests boot. Guests never write them. line: further words of the kernel's command line."""
    kernel: pathlib.Path
    initrd: pathlib.Path
    disk: pathlib.Path
    format: str = "raw"
    line: str = ""


@dataclasses.dataclass
class Machine:
    """All parameters of a guest's QEMU command line."""
    number: int
    boot: Boot
    directory: pathlib.Path     # short: holds sockets
    accel: str                  # "kvm" or "tcg"
    hub: pathlib.Path | None
    hcas: list[Hca]
    size: Size = Size()
    direct: pathlib.Path | None = None  # socket of the network cable between vm0 and vm1
    share: pathlib.Path | None = None   # host directory that guests mount as /share

    @property
    def name(self) -> str:
        return f"vm{self.number}"

    @property
    def files(self) -> Files:
        return Files(self.name, self.directory)

    def environment(self) -> dict[str, str]:
        """Additional environment of QEMU. LD_PRELOAD uses the link, because it splits at spaces and colons, which the
        checkout's path may contain."""
        return {"LD_PRELOAD": str(self.directory / LINK / MODULE.name)} if self.hcas else {}

    def argv(self) -> list[str]:
        return [QEMU, "-name", self.name, *self._machine(), *self._boot(), *self._disk(),
                *self._networks(), *self._share(), *self._channels(),
                *(word for slot, hca in enumerate(self.hcas) for word in hca.argv(slot))]

    def _machine(self) -> list[str]:
        # With a thread for each processor QEMU 10.0 sometimes crashes at boot, when one thread reads a memory map that
        # another thread has just changed: iotlb_to_section: Assertion `section_index < ...' failed.
        accel = "tcg,thread=single" if self.accel == "tcg" and self.size.cpus > 1 else self.accel
        memory = f"{self.size.memory_mib}M"
        shared = any(hca_properties.is_on(hca.extra, "peer-copy") for hca in self.hcas)
        kind = ",".join(["q35", *(["memory-backend=ram"] if shared else []),
                         *(["kernel-irqchip=split"] if self.size.iommu and self.accel == "kvm" else [])])
        return ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                *(["-object", f"memory-backend-memfd,id=ram,share=on,size={memory}"] if shared else []),
                "-machine", kind, "-accel", accel, "-cpu", CPU[self.accel],
                "-smp", str(self.size.cpus), "-m", memory,
                *(["-device", "intel-iommu,intremap=on"] if self.size.iommu else [])]   # before devices that use it

    def line(self) -> str:
        """The kernel's command line. iomem=relaxed lets root map the HCA's registers, to read its clock, while the
        driver uses them. If a device is strict, the kernel zeroes memory that a driver frees, and an IOMMU no longer
        maps it: the device notices that a queue was freed too early."""
        strict = any(hca_properties.is_strict(hca.extra) for hca in self.hcas)
        words = f"{self.boot.line} init_on_free=1 iommu.strict=1" if strict else self.boot.line
        return (f"console=ttyS0 quiet panic=-1 unknown_nmi_panic net.ifnames=0 iomem=relaxed "
                f"mitigations=off lab.node={self.number} systemd.hostname={self.name} {words}".rstrip())

    def _boot(self) -> list[str]:
        return ["-kernel", str(self.boot.kernel), "-initrd", str(self.boot.initrd), "-append", self.line()]

    def _disk(self) -> list[str]:
        return ["-drive", f"file={value(self.boot.disk)},format={self.boot.format},if=none,id=root,snapshot=on",
                "-device", "virtio-blk-pci,drive=root",
                "-object", "rng-random,id=entropy,filename=/dev/urandom",
                "-device", "virtio-rng-pci,rng=entropy"]

    def _networks(self) -> list[str]:
        low = self.number.to_bytes(2, "big").hex(":")
        words = ["-netdev", "user,id=exec,restrict=on,ipv6=off,"
                            "hostfwd=tcp:127.0.0.1:0-10.0.2.15:22",
                 "-device", f"virtio-net-pci,netdev=exec,mac=52:54:00:70:01:{low[-2:]},romfile="]
        if self.hub:
            words += ["-netdev", "stream,id=lan,server=off,reconnect-ms=100,addr.type=unix,"
                                 f"addr.path={value(self.hub)}",
                      "-device",
                      f"virtio-net-pci,netdev=lan,mac=52:54:00:70:00:{low[-2:]},romfile="]
        return words + (self._direct(self.direct) if self.direct else [])

    def _direct(self, socket: pathlib.Path) -> list[str]:
        end = "server=on" if self.number == 0 else "server=off,reconnect-ms=100"
        return ["-netdev", f"stream,id=direct,{end},addr.type=unix,addr.path={value(socket)}",
                "-device", f"virtio-net-pci,netdev=direct,mac={direct_mac(self.number)},"
                           f"host_mtu={DIRECT_MTU},romfile="]

    def _share(self) -> list[str]:
        """Options for the shared directory. security_model=none: files belong to the user who runs QEMU, whatever owner
        the guest sets."""
        if not self.share:
            return []
        return ["-fsdev", f"local,id=share,path={value(self.share)},security_model=none,multidevs=remap",
                "-device", f"virtio-9p-pci,fsdev=share,mount_tag={SHARE}"]

    def _channels(self) -> list[str]:
        console = f"path={value(self.files.serial)},logfile={value(self.files.console)}"
        return ["-chardev", f"socket,id=console,server=on,wait=off,{console}", "-serial", "chardev:console",
                "-qmp", f"unix:{value(self.files.monitor)},server=on,wait=off"]


def _ssh_port(machine: Files) -> int | None:
    """The loopback port that QEMU, or the process that stands for a guest on another host, forwards to the guest's ssh
    server; None: not known yet."""
    if machine.port.exists():
        return int(machine.port.read_text() or 0)
    try:
        found = FORWARDED.search(monitor_line(machine.monitor, "info usernet"))
    except ui.LabError:
        return None
    return int(found[1]) if found else None


def wait_started(machine: Files, running: process.Process) -> int:
    """Waits until QEMU runs; returns the loopback port of the guest's ssh server."""
    return process.wait_for(f"QEMU of {machine.name}", lambda: _ssh_port(machine), running, machine.log, BOOT_S)


def _ready(machine: Files) -> bool:
    return machine.console.exists() and READY in machine.console.read_text(errors="replace")


def _heard(console: pathlib.Path) -> int:
    """Number of different lines that a console has had, compared without digits and punctuation. systemd repeats a line
    with another time while a job hangs, which is not progress."""
    text = console.read_text(errors="replace") if console.exists() else ""
    return len({re.sub(r"[\W\d]+", " ", ui.printable(line)) for line in re.split(r"[\r\n]+", text)})


def wait_ready(booting: list[tuple[Files, process.Process]]) -> None:
    """Waits until the start-up scripts of all these guests have ended. The time limit restarts when a guest prints
    something new on its console: an image of the user's own may need long to boot on an emulated processor."""
    def check() -> None:
        for machine, running in booting:
            if not running.alive():
                raise ui.LabError(f"{machine.name} has ended. Start it again:  ./pib up   QEMU said:\n"
                                  f"{ui.tail(machine.log)}\n"
                                  f"Its console said last:\n{ui.said(machine.console)}")

    def doing() -> str:
        late = [machine for machine, _ in booting if not _ready(machine)]
        return ", ".join(f"{machine.name} {ui.tail(machine.console, 1)}".strip() for machine in late)
    waiting.poll("booting", lambda: all(_ready(machine) for machine, _ in booting),
                 BOOT_S + BOOT_EACH_S * len(booting), check=check, doing=doing,
                 progress=lambda: [_heard(machine.console) for machine, _ in booting])


def monitor_command(path: pathlib.Path, command: str, /, **arguments):
    """Executes a QMP command; returns its return value."""
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(MONITOR_S)
            sock.connect(str(path))
            with sock.makefile("rw") as stream:
                return _converse(stream, command, arguments)
    except (OSError, ValueError) as error:      # QEMU has ended; an empty line is not JSON
        raise ui.LabError(f"{path}: QEMU does not answer {command} ({error}). What runs:  ./pib status") from error


def _converse(stream, command: str, arguments: dict):
    stream.readline()
    for execute, given in (("qmp_capabilities", {}), (command, arguments)):
        stream.write(json.dumps({"execute": execute, "arguments": given}) + "\n")
        stream.flush()
        while "event" in (answer := json.loads(stream.readline())):
            pass
    if "error" in answer:
        raise ui.LabError(f"{command}: {answer['error'].get('desc')}")
    return answer["return"]


@contextlib.contextmanager
def standing(monitor: pathlib.Path) -> Iterator[None]:
    """Stops a guest's processors and devices during the block, so that its port takes no frame from the link's ring."""
    ran = monitor_command(monitor, "query-status")["running"]
    monitor_command(monitor, "stop")
    try:
        yield
    finally:
        if ran:
            monitor_command(monitor, "cont")


def monitor_line(path: pathlib.Path, line: str) -> str:
    """The output of a command of the human monitor."""
    return monitor_command(path, "human-monitor-command", **{"command-line": line})


def get_property(path: pathlib.Path, name: str, slot: int = 0):
    """A property of an HCA."""
    # pylint: disable-next=positional-only-arguments-expected,redundant-keyword-arg
    return monitor_command(path, "qom-get", path=f"/machine/peripheral/hca{slot}", property=name)


def set_property(path: pathlib.Path, name: str, value, slot: int = 0) -> None:
    # pylint: disable-next=positional-only-arguments-expected,redundant-keyword-arg
    monitor_command(path, "qom-set", path=f"/machine/peripheral/hca{slot}", property=name, value=value)


def device_property(path: pathlib.Path, name: str, slot: int = 0):
    """A property of an HCA, decoded from JSON."""
    return json.loads(get_property(path, name, slot))


def module_usable() -> bool:
    """Whether the device has been built."""
    return os.access(MODULE, os.R_OK) and (MODULE.parent / "pib-hca-device.so").exists()
