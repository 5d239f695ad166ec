# SPDX-License-Identifier: GPL-2.0-or-later
"""Disks of kernel users: NVMe over fabrics by rdma_cm, SRP by ib_cm at the target's service ID. Both use fast
registration (REG_MR), remote and local invalidation, the local DMA L_Key and, at the target, a shared receive queue."""
import hashlib
import random

import pytest

from lab.soak.storage import CONNECT, NAME, NO_DISK, NO_TARGET, NQN, TARGET
from rdma import DEVICE, sh, wait_active, wait_until

MIB = 32

SRP_TARGET = """
modprobe ib_srpt
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
truncate -s {mib}M /tmp/disk
cd /sys/kernel/config/target
mkdir -p core/fileio_0/disk srpt
echo fd_dev_name=/tmp/disk,fd_dev_size=$(({mib} << 20)) > core/fileio_0/disk/control
echo 1 > core/fileio_0/disk/enable
mkdir -p srpt/{gid}/{gid}/lun/lun_0 srpt/{gid}/{gid}/acls/{initiator}/lun_0
ln -s $PWD/core/fileio_0/disk srpt/{gid}/{gid}/lun/lun_0/disk
ln -s $PWD/srpt/{gid}/{gid}/lun/lun_0 srpt/{gid}/{gid}/acls/{initiator}/lun_0/disk
echo 1 > srpt/{gid}/{gid}/enable
"""
NO_SRP_TARGET = """
cd /sys/kernel/config/target
rm -f srpt/{gid}/{gid}/acls/{initiator}/lun_0/disk srpt/{gid}/{gid}/lun/lun_0/disk
rmdir srpt/{gid}/{gid}/acls/{initiator}/lun_0 srpt/{gid}/{gid}/acls/{initiator} srpt/{gid}/{gid}/lun/lun_0
rmdir srpt/{gid}/{gid} srpt/{gid} srpt core/fileio_0/disk core/fileio_0
modprobe -r ib_srpt
"""
SRP_LOGIN = ("modprobe -a ib_srp sd_mod; echo id_ext={service},ioc_guid={service},dgid={dgid},pkey=ffff,"
             f"service_id={{service}} > /sys/class/infiniband_srp/srp-{DEVICE}-1/add_target")


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
    """vm1's block device, whose data vm0 stores."""
    wait_active(vm0, vm1)
    names = {"nqn": NQN, "mib": MIB, "address": addresses[0]}
    sh(vm0, "set -e" + TARGET.format(**names))
    try:
        sh(vm1, CONNECT.format(**names))
        name = wait_until(lambda: sh(vm1, NAME).strip(), "the disk")
        yield f"/dev/{name}"
    finally:
        sh(vm1, NO_DISK, check=False)
        sh(vm0, NO_TARGET.format(**names), check=False)


def gid(node):
    """GID 0 of port 1, as 32 hexadecimal digits."""
    return sh(node, f"tr -d ': \\n' </sys/class/infiniband/{DEVICE}/ports/1/gids/0")


@pytest.fixture
def srp_disk(vm0, vm1):
    """vm1's SCSI disk, whose bytes vm0 keeps. The target listens at its node GUID as service ID."""
    wait_active(vm0, vm1)
    names = {"mib": MIB, "gid": "0x" + gid(vm0), "initiator": "0x" + "0" * 16 + gid(vm1)[16:], "dgid": gid(vm0),
             "service": sh(vm0, f"tr -d ': \\n' </sys/class/infiniband/{DEVICE}/node_guid")}
    sh(vm0, "set -e" + SRP_TARGET.format(**names))
    try:
        sh(vm1, SRP_LOGIN.format(**names))
        name = wait_until(lambda: sh(vm1, "ls /dev | grep -x 'sd[a-z]' || true").strip(), "the disk")
        yield f"/dev/{name}"
    finally:
        sh(vm1, "for p in /sys/class/srp_remote_ports/port-*; do echo 1 > $p/delete; done; modprobe -r ib_srp",
           check=False)
        sh(vm0, NO_SRP_TARGET.format(**names), check=False)


def write_and_read(target, client, disk, sizes, seed):
    """Writes and reads in pieces of each size; every byte is right, at the target as well."""
    data = random.Random(seed).randbytes(MIB << 20)
    client.run(["cat >/tmp/data"], stdin=data)
    for size in sizes:
        sh(client, f"dd if=/tmp/data of={disk} bs={size} oflag=direct status=none")
        out = sh(client, f"dd if={disk} bs={size} iflag=direct status=none | sha256sum")
        assert out.split()[0] == hashlib.sha256(data).hexdigest(), size
    assert sh(target, "sha256sum /tmp/disk").split()[0] == hashlib.sha256(data).hexdigest()


def test_a_disk_over_nvme_of(vm0, vm1, disk):
    write_and_read(vm0, vm1, disk, ("4k", "64k", "1M"), 3)
    shown = sh(vm0, "rdma resource show srq")
    assert "nvmet" in shown, shown


def test_a_disk_over_srp(vm0, vm1, srp_disk):
    write_and_read(vm0, vm1, srp_disk, ("64k", "1M"), 4)


def test_a_disk_whose_events_the_kernel_moderates(vm0, vm1, disk):
    """Adaptive moderation (DIM) works in the kernel: device and CQs can enable it, and the data is correct."""
    for node in (vm0, vm1):
        assert "adaptive-moderation on" in sh(node, "rdma -d resource show cq")
    write_and_read(vm0, vm1, disk, ("64k",), 5)
