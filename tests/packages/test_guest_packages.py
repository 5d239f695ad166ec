# SPDX-License-Identifier: GPL-2.0-or-later
"""A virtual machine of Debian's packages alone, with the packages of driver, provider and switch."""

import pathlib
import shutil
import subprocess

import pytest

import clean_tree
import package_trees
from lab.base import process
from lab.build import debian, host_build, image
from lab.fabric import switch_process, up
from lab.guests import vm

HERE = pathlib.Path(__file__).parent
DEBIAN = ["linux-image-amd64", "linux-headers-amd64", "systemd-sysv", "udev", "dbus", "kmod", "netbase", "iproute2",
          "procps", "rdma-core", "ibverbs-utils", "opensm", "infiniband-diags", "perftest", "python3-pyverbs"]
OURS = ("pib-hca-dkms", "ibverbs-provider-pib", "pib-switch")
BOOT_S = 3600                   # only a hang takes this long
LIST = "find \"$1\" -xdev -iname '*pib*' -printf '/%P\\n' | grep -v ^/var/cache/apt | sort"


def _tree(built, work: pathlib.Path) -> pathlib.Path:
    """Makes a tree of Debian's packages, installs ours from files by apt, and then a newer driver."""
    tree, suites = work / "tree", debian.release_suites(built.release)
    lists = debian.Archive(work / "apt", suites, ("deb",))
    lists.update("packages")
    (work / "newer").mkdir()
    for file in built.files(*OURS):
        package_trees.newer(file, work / "newer")
    files = " ".join(f"/root/{file.name}" for file in built.files(*OURS))
    copies = " ".join(map(str, built.files(*OURS)))
    options = [f"--customize-hook={LIST} > \"$1/root/before\"",
               f"--customize-hook=copy-in {copies} {HERE}/guest-check {work}/newer /root",
               f"--customize-hook=copy-in {HERE}/guest-check.service /etc/systemd/system",
               f"--customize-hook=chroot \"$1\" apt-get install -y --no-install-recommends {files}",
               # Compiles the driver again, for which an emulated processor needs a long time.
               "--customize-hook=chroot \"$1\" sh -ec 'dpkg -i /root/newer/pib-hca-dkms*.deb'",
               "--customize-hook=chroot \"$1\" systemctl enable guest-check"]
    image.bootstrap(f"making a guest of {built.release}'s packages", [*DEBIAN, *clean_tree.certificates(suites)], tree,
                    options, built.release, lists)
    return tree


@pytest.fixture(name="machine")
def _machine(built, tmp_path):
    """A directory with kernel, initramfs and disk."""
    tree = _tree(built, tmp_path)
    for name in ("vmlinuz", "initrd.img"):
        shutil.copy(next((tree / "boot").glob(f"{name}-*")), tmp_path / name)
    image.make_root_disk(tree, tmp_path / "disk")
    image.user_namespace.remove(tree)
    return tmp_path


@pytest.fixture(name="fabric")
def _fabric(tmp_path):
    """The address of a switch. Device and switch of the host are this checkout's."""
    up.machine()
    host_build.build()
    switch = switch_process.Switch(tmp_path)
    started = process.start(switch.argv(), tmp_path / "switch.log", directory=tmp_path, name="switch")
    process.wait_for("the switch", switch.answers, started, tmp_path / "switch.log", 60)
    yield switch.address
    started.stop()


def test_a_guest_of_packages_alone_works(built, machine, fabric):
    console, verdict = machine / "console", machine / "verdict"
    argv = [vm.QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35",
            "-cpu", "max,la57=off", "-m", "1536", "-kernel", machine / "vmlinuz", "-initrd", machine / "initrd.img",
            "-append", "root=/dev/vda rw console=ttyS0 quiet net.ifnames=0 mitigations=off",
            "-drive", f"file={machine / 'disk'},format=raw,if=virtio", "-serial", f"file:{console}",
            "-serial", f"file:{verdict}",
            *vm.default_hca(0, fabric).argv(0)]
    subprocess.run(argv, env={"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(vm.MODULE)}, timeout=BOOT_S, check=True)
    said = verdict.read_text(errors="replace")
    assert "guest-check: passed" in said, console.read_text(errors="replace")[-4000:] + said[-8000:]
    assert "PORT_ACTIVE" in said and "BW average" in said and "nothing is left" in said, said[-8000:]
