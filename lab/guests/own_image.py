# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that boot the user's own disk image. The lab never writes the image.

A small guest with the kernel of the lab's image mounts an overlay of the file, reports what it lacks, copies the lab's
files into the overlay, and exports kernel and initramfs. All guests boot these, each with its own overlay over the
first. So the image needs no boot loader, and the lab needs no right to mount it."""

import json
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

from lab.base import paths, ui
from lab.guests import initramfs, key, vm

OWN_ROOTFS = initramfs.FILES / "own-rootfs"
INIT = initramfs.FILES / "fit-init"
LOOK = initramfs.FILES / "fit-look"
SHARED = ("usr/local/lib/lab", "etc/udev/rules.d/60-rdma-persistent-naming.rules",
          "etc/udev/rules.d/96-lab-ipoib.rules")     # files from the lab's own image, ROOTFS
FORMATS = ("raw", "qcow2")
HEAD = 2048                     # bytes in which a partition table, or ext4 on the whole disk, is recognized
FIT_S = 600                     # reached only by a hang
BOOT_FILES_SIZE = 1 << 30       # size of the sparse file
NEW_GIB = 0.5                   # free space in the run directory for kernel and initramfs, twice while they are copied
MEMORY_MIB = 512
GUIDE = "What an image needs: docs/user-guide.md, section 13"
# Explanations of the names that fit-look and fit-init print.
LACKS = {
    "root": "no partition has an ext4 file system with a Linux; LVM, encryption and other file systems are unsupported",
    "systemd": "there is no systemd: install systemd-sysv",
    "udev": "there is no systemd-udevd: install udev",
    "x86": "it is not for processors of 64-bit PCs: take the image for amd64",
    "sshd": "there is no ssh server: install openssh-server",
    "ip": "there is no program ip: install iproute2",
    "opensm": "there is no subnet manager: install opensm",
    "infiniband-diags": "there is no perfquery, which clears the counters of a new fabric: install infiniband-diags",
    "perftest": "there is no ib_write_bw, which measures: install perftest",
    "rdma-core": "there is no rdma-core: install rdma-core",
    "provider": "there is no provider: install ibverbs-provider-pib",
    "driver": "its kernels have no driver: install pib-hca-dkms, and the headers of the kernel",
    "kernel": "/boot has no kernel with an initramfs: install linux-image-amd64 and initramfs-tools",
    "room": "its root file system is full or damaged: the lab's files, some kilobytes, could not be copied",
}


def _qemu_img(*words: str | pathlib.Path) -> str:
    done = subprocess.run(["qemu-img", *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          check=False)
    if done.returncode:
        raise ui.LabError(f"{ui.printable(done.stderr.strip())}\n{GUIDE}")
    return done.stdout


def _is_disk(head: bytes) -> bool:
    """Whether the head has the signature of a partition table (also before a GPT), or the magic number of ext4."""
    return head[510:512] == b"\x55\xaa" or head[1080:1082] == b"\x53\xef"


def _head(file: pathlib.Path, kind: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="pib-") as name:
        head = pathlib.Path(name) / "head"
        _qemu_img("dd", "-f", kind, "-O", "raw", f"bs={HEAD}", "count=1", f"if={file}", f"of={head}")
        return head.read_bytes()


def _info(file: pathlib.Path) -> dict:
    return json.loads(_qemu_img("info", "-U", "--output=json", file))


def format_of(file: pathlib.Path) -> str:
    """The format of a disk image. file: an absolute path."""
    return _info(file)["format"]


def check(file: pathlib.Path) -> str:
    """The format of a disk image; an error for other files. file: an absolute path."""
    found = _info(file)
    kind = found["format"]
    if kind not in FORMATS:
        raise ui.LabError(f"{file}: the format is {kind}, expected {' or '.join(FORMATS)}. Convert it:  "
                          f"qemu-img convert -O qcow2 {file} NEW.qcow2")
    if "backing-filename" in found or "data-file" in found.get("format-specific", {}).get("data", {}):
        raise ui.LabError(f"{file}: it is a part of an image, the rest is in another file. Make a whole one:  "
                          f"qemu-img convert -O qcow2 {file} NEW.qcow2")
    if not _is_disk(_head(file, kind)):
        raise ui.LabError(f"{file}: neither a partition table nor ext4 is at its beginning, so it is not a disk image. "
                          f"{GUIDE}")
    return kind


def stamp(file: pathlib.Path | None) -> str:
    """A value that changes with the file, and with the files that the lab copies into it."""
    if not file:
        return ""
    found = file.stat()
    ours = paths.recipe_hash(INIT.read_bytes(), LOOK.read_bytes(), *initramfs.contents(OWN_ROOTFS))
    return f"{file} {found.st_size} {found.st_mtime_ns} {ours}"


class Fitted:
    """The files from which guests boot, in a directory of the lab."""

    def __init__(self, directory: pathlib.Path):
        self.overlay, self.kernel, self.initrd, self.root = (
            directory / f"image.{part}" for part in ("qcow2", "vmlinuz", "initrd", "root"))

    def boot(self) -> vm.Boot:
        """The boot files and kernel command line of a guest. write() writes the file `root` last, so that its presence
        means that all files are complete."""
        line = f"root=/dev/{self.root.read_text()} rw systemd.wants=lab.service systemd.mask=opensm.service selinux=0"
        return vm.Boot(self.kernel, self.initrd, self.overlay, "qcow2", line)

    def write(self, root: str, kernel: str, initrd: str, archive: pathlib.Path) -> None:
        with tarfile.open(archive, "r:") as files:
            for name, target in ((kernel, self.kernel), (initrd, self.initrd)):
                content = files.extractfile(name)
                assert content, name
                with open(target, "wb") as out:
                    shutil.copyfileobj(content, out)
        self.root.write_text(root)


def fit(file: pathlib.Path, base: pathlib.Path, accel: str, directory: pathlib.Path, pair: pathlib.Path) -> vm.Boot:
    """Prepares the image for guests, unless the directory has it already. base: the lab's image. pair: the lab's key.
    """
    fitted = Fitted(directory)
    if not fitted.root.exists():
        ui.say(f"looking into {file.name}")
        fitted.overlay.unlink(missing_ok=True)
        _qemu_img("create", "-q", "-f", "qcow2", "-b", file, "-F", check(file), fitted.overlay)
        with tempfile.TemporaryDirectory(dir=directory) as name:
            work = pathlib.Path(name)
            archive = work / "boot.tar"
            with open(archive, "wb") as out:
                out.truncate(BOOT_FILES_SIZE)
            argv = _qemu(base, accel, _initramfs(base, work, pair), fitted.overlay, archive)
            fitted.write(*verdict(file, _run(argv)), archive)
    return fitted.boot()


def _initramfs(base: pathlib.Path, work: pathlib.Path, pair: pathlib.Path) -> pathlib.Path:
    tree = work / "initramfs"
    tree.mkdir()
    initramfs.add_boot_files(tree, base, INIT, initramfs.ROOT_DISK_MODULES)
    shutil.copy(LOOK, tree)
    shutil.copytree(OWN_ROOTFS, tree / "overlay")
    for name in SHARED:
        source, target = initramfs.ROOTFS / name, tree / "overlay" / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)
    initramfs.open_to_all(tree)
    for source, name in ((pair, "key"), (key.public(pair), "key.pub")):
        target = tree / "overlay" / "usr" / "local" / "lib" / "lab" / name
        shutil.copy(source, target)
        target.chmod(0o600)
    initramfs.cpio(tree, work / "initramfs.cpio")
    return work / "initramfs.cpio"


def _qemu(base: pathlib.Path, accel: str, archive: pathlib.Path, overlay: pathlib.Path,
          boot_files: pathlib.Path) -> list[str]:
    disks = [word for file, kind in ((overlay, "qcow2"), (boot_files, "raw"))
             for word in ("-drive", f"file={vm.value(file)},format={kind},if=virtio,cache=unsafe")]
    return [vm.QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35",
            "-accel", accel, "-cpu", vm.CPU[accel], "-m", str(MEMORY_MIB), "-kernel", str(base / "vmlinuz"),
            "-initrd", str(archive), "-append", "console=ttyS0 quiet panic=-1 mitigations=off", *disks,
            "-serial", "stdio"]


def _run(argv: list[str]) -> str:
    """Runs QEMU until its end; returns the guest's output."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=FIT_S, check=False)
    except subprocess.TimeoutExpired as expired:
        return (expired.stdout or b"").decode(errors="replace")
    return done.stdout.decode(errors="replace")


def verdict(file: pathlib.Path, said: str) -> tuple[str, str, str]:
    """(partition of the root file system, kernel's name, initramfs's name); an error that lists all that is missing."""
    if found := re.search(r"^lab: fits (vda\d*) (vmlinuz-[\w.+~-]+) (init[\w.+~-]+)\r?$", said, re.MULTILINE):
        return found[1], found[2], found[3]
    if missing := [LACKS[name] for name in re.findall(r"^lab: lacks ([\w-]+)", said, re.MULTILINE) if name in LACKS]:
        raise ui.LabError(f"guests cannot boot {file}:" + "".join(f"\n- {one}" for one in missing) + f"\n{GUIDE}")
    last = "\n".join(ui.printable(line) for line in said.strip().splitlines()[-5:])
    raise ui.LabError(f"the examination of {file} has failed:\n{last}\nIs the file in use, or damaged? See:  "
                      f"qemu-img info {file}")
