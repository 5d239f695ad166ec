# SPDX-License-Identifier: GPL-2.0-or-later
"""A dump of a running guest's memory and of its HCAs' objects at the same moment: the guest is stopped meanwhile."""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator

from lab.base import signals, ui, waiting
from lab.build import elf, kernel_symbols
from lab.develop import kernel_place
from lab.fabric import evidence
from lab.fabric.cluster import Cluster
from lab.guests import vm

FORMAT = "kdump-raw-zlib"
WRITE_S = 3600                  # limit for writing a dump, reached only by a hang
WORD = 4                        # bytes of a word
PAGE_WORDS = 1024               # VMCOREINFO has at most one page
WITHOUT_NOTES = ("An option of the kernel adds it:  scripts/config --enable PROC_KCORE && make olddefconfig bzImage "
                 "modules   and  {}")


def notes(monitor: pathlib.Path, known: kernel_symbols.Kernel) -> str:
    """The kernel's VMCOREINFO note, which debuggers need. The kernel prepares it at boot."""
    moved = kernel_place.offset(monitor, known)

    def number(symbol: str) -> int:
        low, high = kernel_place.words(monitor, known.address(symbol, WITHOUT_NOTES.format(known.again)) + moved, 2)
        return low | high << 32
    length = number("vmcoreinfo_size")
    found = kernel_place.words(monitor, number("vmcoreinfo_data"), min(-(-length // WORD), PAGE_WORDS))
    return b"".join(word.to_bytes(WORD, "little") for word in found)[:length].decode(errors="replace")


def _write(monitor: pathlib.Path, file: pathlib.Path) -> None:
    def status() -> str:
        return vm.monitor_command(monitor, "query-dump")["status"]

    def ended() -> bool:
        now = status()
        if now == "failed":
            raise ui.LabError(f"QEMU cannot write {file}. Is there room?  df {file.parent}   Another place:  "
                              "./pib crash --output FILE NODE")
        return now == "completed"
    try:
        vm.monitor_command(monitor, "dump-guest-memory", paging=False, protocol=f"file:{file}", detach=True,
                           **{"format": FORMAT})
        waiting.poll(f"writing {file.name}", ended, WRITE_S, doing=lambda: f"{file.stat().st_size >> 20} MiB")
    except KeyboardInterrupt:
        ui.say("waiting until QEMU has written the dump: the guest stands still until then")
        with signals.held_off():
            waiting.poll("the end of the dump", lambda: status() != "active", WRITE_S)
        raise


def _make_private(file: pathlib.Path) -> None:
    """Makes an empty file that only this user may read: the guest's memory may have keys and passwords."""
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        raise ui.LabError(f"{file} exists already. Name another file, or remove it") from error


def about(file: pathlib.Path) -> pathlib.Path:
    """The JSON file beside a dump with the facts that in_drgn.py needs."""
    return file.with_name(f"{file.name}.json")


@contextlib.contextmanager
def _removed_on_failure(file: pathlib.Path) -> Iterator[None]:
    """If the block fails, removes an unfinished file of a dump, which nothing can open."""
    try:
        yield
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _facts(lab: Cluster, name: str, known: kernel_symbols.Kernel, monitor: pathlib.Path) -> dict:
    return {"notes": notes(monitor, known), "hcas": evidence.objects(monitor), "vmlinux": str(known.vmlinux),
            "build_id": elf.build_id(known.vmlinux).value.hex() if known.tree else "",
            "modules": [str(directory) for directory in (lab.symbols(name), lab.symbols(), known.modules)]}


def take(lab: Cluster, name: str, known: kernel_symbols.Kernel, file: pathlib.Path) -> None:
    """Writes the dump, and the file beside it."""
    monitor = lab.monitor(name)
    _make_private(file)
    with _removed_on_failure(file):
        with vm.standing(monitor):
            facts = _facts(lab, name, known, monitor)
            ui.say(f"writing the memory of {name} to {file}; the guest stands still meanwhile")
            _write(monitor, file)
        with _removed_on_failure(about(file)):
            about(file).write_text(json.dumps(facts))


def check_symbols(file: pathlib.Path) -> None:
    """Checks that the tree of a dump's kernel still has that build, if the kernel was built in a tree."""
    facts = json.loads(about(file).read_text())
    if not (wanted := facts.get("build_id")):
        return
    vmlinux = pathlib.Path(facts["vmlinux"])
    if not vmlinux.is_file() or elf.build_id(vmlinux).value.hex() != wanted:
        raise ui.LabError(f"{file} is of a kernel whose symbols are gone: {vmlinux} was removed or built again. Make "
                          "a dump of the present kernel:  ./pib crash --output FILE NODE")


def remove(file: pathlib.Path) -> None:
    for one in (file, about(file)):
        one.unlink(missing_ok=True)
