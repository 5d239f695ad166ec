# SPDX-License-Identifier: GPL-2.0-or-later
"""The process of a lab that keeps the lab's files on one host while it runs.

    python3 -I -B lab/start.py lab.hosts.host URI LAB DIRECTORY

It copies the files in DIRECTORY/switch for the host's switch, and the files in DIRECTORY/guests for its guests, and
then creates DIRECTORY/ready."""

import contextlib
import pathlib
import signal
import sys

from lab.base import signals
from lab.hosts import connection, place, pool, program


def _clear(host, names: place.Names) -> None:
    """Removes the lab's domains and files on the host, also those that an earlier process left."""
    for domain in host.listAllDomains(0):
        if domain.name().startswith(names.domain("")):
            with contextlib.suppress(connection.library().libvirtError):    # the domain has ended meanwhile
                domain.destroy()
    pool.remove(host, names.switch_pool)
    pool.remove(host, names.lab)


def _files(directory: pathlib.Path) -> dict[str, pathlib.Path]:
    return {file.name: file for file in sorted(directory.iterdir())}


def _serve(uri: str, names: place.Names, directory: pathlib.Path) -> None:
    try:
        with connection.opened(uri) as host:
            _clear(host, names)
            print("copying the files of the switch", flush=True)
            pool.make(host, names.switch_pool, names.switch_files, _files(directory / "switch"))
            print("copying kernel, initramfs and disk of the guests", flush=True)
            pool.make(host, names.lab, names.guest_files, _files(directory / "guests"))
        (directory / "ready").touch()
        while True:
            signal.pause()
    finally:
        with signals.held_off(), connection.opened(uri) as host:
            _clear(host, names)


def main() -> int:
    uri, lab, directory = sys.argv[1:]
    return program.run(lambda: _serve(uri, place.Names(lab), pathlib.Path(directory)))


if __name__ == "__main__":
    sys.exit(main())
