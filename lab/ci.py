# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib ci: boots guests, runs one command on the host, collects logs and states, and ends the guests.

The last two steps are taken also after a failed boot, a command that hangs, or a signal.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import functools
import io
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import threading
import xml.etree.ElementTree as xml
from collections.abc import Callable, Iterator

from lab import junit, reach, settings
from lab.base import errors, groups, paths, signals, ui
from lab.fabric import cluster, counters, subnet, switch_process, up, wanted
from lab.guests import relay

VERDICT = "junit.xml"
REPORT = "pib ci"
OUTPUT = "command.log"
CAPTURE = "fabric.pcap"
ANSWER_S = 20                   # limit for fetching one file from a guest
MOST_AT_ONCE = 1 << 16          # octets
DRAIN_S = 10                    # limit for reading the command's last output: its children may keep the pipe open
TIMED_OUT = 124                 # exit status, as timeout(1) has it
# Files to collect from each guest: name of the result, and the command in the guest that prints it.
GUEST_FILES = {"dmesg": "dmesg", "opensm.log": "cat /var/log/opensm.log 2>/dev/null"}


@dataclasses.dataclass(frozen=True)
class Job:
    """A command to run. command: its words. folder: place of the results. limit_s: its time limit; None: none."""
    command: list[str]
    folder: pathlib.Path
    limit_s: float | None = None


def _of_ci(folder: pathlib.Path) -> bool:
    """Whether the folder has a verdict of ./pib ci. Other programs write files of this name too."""
    try:
        return xml.parse(folder / VERDICT).getroot().get("name") == REPORT
    except (OSError, ValueError, xml.ParseError):
        return False


def _fresh(folder: pathlib.Path) -> None:
    """Makes the folder, or empties it if it has results of an earlier run. Refuses one that has anything else, or that
    cannot be written: the command would find that out only after the boot."""
    if folder.exists() and not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        raise ui.LabError(f"--output {folder}: that is no directory to which you can write. Permit it, or name another")
    if pathlib.Path.cwd().is_relative_to(folder.resolve()):
        raise ui.LabError(f"--output {folder}: the folder is emptied, and the working directory is in it. Name another")
    if folder.exists() and any(folder.iterdir()):
        if not _of_ci(folder):
            raise ui.LabError(f"{folder} is not empty, and not of an earlier run. Name another:  --output DIR")
        _empty(folder)
    folder.mkdir(parents=True, exist_ok=True)


def _empty(folder: pathlib.Path) -> None:
    """Removes what is in a folder. The folder stays, because it may be a link, or a mount point of a container. The
    verdict, by which the folder is known, goes last."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name == VERDICT):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


# -- the command -------------------------------------------------------------

def _environment(lab: cluster.Cluster, folder: pathlib.Path) -> dict[str, str]:
    config = folder / "ssh-config"
    config.write_text(reach.ssh_config(lab))
    return {**os.environ, "PIB": paths.PROGRAM, "PIB_NODES": " ".join(lab.nodes()), "PIB_SSH_CONFIG": str(config),
            "PIB_RESULTS": str(folder)}


def _copy(output: io.BufferedReader, *targets: Callable[[bytes], object]) -> None:
    """Copies the output to all targets as it comes: a line may be long, or have no end. An error of one target, such as
    a closed terminal, does not affect the others."""
    while part := output.read1(MOST_AT_ONCE):
        for target in targets:
            with contextlib.suppress(OSError):
                target(part)


def _run(job: Job, env: dict[str, str]) -> int:
    """Runs the command; returns its exit status. Its output goes to the terminal and to a file."""
    with open(job.folder / OUTPUT, "wb", buffering=0) as kept:
        process = groups.RUNNING.start(job.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, env=env)
        screen = functools.partial(ui.write, sys.stdout.fileno())
        copier = threading.Thread(target=_copy, args=(process.stdout, kept.write, screen), daemon=True)
        copier.start()
        try:
            return relay.status(process.wait(job.limit_s))
        except subprocess.TimeoutExpired:
            ui.say(f"the command was ended after {job.limit_s:.0f} s. Give it more time:  --timeout SECONDS")
            return TIMED_OUT
        finally:
            with signals.held_off():
                groups.stop(process)
                groups.RUNNING.forget(process)
                copier.join(DRAIN_S)


# -- results -----------------------------------------------------------------

@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Prints the error of a result that cannot be written. Other results and the command's status are kept."""
    try:
        yield
    except (ui.LabError, OSError) as error:
        ui.say(f"a result is missing: {errors.sentence(error)}")


def _keep(file: pathlib.Path, content: Callable[[], bytes]) -> None:
    """Writes content() to a file, or its error message if it fails; nothing if it is empty."""
    try:
        text = content()
    except (ui.LabError, OSError, subprocess.SubprocessError) as error:
        text = f"pib: {errors.sentence(error)}\n".encode()
    with _told():
        if text:
            file.write_bytes(text)


def _of_guest(lab: cluster.Cluster, name: str, line: str) -> bytes:
    if not lab.node(name).control.exists():     # ssh would wait for ANSWER_S
        raise ui.LabError(f"{name} has not booted. Its console is in {name}.console")
    return lab.node(name).run([line], timeout_s=ANSWER_S).stdout


def _of_switch(switch: switch_process.Switch) -> bytes:
    return switch.ctl("status", timeout_s=ANSWER_S).encode()


def _collect(lab: cluster.Cluster, folder: pathlib.Path) -> None:
    """Collects what needs no guest first: the user may lose patience, or a CI system end this command."""
    for file in sorted([*lab.sockets().glob("*.log"), *lab.sockets().glob("*.console")]):
        _keep(folder / file.name, file.read_bytes)
    for switch in lab.switches():
        _keep(folder / f"{switch.name}.status", functools.partial(_of_switch, switch))
    names = lab.nodes()
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(len(names), 1)) as askers:
        list(askers.map(functools.partial(_collect_of_guest, lab, folder), names))


def _collect_of_guest(lab: cluster.Cluster, folder: pathlib.Path, name: str) -> None:
    """Collects a guest's files. After a guest has failed to answer once, it is asked no more."""
    silent: list[subprocess.TimeoutExpired] = []

    def of(line: str) -> bytes:
        if silent:
            raise silent[0]
        try:
            return _of_guest(lab, name, line)
        except subprocess.TimeoutExpired as late:
            silent.append(late)
            raise
    for kind, line in GUEST_FILES.items():
        _keep(folder / f"{name}.{kind}", functools.partial(of, line))


def _save(lab: cluster.Cluster, folder: pathlib.Path) -> None:
    """Collects results. An error must not keep the guests from being ended."""
    with _told():
        _collect(lab, folder)


def _write_results(lab: cluster.Cluster, folder: pathlib.Path, report: junit.Report) -> None:
    """Writes verdict and logs to the folder, which the command may have removed, as  git clean -fdx  does."""
    with _told():
        if not folder.exists():
            ui.say(f"the command has removed {folder}: what it printed is not kept")
        folder.mkdir(parents=True, exist_ok=True)
    with _told():
        report.write(folder / VERDICT)
    if lab.state:
        _save(lab, folder)
    ui.say(f"results are in {folder}")


def _finish(lab: cluster.Cluster, folder: pathlib.Path, report: junit.Report) -> None:
    try:
        _write_results(lab, folder, report)
    finally:
        lab.down()


# -- all of it ---------------------------------------------------------------

def ci(asked: wanted.Wanted, job: Job) -> int:
    """Boots the guests and runs the job; returns its exit status. Holds the lab's lock until the guests have booted, so
    that no other command boots guests in the lab meanwhile, which this one would end."""
    lab = cluster.Cluster()
    with contextlib.ExitStack() as alone:
        alone.enter_context(lab.locked())
        if lab.running():
            raise ui.LabError("a lab runs here already, and ci needs its own. End it:  ./pib down")
        _fresh(job.folder)
        status = _boot_and_run(lab, asked, job, booted=alone.close)
    return status


def _boot_and_run(lab: cluster.Cluster, asked: wanted.Wanted, job: Job, booted: Callable[[], object]) -> int:
    """booted: is called when the guests have booted."""
    report = junit.Report(REPORT)
    lab.before_end = functools.partial(_save, lab, job.folder)
    try:
        with report.case("boot"):
            up.boot(lab, asked)
            up.clear_errors(lab, subnet.ports(lab), counters.QUIET_S)
        booted()
        with report.case(shlex.join(job.command)) as case:
            status = _run(job, _environment(lab, job.folder))
            case.output = ui.tail(job.folder / OUTPUT)
            case.failure = f"exit status {status}" if status else ""
        if status:
            ui.say(f"the command has failed (status {status})")
        return status
    finally:
        with signals.held_off():
            _finish(lab, job.folder, report)


def from_options(options: argparse.Namespace, command: list[str]) -> int:
    if not command:
        raise ui.LabError("ci: no command. Usage:  ./pib ci [OPTIONS] -- COMMAND…")
    if "/" in command[0] and pathlib.Path(command[0]).is_file() and not os.access(command[0], os.X_OK):
        raise ui.LabError(f"{command[0]} is not executable. Make it so:  chmod +x {shlex.quote(command[0])}")
    if not shutil.which(command[0]):
        raise ui.LabError(f"{command[0]}: there is no such program here. A line for the shell:  ./pib ci -- sh -c LINE")
    if options.timeout is not None and not options.timeout > 0:     # "nan" is refused, too
        raise ui.LabError(f"--timeout {options.timeout:g}: expected more than 0")
    asked = settings.settle(options)
    folder = options.output.absolute()
    if options.capture and not asked.hosts:     # switches on other hosts make no capture
        asked = dataclasses.replace(asked, capture=folder / CAPTURE)
    return ci(asked, Job(command, folder, options.timeout))


def add_options(command: argparse.ArgumentParser) -> None:
    settings.add_options(command)
    command.add_argument("--output", type=pathlib.Path, default=pathlib.Path("pib-ci"), metavar="DIR",
                         help="for logs, the kernels' messages, a capture and the verdict as JUnit (default: pib-ci)")
    command.add_argument("--timeout", type=float, metavar="SECONDS", help="end the command after this time")
    command.add_argument("--no-capture", dest="capture", action="store_false",
                         help="record no packets: large messages are faster, and disk space is saved")
    command.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND",
                         help="runs here, not in a guest. Its environment has PIB (this program), PIB_NODES (names of "
                              "the guests), PIB_SSH_CONFIG (a file for ssh -F) and PIB_RESULTS (the folder of results)")
