# SPDX-License-Identifier: GPL-2.0-or-later
"""Connections to libvirtd. Only labs over several hosts need Debian's python3-libvirt."""

import contextlib
import os
import shlex
import xml.etree.ElementTree as xml
from collections.abc import Iterator

from lab.base import ui
from lab.guests import kvm


def library():
    try:
        import libvirt  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise ui.LabError("python3-libvirt is not installed. Run as root:  apt-get install python3-libvirt") from error
    libvirt.registerErrorHandler(lambda *_: None, None)     # otherwise libvirt also prints the errors that it raises
    return libvirt


def virsh(uri: str, *words: str) -> str:
    """A command for the user's shell that asks the libvirtd of a host."""
    return shlex.join(["virsh", "-c", uri, *words])


@contextlib.contextmanager
def opened(uri: str) -> Iterator:
    """Yields a connection, for one thread only: libvirt before 10.0 may not wake a thread that waits for a reply while
    another one uses the same connection. Raises libvirt's errors in the block as LabErrors that name the host."""
    libvirt = library()
    try:
        connection = libvirt.open(uri)
    except libvirt.libvirtError as error:
        raise ui.LabError(f"{uri}: {error}. Does libvirtd run there, and may you use it? Try:  "
                          + virsh(uri, "version")) from error
    try:
        yield connection
    except libvirt.libvirtError as error:
        raise ui.LabError(f"{uri}: {error}. What runs there:  " + virsh(uri, "list", "--all")) from error
    finally:
        with contextlib.suppress(libvirt.libvirtError):
            connection.close()


def _has_kvm(uri: str) -> bool:
    with opened(uri) as connection:
        found = xml.fromstring(connection.getCapabilities())
    kinds = [arch for arch in found.iterfind("guest/arch") if arch.get("name") == "x86_64"]
    if not kinds:
        raise ui.LabError(f"{uri}: libvirt knows no QEMU for x86_64 there. Install qemu-system-x86 and qemu-pib-hca")
    return any(domain.get("type") == "kvm" for arch in kinds for domain in arch.iterfind("domain"))


def accelerator(uris: list[str]) -> str:
    """The user's choice in the environment; else "kvm" if all hosts have KVM, else "tcg"."""
    found = [_has_kvm(uri) for uri in uris]
    chosen = os.environ.get(kvm.VARIABLE)
    return kvm.checked(chosen) if chosen else "kvm" if all(found) else "tcg"
