# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether KVM works here: found out by running a guest, not by looking at /dev/kvm.

The device can exist and still fail in the boot loader (seen under nested
virtualization), so the probe boots the lab's own kernel up to the first line of
its init. The answer is remembered until the host is booted again. PIB_ACCEL=kvm
or PIB_ACCEL=tcg in the environment is an answer, too.
"""

import json
import os
import pathlib
import subprocess
import tempfile

from lab import paths, ui
from lab.guests import initramfs, vm

VARIABLE = "PIB_ACCEL"
ACCELERATORS = ("kvm", "tcg")
PROBE_S = 30
MARK = b"lab: probe has run a guest"


def _now() -> dict[str, str]:
    version = subprocess.run([vm.QEMU, "--version"], capture_output=True, text=True, check=False)
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"boot": boot, "qemu": version.stdout.splitlines()[0] if version.stdout else ""}


def _runs_a_guest(image: pathlib.Path) -> bool:
    with tempfile.TemporaryDirectory(prefix="pib-") as name:
        return _boots(image, initramfs.make(image, pathlib.Path(name) / "initramfs.cpio"))


def _boots(image: pathlib.Path, initrd: pathlib.Path) -> bool:
    argv = [vm.QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "512",
            "-kernel", str(image / "vmlinuz"), "-initrd", str(initrd),
            "-append", "console=ttyS0 panic=-1 lab.probe", "-serial", "stdio"]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=PROBE_S, check=False)
    except subprocess.TimeoutExpired as expired:
        return MARK in (expired.stdout or b"")
    return MARK in done.stdout


def accelerator(image: pathlib.Path) -> str:
    """ "kvm" where a guest really ran with it, else "tcg"; says which when it is new."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        if chosen not in ACCELERATORS:
            raise ui.LabError(f"{VARIABLE}={chosen}: say one of {', '.join(ACCELERATORS)}, or leave it out")
        return chosen
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    memory = paths.cache() / "kvm.json"
    now = _now()
    try:
        known = json.loads(memory.read_text())
    except (OSError, ValueError):
        known = {}
    if {key: known.get(key) for key in now} != now:
        ui.say("trying KVM")
        known = {**now, "accel": "kvm" if _runs_a_guest(image) else "tcg"}
        memory.write_text(json.dumps(known))
        if known["accel"] == "tcg":
            ui.say("KVM is there but cannot run a guest: using emulation (TCG)")
    return known["accel"]
