# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernels ./pib test kernels compiles the driver for, and what it takes for a fault."""

from lab.build import kernels


def test_the_ends_of_each_series_are_taken():
    names = [f"linux-headers-{name}" for name in (
        "6.1.0-9-amd64", "6.1.0-47-amd64", "6.1.0-56-amd64", "6.1.0-56-cloud-amd64", "6.12-amd64",
        "6.12.94+deb13-amd64", "6.12.107+deb13-amd64", "6.12.117+deb13-amd64", "6.12.117+deb13-common",
        "7.3.4+deb13-rt-amd64", "amd64")]
    newest = ["linux-headers-6.1.0-56-cloud-amd64", "linux-headers-6.12.117+deb13-amd64"]
    assert kernels.header_packages(names, newest) == [f"linux-headers-{name}" for name in (
        "6.1.0-56-amd64", "6.1.0-56-cloud-amd64", "6.1.0-9-amd64", "6.12.117+deb13-amd64", "6.12.94+deb13-amd64")]


def test_a_warning_is_a_fault():
    output = ("  CC [M]  main.o\nmain.c:3:5: warning: unused variable 'x'\n  LD [M]  pib_hca.ko\n"
              "WARNING: modpost: missing MODULE_DESCRIPTION()\n")
    assert len(kernels.complaints(output)) == 2
    assert kernels.complaints("  CC [M]  main.o\n  BTF [M] pib_hca.ko\n") == []


def test_a_feature_that_is_compiled_out_is_a_fault():
    listing = "                 U ib_umem_odp_map_dma_and_lock\n                 U kfree\n"
    assert kernels.missing_symbols(listing) == ["ib_umem_dmabuf_get_pinned is compiled out"]
