# SPDX-License-Identifier: GPL-2.0-or-later
"""KVM on a machine without it: QEMU emulates a host whose processor has AMD's SVM, so that its Linux has KVM.

The emulated host mounts the real host's files read-only, with a layer in memory for writes, so it uses the same
checkout, builds and images. It is slow: two guests need some minutes to boot."""

import os
import pathlib
import shlex
import signal
import tempfile

from lab.base import child, memory, paths, ui
from lab.guests import initramfs, kvm, vm

INIT = initramfs.FILES / "nested-init"
MODULES = ("9pnet_virtio", "9p", "overlay", "kvm_amd")
MEMORY_MIB = 6144               # memory for two guests, and for the files that they and their tests write
LEAST_MIB = 2048                # with less the emulated host does not boot
CPUS = 2
HANDED_ON = ("PATH", "HOME", "XDG_CACHE_HOME", "PYTEST_ADDOPTS")


def command(argv: list[str]) -> str:
    """Shell commands that run the command on the emulated host, with KVM."""
    handed_on = {name: os.environ[name] for name in HANDED_ON if name in os.environ}
    lines = [f"export {name}={shlex.quote(value)}"
             for name, value in {**handed_on, kvm.VARIABLE: "kvm", "PYTHONUNBUFFERED": "1"}.items()]
    return "\n".join([*lines, f"cd {shlex.quote(str(paths.ROOT))}", f"exec {shlex.join(argv)}", ""])


def _initramfs(base: pathlib.Path, argv: list[str], archive: pathlib.Path) -> pathlib.Path:
    with tempfile.TemporaryDirectory(dir=archive.parent) as name:
        tree = pathlib.Path(name)
        initramfs.add_boot_files(tree, base, INIT, MODULES)
        (tree / "command").write_text(command(argv))
        initramfs.cpio(tree, archive)
    return archive


def _qemu(base: pathlib.Path, archive: pathlib.Path) -> list[str]:
    return [vm.QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-machine", "q35", "-accel", "tcg", "-cpu", "max,la57=off",
            "-smp", str(CPUS), "-m", str(MEMORY_MIB),
            "-kernel", str(base / "vmlinuz"), "-initrd", str(archive),
            "-append", "console=ttyS0 loglevel=3 panic=-1 mitigations=off",
            "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
            "-serial", "stdio"]


def run(base: pathlib.Path, argv: list[str]) -> str:
    """Runs a command of this checkout on an emulated host with KVM; prints and returns the output of both. base: image
    whose kernel the emulated host boots."""
    memory.check("an emulated host", LEAST_MIB, MEMORY_MIB, "End other programs")
    ui.say("starting an emulated host that has KVM; this takes minutes")
    said = []

    def show(line: str) -> None:
        said.append(line)
        print(line, flush=True)

    with tempfile.TemporaryDirectory(prefix="pib-") as name:
        archive = _initramfs(base, argv, pathlib.Path(name) / "initramfs.cpio")
        child.run(child.Program(_qemu(base, archive), stop=signal.SIGTERM, show=show))
    return "\n".join(said)
