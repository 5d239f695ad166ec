# SPDX-License-Identifier: GPL-2.0-or-later
"""A lab over several hosts: this machine runs a process for each host and a process for each guest."""

import pathlib
import shutil
import tempfile
import urllib.parse

from lab.base import process, ui
from lab.fabric import host_switches, recorded
from lab.fabric.wanted import Wanted
from lab.guests import vm
from lab.hosts import domain, place, program

COPY_S = 7200                   # reached only by a hang: the guests' disk is copied to the host


def names(lab: recorded.Recorded) -> place.Names:
    return place.Names.of(lab.record.place.machine, lab.record.place.directory)


def title(number: int) -> str:
    """Name of the process for a host."""
    return f"host{number}"


def lost(lab: recorded.Recorded) -> list[str]:
    """URIs of hosts whose process has ended. If there is one, all hosts are set up again, because their certificates
    are made together."""
    return [uri for number, uri in enumerate(lab.record.hosts) if not lab.alive(title(number))]


def placed(lab: recorded.Recorded, guests: list[str]) -> dict[int, list[str]]:
    """Names of these guests, by number of their host."""
    found: dict[int, list[str]] = {number: [] for number in range(len(lab.record.hosts))}
    for name in guests:
        found[lab.record.hosts.index(lab.record.commands[name].argv[URI])].append(name)
    return found


def check(wanted: Wanted) -> None:
    """Raises the errors of a topology that does not fit hosts or guests, before anything is built."""
    for number in range(wanted.count):
        wanted.host_of(number)
    for number in range(len(wanted.hosts)):
        host_switches.guids(wanted.net, wanted.parts, number)


def start_hosts(lab: recorded.Recorded, wanted: Wanted, boot: vm.Boot) -> None:
    """Starts the hosts' processes, which copy the files to all hosts in parallel. Does nothing if all of them run."""
    if not lost(lab):
        return
    late = range(len(wanted.hosts))
    with tempfile.TemporaryDirectory(dir=lab.sockets()) as work:
        keys = pathlib.Path(work) / "ca"
        host_switches.make_ca(keys)
        for number in late:
            _lay_out(lab.sockets() / title(number), wanted, boot, number, keys)
    for number in late:
        where = lab.sockets() / title(number)
        lab.start(title(number), program.words("lab.hosts.host", wanted.hosts[number].uri, names(lab).lab, where))
    for number in late:
        where = lab.sockets() / title(number)
        process.wait_for(f"copying to {wanted.hosts[number]}", (where / "ready").exists,
                         lab.record.processes[title(number)], lab.log(title(number)), COPY_S)


def _lay_out(where: pathlib.Path, wanted: Wanted, boot: vm.Boot, number: int, keys: pathlib.Path) -> None:
    """Makes the directories with the files for a host's switch and guests. One CA signs the certificates of all hosts;
    its key is not kept."""
    shutil.rmtree(where, ignore_errors=True)
    for kind in ("switch", "guests"):
        (where / kind).mkdir(parents=True, mode=0o700)
    for name, source in ((domain.KERNEL, boot.kernel), (domain.INITRD, boot.initrd), (domain.DISK, boot.disk)):
        (where / "guests" / name).symlink_to(source)
    guids = host_switches.guids(wanted.net, wanted.parts, number)
    for file in host_switches.certify(keys, number, wanted.hosts[number], guids):
        shutil.copy(file, where / "switch")
    words = host_switches.options(wanted.hosts, wanted.net, wanted.parts, number)
    (where / "switch" / host_switches.OPTIONS).write_text(f"PLACED={' '.join(words)}\n")
    if wanted.net:
        (where / "switch" / host_switches.TOPOLOGY).write_bytes(wanted.wiring)


SEVERAL = ("web", "why", "map", "metrics")        # commands that take the control sockets of several processes
SSH = ("ssh", "libssh", "libssh2")      # transports of libvirt


def _ssh(uri: str) -> str:
    """Words for ssh that lead to root of a host; "" for this machine. Only in a URI with ssh as transport the port is
    that of the ssh server."""
    parts = urllib.parse.urlsplit(uri)
    if not parts.hostname:
        return ""
    port = f"-p {parts.port} " if parts.port and parts.scheme.partition("+")[2] in SSH else ""
    return f"{port}root@{parts.hostname}"


def refuse(lab: recorded.Recorded, command: str) -> None:
    """An error if the lab's switches run on other hosts, with what the user can do: ssh forwards their sockets."""
    if not lab.state or not lab.state.hosts:
        return
    control = names(lab).control
    if command == "top":
        raise ui.LabError("top: QEMU and the switches run on other hosts. Port counters are there, as root:  "
                          f"pib-switch ctl --control {control} counters")
    hosts = [_ssh(uri) for uri in lab.state.hosts]
    sockets = [lab.sockets() / f"{title(number)}.control" if host else control
               for number, host in enumerate(hosts)]
    if command not in SEVERAL:
        hosts, sockets = hosts[:1], sockets[:1]
    forward = [f"  ssh -fN -L {socket}:{control} {host}" for socket, host in zip(sockets, hosts) if host]
    raise ui.LabError("\n".join([
        f"{command}: the switches run on other hosts. Forward their control sockets to this machine:", *forward,
        "Then:", f"  ./pib {command} {' '.join(f'--control {socket}' for socket in sockets)}"]))


URI = len(program.words("lab.hosts.guest"))     # index of the URI in the command line of a guest's process


def guest(lab: recorded.Recorded, wanted: Wanted, machine: vm.Machine) -> list[str]:
    """Writes the guest's domain; returns the command line of the guest's process."""
    called, host = names(lab), wanted.hosts[wanted.host_of(machine.number)]
    machine.files.domain.write_text(domain.text(machine, called))
    return program.words("lab.hosts.guest", host.uri, called.lab, machine.name, machine.directory)
