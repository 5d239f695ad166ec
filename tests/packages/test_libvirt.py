# SPDX-License-Identifier: GPL-2.0-or-later
"""A domain of ./pib libvirt-xml, driven by a libvirtd in a mount namespace, beside a guest of the lab with opensm."""

import os
import pathlib
import shutil
import subprocess
import time
import xml.etree.ElementTree as xml

import pytest

from lab import libvirt
from lab.base import paths
from lab.build import image
from lab.fabric import cluster, up
from lab.fabric.wanted import Wanted
from lab.guests import libvirt_xml, own_image, vm

DIRECTORIES = "/run/libvirt /var/lib/libvirt /etc/libvirt /var/cache/libvirt /var/log/libvirt"
# libvirtd starts QEMU as root, which runs this test and owns its files.
SETTINGS = """user = "root"
group = "root"
dynamic_ownership = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
"""
# The default pid file is in /run, which the namespaces share: it would be that of this host's libvirtd, too.
DAEMON = f"""set -e
for directory in {DIRECTORIES}; do mkdir -p $directory; mount -t tmpfs none $directory; done
cat >/etc/libvirt/qemu.conf
exec libvirtd --pid-file /run/libvirt/libvirtd.pid
"""
NAME, NUMBER = "pib-32", 32
GUID = f"{vm.default_hca(NUMBER, '').port_guid:#018x}"
PATIENCE_S = 1800

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("libvirtd") or not shutil.which("virsh"),
                                reason="wants root, and the packages libvirt-daemon-system and libvirt-clients")


def wait_until(true, what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, what
        time.sleep(1)


class Virsh:
    """virsh in the namespace of its libvirtd."""

    def __init__(self, directory: pathlib.Path):
        self.log = directory / "libvirtd.log"
        with open(self.log, "wb") as log:
            self.daemon = subprocess.Popen(["unshare", "-m", "sh", "-c", DAEMON], stdin=subprocess.PIPE, stdout=log,
                                           stderr=log)
        self.daemon.stdin.write(SETTINGS.encode())
        self.daemon.stdin.close()
        wait_until(lambda: self.try_("version").returncode == 0, "libvirtd")

    def try_(self, *words):
        assert self.daemon.poll() is None, self.log.read_text()
        return subprocess.run(["nsenter", "-t", str(self.daemon.pid), "-m", "virsh", "-c", "qemu:///system", *words],
                              capture_output=True, text=True, check=False)

    def __call__(self, *words) -> str:
        done = self.try_(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout.strip()

    def end(self) -> None:
        self.try_("destroy", NAME)
        self.daemon.terminate()
        self.daemon.wait()


@pytest.fixture(name="lab", scope="module")
def _lab():
    running = cluster.Cluster(paths.RUN / "libvirt")
    try:
        up.boot(running, Wanted(1))
        yield running
    finally:
        running.down()


@pytest.fixture(name="virsh")
def _virsh(tmp_path):
    virsh = Virsh(tmp_path)
    yield virsh
    virsh.end()


@pytest.fixture(name="console")
def _console(tmp_path):
    return tmp_path / "console"


@pytest.fixture(name="domain")
def _domain(lab, own_disk, tmp_path, console) -> pathlib.Path:
    """The domain, which boots without a boot loader, and whose console is a file."""
    boot = own_image.fit(own_disk, image.ensure(), lab.record.accel, tmp_path, lab.key())
    hca = vm.default_hca(NUMBER, lab.switch().address)
    kind = libvirt_xml.TYPES[lab.record.accel]
    disk = libvirt.Disk(boot.disk, boot.format)
    top = xml.fromstring(libvirt.domain(NAME, kind, vm.Size(), disk, hca, vm.MODULE))
    system, devices = top.find("os"), top.find("devices")
    line = f"console=ttyS0 quiet net.ifnames=0 mitigations=off lab.node={NUMBER} {boot.line}"
    for tag, text in (("kernel", boot.kernel), ("initrd", boot.initrd), ("cmdline", line)):
        xml.SubElement(system, tag).text = str(text)
    devices.remove(devices.find("console"))
    serial = devices.find("serial")
    serial.set("type", "file")
    xml.SubElement(serial, "source", path=str(console))
    file = tmp_path / "domain.xml"
    file.write_text(xml.tostring(top, encoding="unicode"))
    return file


def test_libvirtds_run_beside_each_other(virsh, tmp_path):
    """This test leaves a libvirtd of the host, and of another run, alone."""
    other = tmp_path / "other"
    other.mkdir()
    second = Virsh(other)
    try:
        for one in (virsh, second):
            assert one("list", "--all", "--name") == ""
    finally:
        second.end()
    assert virsh.daemon.poll() is None and virsh.try_("version").returncode == 0


def port(lab) -> str:
    """The line of the domain's port in the output of pib-switch ctl status."""
    said = lab.switch().ctl("status")
    return next((line for line in said.splitlines() if GUID in line), "")


def power_button(virsh) -> str:
    """Presses the power button again, because a booting guest may not notice it; returns the domain's state."""
    virsh.try_("shutdown", NAME)
    return virsh("domstate", NAME)


def test_a_domain_lives_on_the_fabric(lab, virsh, domain, console):
    """The domain is defined and started, its port becomes Active, its device is unplugged and plugged again, and the
    domain is shut down."""
    virsh("define", "--validate", str(domain))
    virsh("start", NAME)
    wait_until(lambda: console.exists() and vm.READY in console.read_text(errors="replace"), "the guest's boot")
    wait_until(lambda: "Active" in port(lab), "the port")
    virsh("qemu-monitor-command", NAME, "--hmp", f"device_del hca{libvirt_xml.SLOT}")
    wait_until(lambda: "Active" not in port(lab), "the end of the link")
    wait_until(lambda: f"hca{libvirt_xml.SLOT}" not in virsh("qemu-monitor-command", NAME, "--hmp", "info qtree"),
               "the end of the device")
    device = [word.get("value") for word in xml.parse(domain).iter(f"{{{libvirt_xml.NAMESPACE}}}arg")][-1]
    virsh("qemu-monitor-command", NAME, "--hmp", f"device_add {device}")
    wait_until(lambda: "Active" in port(lab), "the port, again")
    wait_until(lambda: power_button(virsh) == "shut off", "the end of the guest")
    virsh("undefine", NAME)
