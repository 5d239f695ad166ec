#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# usage: bind.sh         gives the HCAs of this machine to vfio-pci, so that a process may drive them
#        bind.sh undo    takes them back
#
# Without an IOMMU for an HCA, vfio-pci needs the kernel's no-IOMMU mode, in which the process can reach all memory.
set -eu
unsafe=/sys/module/vfio/parameters/enable_unsafe_noiommu_mode
pages=/proc/sys/vm/nr_hugepages

hcas() {
    for function in /sys/bus/pci/devices/*; do
        [ "$(cat "$function/vendor") $(cat "$function/device")" != "0x1234 0x1b0c" ] || echo "$function"
    done
}

allow_no_iommu() {
    if [ ! -e $unsafe ]; then
        echo "${1##*/} has no IOMMU, and this kernel has no no-IOMMU mode (CONFIG_VFIO_NOIOMMU)." \
             "Boot the guest with an IOMMU:  ./pib up --iommu" >&2
        exit 1
    fi
    echo 1 >$unsafe
    # Other programs' huge pages stay theirs.
    ! grep -q '^HugePages_Free: *0$' /proc/meminfo || echo $(($(cat $pages) + 1)) >$pages
}

[ "$(hcas)" ] || { echo "no HCA here. Look at:  lspci -n" >&2; exit 1; }
modprobe -a vfio-pci vfio_iommu_type1
for function in $(hcas); do
    if [ "${1-}" = undo ]; then
        echo >"$function/driver_override"
    else
        [ -e "$function/iommu_group" ] || allow_no_iommu "$function"
        echo vfio-pci >"$function/driver_override"
    fi
    [ ! -e "$function/driver" ] || echo "${function##*/}" >"$function/driver/unbind"
    echo "${function##*/}" >/sys/bus/pci/drivers_probe
done
