# SPDX-License-Identifier: GPL-2.0-or-later
"""Exchanges the driver in running guests."""

import contextlib
import dataclasses
import secrets
import shlex
import subprocess
import tempfile
import time

from lab.base import errors, ui, waiting
from lab.build import kernel_module, symbols
from lab.develop import hang, ipoib
from lab.fabric import report
from lab.fabric.cluster import Cluster
from lab.guests import vm
from lab.guests.guest import ANSWER_S, Guest, answers

LIMIT_S = 30                    # limit for unloading and loading; after it the guest counts as hung
STUCK_ANSWER_S = 3              # limit for the answer of a guest with a stuck processor
NMI_S = 15                      # limit for the guest's report after an NMI
PROGRAM = "/usr/local/lib/lab/exchange"
MODULES = "/run/lab/modules"    # directory in the guest
LOST = "not loaded again: "     # start of the program's line about a module
UNCHANGED, UNDONE = 2, 6        # statuses of the program after which the former driver is loaded
ADVICE = {
    UNCHANGED: "the driver that runs cannot be unloaded. End the programs that use it, or start the guest anew:  "
       "./pib reboot {node}",
    3: "the new driver cannot be loaded, and the former one is gone. Mend it and run ./pib driver again: addresses of "
       "IPoIB and modules that used the driver come back then",
    4: "the new driver is loaded, but its probe failed. Mend it and run ./pib driver again",
    5: "the new driver is loaded, but vfio-pci has the HCA. Take it back, as examples/userspace-driver/bind.sh undo "
       "does, and run ./pib driver again",
    UNDONE: "a module of the driver that runs cannot be unloaded, and those that had been unloaded before are loaded "
       "again, except any named above. End the programs that use it, or start the guest anew:  ./pib reboot {node}",
}


Interfaces = tuple[list[ipoib.Interface], list[dict]]      # with their routes


@dataclasses.dataclass(frozen=True)
class Exchanged:
    """A successful exchange. kernel: the kernel's messages during it."""
    node: str
    kernel: str
    seconds: float


def exchange(lab: Cluster, name: str, compiled: kernel_module.Compiled) -> Exchanged:
    node, begun = lab.node(name), time.monotonic()
    node.connect()
    mark = f"lab: exchange {secrets.token_hex(4)}"
    files = [_put(node, module) for module in compiled.modules]
    interfaces = ipoib.look(node)
    manager = _manager(node)
    former = symbols.keep(compiled, lab.symbols(name))
    status, said = _run(lab, node, [PROGRAM, *kernel_module.pci_id(), *files], mark)
    if status in (UNCHANGED, UNDONE):
        symbols.put_back(former)
    kernel = report.explain(lab, name, _messages(node, mark))
    if status:
        if status != UNCHANGED:
            _restore_after_failure(node, manager, interfaces)
        advice = ADVICE.get(status, f"status {status}").format(node=name)
        raise ui.LabError(f"{name}: {said.strip()}\n{kernel}\n{advice}")
    for line in said.splitlines():
        if line.startswith(LOST):
            ui.say(f"{name}: {ui.printable(line)}. Load it in the guest:  ./pib shell {name}")
    _restore(node, manager, interfaces)
    return Exchanged(name, kernel, time.monotonic() - begun)


def _restore(node: Guest, manager: list[str], interfaces: Interfaces) -> None:
    if manager:
        _restart_manager(node, manager)
    if complaint := ipoib.restore(node, *interfaces):
        ui.say(f"{node.name}: IPoIB could not be configured as before: {complaint}. Configure the rest in the guest:  "
               f"./pib shell {node.name}")


def _restore_after_failure(node: Guest, manager: list[str], interfaces: Interfaces) -> None:
    """Restores subnet manager and interfaces if the guest has an InfiniBand device, because the next exchange saves the
    interfaces anew then. Without a device the subnet manager runs on, and the saved interfaces are kept."""
    try:
        if not node.run([f"{ipoib.IF_ANY}exit 1"]).returncode:
            return
        _restore(node, manager, interfaces)
    except (ui.LabError, subprocess.TimeoutExpired) as error:
        ui.say(f"{node.name}: IPoIB and the subnet manager are not restored: {errors.sentence(error)}. Look at the "
               f"guest:  ./pib shell {node.name}")


def _put(node: Guest, module: kernel_module.Module) -> str:
    """Copies a module into the guest; returns its path there."""
    path = f"{MODULES}/{module.file.name}"
    done = node.run([f"mkdir -p {MODULES} && cat >{path}"], stdin=module.stripped.read_bytes())
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise ui.LabError(f"{node.name} does not take {module.file.name}: {said}. Look at its console:  "
                          f"./pib console {node.name}")
    return path


def _messages(node: Guest, mark: str) -> str:
    """The kernel's messages since the mark."""
    said = node.run(["dmesg"]).stdout.decode(errors="replace")
    return ui.printable(said.rpartition(mark)[2].strip("\n").replace("\t", " "))


def _manager(node: Guest) -> list[str]:
    """Command line of the subnet manager in the guest; empty if none runs."""
    return node.run(["pid=$(pidof opensm) && cat /proc/${pid%% *}/cmdline"]).stdout.decode().split("\0")[:-1]


def _restart_manager(node: Guest, words: list[str]) -> None:
    """Restarts opensm, which has lost its port. SIGKILL, because without a port SIGTERM does not end opensm. opensm
    must run until the driver is gone: IPoIB leaves its multicast groups before that and waits for the manager's
    answers."""
    line = ("pkill -KILL -x opensm; while pidof opensm >/dev/null; do sleep 0.1; done; udevadm settle; "
            f"exec {shlex.join(words)}")
    if (done := node.run([line], timeout_s=LIMIT_S)).returncode:
        ui.say(f"{node.name}: the subnet manager did not start again: {done.stderr.decode(errors='replace').strip()}. "
               f"Start it in the guest:  {shlex.join(words)}")


# -- a guest that may not come back ---------------------------------------------

def check_answers(lab: Cluster, name: str) -> None:
    """Raises an error that says where the guest hangs, if an earlier driver has left it in a loop."""
    _run(lab, lab.node(name), ["true"], "lab: before an exchange")


def _run(lab: Cluster, node: Guest, command: list[str], mark: str) -> tuple[int, str]:
    """Runs a command that may crash the guest's kernel; returns its status and output."""
    watch = report.Watch(lab, node.name)
    line = f"echo '{mark}' >/dev/kmsg; exec {' '.join(command)}"
    with tempfile.TemporaryFile() as out:
        running = node.start([line], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            _wait(lab, node, running, watch)
        finally:
            running.kill()
            running.wait()
        watch.check()
        out.seek(0)
        return running.returncode, out.read().decode(errors="replace")


def _wait(lab: Cluster, node: Guest, running: subprocess.Popen, watch: report.Watch) -> None:
    processors = hang.Processors(lambda: lab.monitor(node.name))

    def check() -> None:
        try:
            watch.check()
        except report.LockedUp as error:
            if answers(node, STUCK_ANSWER_S):
                raise _lockup(lab, node, error) from error
            _interrupt(lab, node, watch)
        if processors.stuck():
            if answers(node, STUCK_ANSWER_S):
                processors.forget()
            elif processors.stuck():    # it has not moved meanwhile: the guest is not merely slow
                _interrupt(lab, node, watch)
        if not lab.alive(node.name):
            raise ui.LabError(f"{node.name} has ended. Its console said last:\n{ui.said(watch.console)}\n"
                              f"Start it again:  ./pib reboot {node.name}")
    try:
        waiting.poll(f"the exchange in {node.name}", lambda: running.poll() is not None, LIMIT_S, check=check)
    except waiting.TooLate as error:
        _explain_hang(lab, node, watch)
        raise error


def _lockup(lab: Cluster, node: Guest, error: report.LockedUp) -> report.Faulted:
    """The error of a guest that answers after a lockup. Its log has the place that a quiet console does not show."""
    try:
        said = node.run(["dmesg"], timeout_s=ANSWER_S).stdout.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return error
    _, lockup, rest = said.rpartition(report.LOCKUP)
    if not lockup:
        return error
    place = report.explain(lab, node.name, report.first(lockup + rest))
    return report.Faulted(f"{node.name} answers, but its kernel has reported:\n{ui.printable(place)}\n"
                          f"Start the guest anew:  ./pib reboot {node.name}")


def _explain_hang(lab: Cluster, node: Guest, watch: report.Watch) -> None:
    """Raises an error that says where the guest hangs."""
    if not lab.alive(node.name):
        return
    if answers(node):
        stacks = node.run(["for pid in $(pidof insmod rmmod modprobe); do echo $pid $(cat /proc/$pid/comm); "
                           "cat /proc/$pid/stack; done"], timeout_s=ANSWER_S).stdout.decode(errors="replace")
        raise ui.LabError(f"{node.name} answers, but the exchange does not end after {LIMIT_S} s. It waits in:\n"
                          f"{report.explain(lab, node.name, stacks.strip())}\nIf that does not end, start the guest "
                          f"anew:  ./pib reboot {node.name}")
    _interrupt(lab, node, watch)


def _interrupt(lab: Cluster, node: Guest, watch: report.Watch) -> None:
    """Raises an error that says where the guest hangs. Its kernel does not survive that."""
    ui.say(f"{node.name} does not answer any more: asking its processor where it is, by an NMI")
    with contextlib.suppress(ui.LabError):
        vm.monitor_command(lab.monitor(node.name), "inject-nmi")
    try:
        waiting.poll(f"a report of {node.name}", lambda: False, NMI_S, check=watch.check)
    except report.Faulted:
        raise
    except ui.LabError as error:
        raise ui.LabError(f"{node.name} hangs, and its console says nothing. Start it anew:  "
                          f"./pib reboot {node.name}") from error
