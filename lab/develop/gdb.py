# SPDX-License-Identifier: GPL-2.0-or-later
"""gdb at the kernel of a running guest, or at the guest's QEMU, with symbols and commands."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
from collections.abc import Iterator

from lab.base import paths, ui
from lab.build import deps, kernel_symbols, symbols
from lab.develop import gdb_server, kernel_place
from lab.fabric.cluster import Cluster
from lab.guests import relay

VARIABLE = "PIB_GDB"            # environment variable: parameters of the script that gdb runs first, as JSON
SCRIPTS = pathlib.Path(__file__).parent
INDEX = "index"                 # gdb's index cache, in the directory of a kernel's symbols
PTRACE_SCOPE = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
DEVICE = "pib-hca-device.so"
MAY_NOT = ("This user may not look into other processes. On a host of your own:  sudo sysctl kernel.yama.ptrace_scope=0"
           "   and in a container:  podman run --cap-add SYS_PTRACE …")


def program() -> str:
    if not paths.INSTALLED:
        deps.install(deps.DEBUGGER_LIST)
    if found := shutil.which("gdb"):
        return found
    raise ui.LabError("there is no gdb. Install it as root:  apt-get install gdb")


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ignores Ctrl-C during the block: gdb handles it and stops what it debugs. The handler does nothing; gdb would
    inherit SIG_IGN, but inherits no handler."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run(script: str, parameters: dict, words: list[str]) -> int:
    """Runs gdb with the script and then the user's words; returns its exit status."""
    argv = ["env", f"{VARIABLE}={json.dumps(parameters)}", program(), "-q",
            # Files of the debugged program are trusted, the .gdbinit of the working directory is not.
            "-iex", "set auto-load safe-path /", "-iex", "set auto-load local-gdbinit off",
            "-x", str(SCRIPTS / script), *words]
    with _without_interrupts():
        return relay.run(argv)


def of_command(words: list[str]) -> int:
    """Runs gdb at the start of a program of this machine. words: its command line."""
    with _without_interrupts():
        return relay.run([program(), "-q", "-ex", "set breakpoint pending on", "--args", *words])


# -- the guest's kernel ----------------------------------------------------------

def parameters_of(lab: Cluster, name: str, known: kernel_symbols.Kernel, socket: pathlib.Path) -> dict:
    """The parameters of in_gdb_kernel.py. Modules exchanged since the boot precede those of the boot, and these precede
    Debian's."""
    ours = [lab.symbols(name), lab.symbols()]
    sources = dict(known.sources)
    for directory in reversed(ours):
        sources |= symbols.sources(directory)
    return {"vmlinux": str(known.vmlinux), "offset": kernel_place.offset(lab.monitor(name), known),
            "per_cpu_from_0": not known.address("__per_cpu_start"),
            "socket": str(socket), "modules": [str(directory) for directory in (*ours, known.modules)],
            "sources": sources, "source": str(known.source), "scripts": str(known.scripts or ""),
            "index": str(known.directory / INDEX)}


def kernel(lab: Cluster, name: str, base: pathlib.Path, words: list[str]) -> int:
    """Runs gdb at a guest's kernel. base: the image that the guest runs."""
    lab.node(name)              # raises LabError if the guest does not run
    program()
    known = kernel_symbols.ensure(base)
    ui.say(f"looking for the kernel of {name} in its memory")
    with gdb_server.started(lab, name) as socket:
        return _run("in_gdb_kernel.py", parameters_of(lab, name, known, socket), words)


# -- the guest's QEMU ------------------------------------------------------------

def check_current(maps: str, name: str) -> None:
    """Checks that QEMU runs the present build of the device, because gdb reads symbols from the device's file. maps:
    the process's /proc/PID/maps."""
    mapped = [line for line in maps.splitlines() if f"/{DEVICE}" in line]
    if not mapped:
        raise ui.LabError(f"{name} has no device of ours. Build it, and start the guest anew:  ./pib down   and  "
                          "./pib up")
    if any(line.endswith(" (deleted)") for line in mapped):
        raise ui.LabError(f"the device was rebuilt since {name} started, so its symbols do not match. Restart "
                          f"the guest:  ./pib reboot {name}")


def check_allowed(scope: str, root: bool) -> None:
    """Checks whether this user may attach to QEMU. scope: Yama's ptrace_scope; "" without Yama."""
    if scope.strip() not in ("", "0") and not root:
        raise ui.LabError(f"gdb cannot attach to QEMU. {MAY_NOT}")


def device(lab: Cluster, name: str, words: list[str]) -> int:
    if not lab.alive(name):
        raise ui.LabError(f"{name} is not running (running: {', '.join(lab.nodes()) or 'none'}). Start it:  ./pib up")
    check_allowed(PTRACE_SCOPE.read_text() if PTRACE_SCOPE.exists() else "", os.geteuid() == 0)
    pid = lab.record.processes[name].pid
    check_current(pathlib.Path(f"/proc/{pid}/maps").read_text(), name)
    ui.say(f"attaching gdb to QEMU of {name}, process {pid}, and reading its symbols; the guest stands still until gdb "
           "continues QEMU")
    return _run("in_gdb_device.py", {"pid": pid, "advice": ui.named(MAY_NOT)}, words)
