# SPDX-License-Identifier: GPL-2.0-or-later
"""The labs that tests have booted, the kernel messages of their guests, and misuse that their devices name."""
import contextlib
import fcntl
import itertools
import os
import pathlib
import subprocess

from lab.base import paths, ui
from lab.build import image, kernel_module, kernel_tree
from lab.develop import commands, driver_coverage
from lab.fabric import cluster, up
from lab.fabric.wanted import Wanted
from lab.guests import vm

_running = []
_looks = itertools.count()
_last_look = {}         # last mark in the kernel's log, by guest
_named = {}             # misuse that the guest's device has named until the last look, by guest


def hca_options(own=""):
    """Properties of a lab's HCAs: its own, and those of PIB_TEST_HCA, which take precedence."""
    return ",".join(filter(None, (own, os.environ.get("PIB_TEST_HCA"))))


@contextlib.contextmanager
def booted(name, count, hca="", keep=False, **options):
    """Boots a lab, which ends with the block. hca: properties of its HCAs; keep: leaves the lab running; options:
    further fields of Wanted."""
    running = cluster.Cluster(paths.RUN / name)
    try:
        up.boot(running, Wanted(count, hca_options(hca), **options))
        _running.append(running)
        yield running
    finally:
        if running in _running:
            _running.remove(running)
            keep_coverage(running)
        if not keep:
            running.down()


def compiled(running, source):
    """Compiles the kernel modules of a directory for a lab's guests; returns their bytes, by name."""
    base = commands.image_of(running)
    tools = kernel_tree.tools(base)
    with tools.locked():
        modules = kernel_module.compile_for(image.kernel_version(base), tools, source).modules
        return {module.name: module.stripped.read_bytes() for module in modules}


def in_shared_memory(running):
    """Names of the guests whose devices have mapped the memory of a link."""
    return [name for name in running.nodes()
            if "/memfd:pib-link" in pathlib.Path(f"/proc/{running.record.processes[name].pid}/maps").read_text()]


def keep_coverage(running):
    """Adds what the drivers of the lab's guests have used to the file that PIB_TEST_COVERAGE names. The file lacks what
    guests used before a test ended or restarted them."""
    file = os.environ.get("PIB_TEST_COVERAGE")
    if not file or running.record.hosts:
        return
    with open(f"{file}.lock", "w", encoding="utf-8") as lock:     # labs of two shares of tests end at any time
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in running.nodes():
            with contextlib.suppress(ui.LabError, OSError):
                driver_coverage.merge(pathlib.Path(file), driver_coverage.of_guest(running, name, anew=True))


def new_misuse():
    """Misuse that the strict devices of all guests have named since the last call, by the guest's name. Refused
    commands, work requests and keys are not misuse."""
    named = {}
    for running in _running:
        for name in running.nodes():
            try:
                refusals = vm.device_property(running.monitor(name), "objects")["refusals"]
            except (ui.LabError, OSError):      # the guest has ended, or its HCA is unplugged
                continue
            guest = f"{name} of {running.directory.name}"
            found = {(entry["time_ns"], entry["text"]) for entry in refusals["entries"] if "accesses" in entry}
            named[guest] = sorted(text for _, text in found - _named.get(guest, set()))
            _named[guest] = found
    return named


def new_kernel_messages():
    """Kernel messages of each guest since the last call, by the guest's name."""
    mark = f"lab: look {os.getpid()}.{next(_looks)} at this log"
    asked = [(f"{node.name} of {running.directory.name}",
              node.start([f"echo '{mark}' >/dev/kmsg; dmesg"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE))
             for running in _running for node in map(running.node, running.nodes())]
    said = {}
    for guest, asking in asked:
        log = asking.communicate(timeout=120)[0].decode(errors="replace")
        assert mark in log, f"{guest} does not show its kernel's log"
        said[guest] = log.split(mark)[0]
        if guest in _last_look:
            said[guest] = said[guest].rsplit(_last_look[guest], 1)[-1]
        _last_look[guest] = mark
    return said
