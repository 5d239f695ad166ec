# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds out whether KVM works on this host, by booting a guest.

KVM may fail in the boot loader although /dev/kvm exists (seen under nested virtualization), so the probe boots the
lab's own kernel until init prints its first line. The result is kept until the host boots again; a failure is kept for
an hour. PIB_ACCEL=kvm or PIB_ACCEL=tcg in the environment replaces the probe."""

import contextlib
import grp
import json
import os
import pathlib
import select
import subprocess
import tempfile
import time
from typing import IO, cast

from lab.base import paths, signals, ui
from lab.guests import initramfs, vm

VARIABLE = "PIB_ACCEL"
DEVICE = pathlib.Path("/dev/kvm")
NO_GROUP = pathlib.Path("/proc/sys/kernel/overflowgid")     # the group of files whose group a user namespace lacks
ACCELERATORS = ("kvm", "tcg")
PROBE_S = 30
FAILURE_COUNTS_S = 3600
MARK = b"lab: probe has run a guest"
STOPPED = b"KVM internal error"     # QEMU then prints registers, stops the guest, and does not exit


def _now() -> dict[str, str]:
    version = subprocess.run([vm.QEMU, "--version"], capture_output=True, text=True, check=False)
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"boot": boot, "qemu": version.stdout.splitlines()[0] if version.stdout else ""}


def _failure(image: pathlib.Path) -> str:
    """Boots the probe. Returns why it failed, or "" if it has booted."""
    with tempfile.TemporaryDirectory(prefix="pib-") as name:
        return _boot(image, initramfs.make(image, pathlib.Path(name) / "initramfs.cpio"))


def _boot(image: pathlib.Path, initrd: pathlib.Path) -> str:
    argv = [vm.QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "512",
            "-kernel", str(image / "vmlinuz"), "-initrd", str(initrd),
            "-append", "console=ttyS0 panic=-1 lab.probe", "-serial", "stdio"]
    with contextlib.ExitStack() as stack:       # its end kills QEMU, and waits for it
        with signals.deferred():
            qemu = stack.enter_context(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                                        stderr=subprocess.STDOUT))
            stack.callback(qemu.kill)
        said = _read(cast(IO[bytes], qemu.stdout), time.monotonic() + PROBE_S)
        ended = qemu.poll() is not None
    if MARK in said:
        return ""
    return _reason(said) or (f"QEMU ended with status {qemu.returncode}" if ended
                             else f"no guest has run within {PROBE_S} s")


def _read(output: IO[bytes], end: float) -> bytes:
    """QEMU's output until the guest has run, KVM has failed, QEMU ends, or the time `end` is reached."""
    said = b""
    while not (MARK in said or STOPPED in said) and (left := end - time.monotonic()) > 0:
        if not select.select([output], [], [], left)[0]:
            break
        if not (more := os.read(output.fileno(), 1 << 16)):
            break
        said += more
    return said


def _reason(said: bytes) -> str:
    """The line of output that says that KVM has failed, or else the last line."""
    lines = [ui.printable(line) for line in said.decode(errors="replace").strip().split("\n")]
    failed = [line for line in lines if STOPPED.decode() in line]
    return (failed or lines)[-1][:200]


def _known(file: pathlib.Path, now: dict[str, str]) -> dict | None:
    """The result of an earlier probe if nothing has changed since. A failure counts for an hour, because its cause may
    pass."""
    try:
        known = json.loads(file.read_text())
        same = {key: known.get(key) for key in now} == now
        fresh = not known["failure"] or 0 <= time.time() - known["time"] < FAILURE_COUNTS_S
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return known if same and fresh else None


def memory() -> pathlib.Path:
    """The file that keeps the result."""
    return paths.cache() / "kvm.json"


def forget() -> None:
    memory().unlink(missing_ok=True)


def usable() -> bool:
    return os.access(DEVICE, os.R_OK | os.W_OK)


def failure() -> str:
    """Why guests are emulated although the host has KVM, by the last probe; "" if no reason is known."""
    if os.environ.get(VARIABLE):
        return ""
    if not usable() and DEVICE.exists():
        return f"KVM is there, but this user may not open {DEVICE}. {_access()}"
    if not memory().exists():
        return ""
    known = _known(memory(), _now())
    return _sentence(known) if known and known["failure"] else ""


def _sentence(known: dict) -> str:
    return (f"KVM is there but fails: {known['failure'].rstrip('.')}. It is tried again after an hour, or by:  "
            "./pib kvm --again")


def _access() -> str:
    """How to get access to the device."""
    gid = DEVICE.stat().st_gid
    if gid == int(NO_GROUP.read_text()):    # a container of podman without root drops the groups of its user
        return (f"Start the container with  --group-add keep-groups   as a user of the group that has {DEVICE} on the "
                "host")
    try:
        group = grp.getgrgid(gid).gr_name
    except KeyError:                # a container may not know the host's group
        group = "kvm"
    return f"Join the group that may, and log in again:  sudo usermod --append --groups {group} $(id -un)"


def checked(chosen: str) -> str:
    """Checks the choice in the environment and returns it."""
    if chosen not in ACCELERATORS:
        raise ui.LabError(f"{VARIABLE}={chosen}: say one of {', '.join(ACCELERATORS)}, or leave it out")
    return chosen


def accelerator(image: pathlib.Path) -> str:
    """"kvm" if a guest has run with it; else "tcg", after a message that says why."""
    if chosen := os.environ.get(VARIABLE):
        return checked(chosen)
    if not usable():
        if reason := failure():
            ui.say(f"emulation (TCG): {reason}")
        return "tcg"
    now = _now()
    known = _known(memory(), now)
    if known is None:
        ui.say("trying KVM")
        known = {**now, "failure": _failure(image), "time": time.time()}
        with contextlib.suppress(OSError):      # the cache may be read-only for this user, or the disk full
            memory().write_text(json.dumps(known))
    if known["failure"]:
        ui.say(f"emulation (TCG): {_sentence(known)}")
    return "tcg" if known["failure"] else "kvm"
