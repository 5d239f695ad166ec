# SPDX-License-Identifier: GPL-2.0-or-later
"""NVMe over fabrics: a kernel user of fast registration (REG_MR), of remote and local invalidation, of
the local DMA L_Key and, at the target, of a shared receive queue."""
import hashlib
import random

import pytest

from rdma import DEVICE, sh, wait_active, wait_until

NQN = "pib"
MIB = 32
TARGET = """
modprobe nvmet; modprobe nvmet-rdma use_srq=1
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
truncate -s {mib}M /tmp/disk
cd /sys/kernel/config/nvmet
mkdir subsystems/{nqn} subsystems/{nqn}/namespaces/1 ports/1
echo 1 > subsystems/{nqn}/attr_allow_any_host
echo -n /tmp/disk > subsystems/{nqn}/namespaces/1/device_path
echo 1 > subsystems/{nqn}/namespaces/1/buffered_io  # /tmp may be a file system without O_DIRECT
echo 1 > subsystems/{nqn}/namespaces/1/enable
echo rdma > ports/1/addr_trtype; echo ipv4 > ports/1/addr_adrfam
echo {address} > ports/1/addr_traddr; echo 4420 > ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/{nqn} ports/1/subsystems/
"""
NO_TARGET = """
cd /sys/kernel/config/nvmet
rm -f ports/1/subsystems/{nqn}; rmdir ports/1 subsystems/{nqn}/namespaces/1 subsystems/{nqn}
modprobe -r nvmet-rdma
"""
CONNECT = ("modprobe nvme-rdma; echo transport=rdma,traddr={address},trsvcid=4420,nqn={nqn},"
           "hostnqn=nqn.2014-08.org.nvmexpress:uuid:70696200-0000-4000-8000-000000000001,"
           "hostid=70696200-0000-4000-8000-000000000001 > /dev/nvme-fabrics")


@pytest.fixture
def adaptive(vm0, vm1):
    """The kernel moderates the completion events of CQs that are made from now on."""
    for node in (vm0, vm1):
        sh(node, f"rdma dev set {DEVICE} adaptive-moderation on")
    yield
    for node in (vm0, vm1):
        sh(node, f"rdma dev set {DEVICE} adaptive-moderation off")


@pytest.fixture
def disk(vm0, vm1, addresses, adaptive):
    """vm1's block device, whose bytes vm0 keeps."""
    wait_active(vm0, vm1)
    names = {"nqn": NQN, "mib": MIB, "address": addresses[0]}
    sh(vm0, "set -e" + TARGET.format(**names))
    try:
        sh(vm1, CONNECT.format(**names))
        name = wait_until(lambda: sh(vm1, "ls /dev | grep -x 'nvme[0-9]*n[0-9]*' || true").strip(), "the disk")
        yield f"/dev/{name}"
    finally:
        sh(vm1, "for c in /sys/class/nvme/nvme*; do echo 1 > $c/delete_controller; done; "
           "modprobe -r nvme-rdma", check=False)
        sh(vm0, NO_TARGET.format(**names), check=False)


def test_a_disk_over_nvme_of(vm0, vm1, disk):
    """Written and read in pieces of several pages, small and large; every byte is right."""
    data = random.Random(3).randbytes(MIB << 20)
    vm1.run(["cat >/tmp/data"], stdin=data)
    for size in ("4k", "64k", "1M"):
        sh(vm1, f"dd if=/tmp/data of={disk} bs={size} oflag=direct status=none")
        out = sh(vm1, f"dd if={disk} bs={size} iflag=direct status=none | sha256sum")
        assert out.split()[0] == hashlib.sha256(data).hexdigest(), size
    assert sh(vm0, "sha256sum /tmp/disk").split()[0] == hashlib.sha256(data).hexdigest()
    shown = sh(vm0, "rdma resource show srq")
    assert "nvmet" in shown, shown


def test_a_disk_whose_events_the_kernel_moderates(vm0, vm1, disk):
    """Adaptive moderation (DIM) is the kernel's: the device may be told to, its CQs are, and the data are right."""
    for node in (vm0, vm1):
        assert "adaptive-moderation on" in sh(node, "rdma -d resource show cq")
    data = random.Random(5).randbytes(MIB << 20)
    vm1.run(["cat >/tmp/data"], stdin=data)
    sh(vm1, f"dd if=/tmp/data of={disk} bs=1M oflag=direct status=none")
    out = sh(vm1, f"dd if={disk} bs=4k iflag=direct status=none | sha256sum")
    assert out.split()[0] == hashlib.sha256(data).hexdigest()
