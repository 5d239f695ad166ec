# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk over NVMe-oF: shell commands for the target's guest, and for the guest that uses the disk."""

NQN = "pib"
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
NO_DISK = "for c in /sys/class/nvme/nvme*; do echo 1 > $c/delete_controller; done; modprobe -r nvme-rdma"
NAME = "ls /dev | grep -x 'nvme[0-9]*n[0-9]*' || true"
