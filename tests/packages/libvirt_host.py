# SPDX-License-Identifier: GPL-2.0-or-later
"""A host for ./pib up --connect: a libvirtd with its own network and mount namespaces, and with the files of the
packages pib-switch and qemu-pib-hca."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

from lab.base import paths
from lab.hosts import domain

HERE = pathlib.Path(__file__).parent
PATIENCE_S = 1800
# QEMU runs as the user of this test.
QEMU_SETTINGS = """user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
"""
DAEMON_SETTINGS = 'auth_unix_rw = "none"\nauth_unix_ro = "none"\n'
SSH_SETTINGS = """Port 22
HostKey {0}/host-key
AuthorizedKeysFile {0}/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
"""
# Directories that each host has of its own.
OWN = ("run", "etc/libvirt", "var/lib/libvirt", "var/lib/pib-switch", "var/cache/libvirt", "var/log/libvirt")
START = """set -e
cd {0}
for place in {1}; do mkdir -p /$place; mount --bind $place /$place; done
mount -t overlay usr -o lowerdir={0}/usr:/usr /usr
mkdir -p /run/lock
ip link set lo up
read -r go
if [ -e key.pub ]; then mkdir -p /run/sshd; {2} -f {0}/sshd_config; fi
exec libvirtd
"""


def run(*words) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def wait_until(true, what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.5)


def _install(directory: pathlib.Path) -> None:
    """Puts files of this checkout at the places where the packages have them."""
    usr = directory / "usr"
    device = usr / domain.PRELOAD.parent.relative_to("/usr")
    units, hooks = usr / "lib" / "systemd" / "system", directory / "etc" / "libvirt" / "hooks" / "qemu.d"
    for place in (usr / "bin", device, units, hooks):
        place.mkdir(parents=True)
    shutil.copy(paths.SWITCH, usr / "bin" / "pib-switch")
    shutil.copy(HERE / "systemctl", usr / "bin")
    for library in ("libpib-hca.so", "pib-hca-device.so"):
        shutil.copy(paths.DEVICE.parent / library, device)
    shutil.copy(paths.ROOT / "debian" / "pib-switch@.service", units)
    shutil.copy(paths.ROOT / "packaging" / "libvirt" / "pib-switch", hooks)


class LibvirtHost:
    """A host. ssh: whether it has an ssh server, by which its URI leads; otherwise the URI leads to a Unix socket."""

    def __init__(self, directory: pathlib.Path, ssh: bool):
        self.directory, self.ssh = directory, ssh
        for place in OWN:
            (directory / place).mkdir(parents=True, exist_ok=True)
        _install(directory)
        (directory / "etc" / "libvirt" / "qemu.conf").write_text(QEMU_SETTINGS)
        (directory / "etc" / "libvirt" / "libvirtd.conf").write_text(DAEMON_SETTINGS)
        if ssh:
            self._make_keys()
        script = START.format(directory, " ".join(OWN), shutil.which("sshd") or "/usr/sbin/sshd")
        self.log = directory / "log"
        with open(self.log, "wb") as log:
            self.daemon = subprocess.Popen(["unshare", "-m", "-n", "sh", "-c", script], stdin=subprocess.PIPE,
                                           stdout=log, stderr=log)

    def _make_keys(self) -> None:
        for name in ("host-key", "key"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.directory / name)
        (self.directory / "sshd_config").write_text(SSH_SETTINGS.format(self.directory))
        client = self.directory / "ssh"
        client.write_text('#!/bin/sh\nexec ssh -F none -o UserKnownHostsFile=/dev/null "$@"\n')
        client.chmod(0o755)

    def uri(self, address: str) -> str:
        if not self.ssh:
            return f"qemu+unix:///system?socket={self.directory}/run/libvirt/libvirt-sock"
        return (f"qemu+ssh://root@{address}/system?keyfile={self.directory}/key&command={self.directory}/ssh"
                "&no_verify=1&no_tty=1")

    def inside(self, *words) -> str:
        """Output of a command on the host."""
        assert self.daemon.poll() is None, self.log.read_text()
        return run("nsenter", "-t", self.daemon.pid, "-m", "-n", *words)

    def virsh(self, *words) -> list[str]:
        return self.inside("virsh", "-q", "-c", "qemu:///system", *words).split()

    def start(self) -> None:
        """Starts libvirtd, once the host's network is complete."""
        self.daemon.stdin.write(b"go\n")
        self.daemon.stdin.close()
        wait_until(self._answers, "libvirtd")

    def _answers(self) -> bool:
        assert self.daemon.poll() is None, self.log.read_text()
        return subprocess.run(["virsh", "-c", f"qemu+unix:///system?socket={self.directory}/run/libvirt/libvirt-sock",
                               "version"], capture_output=True, check=False).returncode == 0

    def processes(self) -> list[str]:
        """Names of the programs in the host's network namespace."""
        mine = os.readlink(f"/proc/{self.daemon.pid}/ns/net")
        found = []
        for process in pathlib.Path("/proc").iterdir():
            try:
                if process.name.isdigit() and os.readlink(process / "ns" / "net") == mine:
                    found.append((process / "comm").read_text().strip())
            except OSError:
                pass                # the process has ended
        return sorted(found)

    def end(self) -> None:
        mine = os.readlink(f"/proc/{self.daemon.pid}/ns/net")
        self.daemon.terminate()
        self.daemon.wait()
        for process in pathlib.Path("/proc").iterdir():     # the ssh server, and what a failure has left
            try:
                if process.name.isdigit() and os.readlink(process / "ns" / "net") == mine:
                    os.kill(int(process.name), 9)
            except OSError:
                pass
        sys.stdout.write(self.log.read_text(errors="replace"))
