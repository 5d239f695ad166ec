#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# usage: bind.sh         gives the HCAs of this machine to vfio-pci, so that a process may drive them
#        bind.sh undo    takes them back
#
# Without an IOMMU for an HCA, vfio-pci needs the kernel's no-IOMMU mode, in which the process can reach all memory.
set -eu
unsafe=/sys/module/vfio/parameters/enable_unsafe_noiommu_mode
pages=/sys/kernel/mm/hugepages/hugepages-2048kB	# dma.c takes one, whatever the default size is

hcas() {
    for function in /sys/bus/pci/devices/*; do
        [ "$(cat "$function/vendor") $(cat "$function/device")" != "0x1234 0x1b0c" ] || echo "$function"
    done
}

# In no-IOMMU mode the kernel makes a group too.
has_iommu() {
    [ -e "$1/iommu_group" ] && [ "$(cat "$1/iommu_group/name" 2>/dev/null)" != vfio-noiommu ]
}

# A free huge page may be reserved by another program that has not touched it yet: it does not count.
add_huge_page() {
    if [ ! -e $pages ]; then
        echo "This kernel has no huge pages of 2 MiB ($pages). Boot one with CONFIG_HUGETLBFS" >&2
        exit 1
    fi
    [ $(($(cat $pages/free_hugepages) - $(cat $pages/resv_hugepages))) -gt 0 ] && return
    wanted=$(($(cat $pages/nr_hugepages) + 1))
    echo $wanted >$pages/nr_hugepages
    [ "$(cat $pages/nr_hugepages)" -ge $wanted ] && return
    echo "The kernel finds no 2 MiB in one piece for a huge page. End programs, or boot with" \
         "hugepagesz=2M hugepages=1" >&2
    exit 1
}

allow_no_iommu() {
    if [ ! -e $unsafe ]; then
        echo "${1##*/} has no IOMMU, and this kernel has no no-IOMMU mode (CONFIG_VFIO_NOIOMMU)." \
             "Boot the guest with an IOMMU:  ./pib up --iommu" >&2
        exit 1
    fi
    echo 1 >$unsafe
    add_huge_page
}

[ "$(hcas)" ] || { echo "no HCA here. Look at:  lspci -n" >&2; exit 1; }
# A kernel may have both built in; modprobe then fails if the kernel's directory of modules does not list them.
[ -e /sys/bus/pci/drivers/vfio-pci ] || modprobe vfio-pci
[ -e /sys/module/vfio_iommu_type1 ] || modprobe vfio_iommu_type1
for function in $(hcas); do
    if [ "${1-}" = undo ]; then
        echo >"$function/driver_override"
    else
        has_iommu "$function" || allow_no_iommu "$function"
        echo vfio-pci >"$function/driver_override"
    fi
    [ ! -e "$function/driver" ] || echo "${function##*/}" >"$function/driver/unbind"
    echo "${function##*/}" >/sys/bus/pci/drivers_probe
done
