# SPDX-License-Identifier: GPL-2.0-or-later
"""The process of a lab that represents a guest on another host, as QEMU represents a guest on this host.

    python3 -I -B lab/start.py lab.hosts.guest URI LAB NAME DIRECTORY

It starts the domain of DIRECTORY/NAME.xml, writes the console to DIRECTORY/NAME.console, and accepts connections for
the guest's ssh server at a loopback port, whose number it writes to DIRECTORY/NAME.port. The domain ends with this
process, and this process with the domain."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

from lab.base import signals, ui
from lab.guests import vm
from lab.hosts import connection, owner, place, pool, program
from lab.hosts.domain import DISK

LOOK_S = 2


def _start(host, names: place.Names, name: str, text: str):
    """Creates the domain, paused, with a new disk layer. Ends an earlier domain of this name."""
    libvirt = connection.library()
    try:
        host.lookupByName(names.domain(name)).destroy()
    except libvirt.libvirtError:
        pass                        # there is no earlier domain
    pool.make_layer(host, names.lab, f"{name}.qcow2", DISK)
    return host.createXML(text, libvirt.VIR_DOMAIN_START_PAUSED | libvirt.VIR_DOMAIN_START_AUTODESTROY)


def _opened_console(host, domain, flags: int):
    stream = host.newStream(0)
    domain.openConsole(None, stream, flags)
    return stream


def _copy_console(host, name: str, file: pathlib.Path) -> None:
    """Copies the console of the domain to a file, in a thread. host: a connection that only this thread uses. The user
    can take the console by `virsh console --force`; the thread opens it again after that."""
    libvirt = connection.library()
    domain = host.lookupByName(name)
    first = _opened_console(host, domain, libvirt.VIR_DOMAIN_CONSOLE_FORCE)

    def copy() -> None:
        with open(file, "wb", buffering=0) as out:
            stream = first
            while True:
                with contextlib.suppress(libvirt.libvirtError):     # the user or the domain's end has closed it
                    stream = stream or _opened_console(host, domain, 0)
                    while data := stream.recv(1 << 12):
                        with contextlib.suppress(OSError):          # on a full disk text is lost, and the guest runs on
                            out.write(data)
                stream = None
                if not _lives(domain):
                    return                                          # _relay() returns as well
                time.sleep(LOOK_S)
    threading.Thread(target=copy, daemon=True).start()


def _lives(domain) -> bool:
    try:
        return bool(domain.isActive())
    except connection.library().libvirtError:
        return False


def _may_connect(taken: socket.socket) -> bool:
    try:
        return owner.user(taken) in (os.getuid(), 0)
    except OSError:                 # the client has gone
        return False


def _relay(listener: socket.socket, domain, uri: str) -> None:
    """Starts a process for each connection of this user or root, until the domain ends. Each process ends the one
    before, because the guest has one channel for ssh."""
    listener.settimeout(LOOK_S)
    children: list[subprocess.Popen] = []
    while _lives(domain):
        children = [child for child in children if child.poll() is None]
        try:
            taken, _ = listener.accept()
        except TimeoutError:
            continue
        with taken:
            if not _may_connect(taken):
                continue
            taken.settimeout(None)
            children.append(subprocess.Popen(program.words("lab.hosts.channel", uri, domain.name()),
                                             stdin=taken.fileno(), stdout=taken.fileno()))


def _serve(uri: str, names: place.Names, name: str, directory: pathlib.Path) -> None:
    files = vm.Files(name, directory)
    with (connection.opened(uri) as host, connection.opened(uri) as host_of_console,
          socket.create_server(("127.0.0.1", 0)) as listener):
        domain = _start(host, names, name, files.domain.read_text())
        try:
            _copy_console(host_of_console, domain.name(), files.console)
            domain.resume()
            files.port.write_text(str(listener.getsockname()[1]))
            _relay(listener, domain, uri)
        finally:
            with signals.held_off():
                if _lives(domain):
                    domain.destroy()
    raise ui.LabError(f"{uri}: the domain {names.domain(name)} has ended, or the connection to its host. What runs "
                      "there:  " + connection.virsh(uri, "list", "--all"))


def main() -> int:
    uri, lab, name, directory = sys.argv[1:]
    return program.run(lambda: _serve(uri, place.Names(lab), name, pathlib.Path(directory)))


if __name__ == "__main__":
    sys.exit(main())
