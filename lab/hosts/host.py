# SPDX-License-Identifier: GPL-2.0-or-later
"""The process of a lab that has files on one host for as long as it runs.

    python3 -I -B lab/start.py lab.hosts.host URI LAB DIRECTORY

The files in DIRECTORY/switch are for the host's switch, those in DIRECTORY/guests for its guests. DIRECTORY/ready
appears when they are there."""

import contextlib
import pathlib
import signal
import sys

from lab import signals
from lab.hosts import connection, place, pool, program


def _clear(host, names: place.Names) -> None:
    """Removes what this lab has on the host, also what an earlier process has left."""
    for domain in host.listAllDomains(0):
        if domain.name().startswith(names.domain("")):
            with contextlib.suppress(connection.library().libvirtError):    # it has ended meanwhile
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
