# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's source is completed before its configure runs; headers are found among its targets. Where versions of QEMU
differ, the device tells them apart by their headers."""

import re
import subprocess
import tomllib

import pytest

from lab.base import paths
from lab.build import qemu_headers

# Versions of QEMU differ in what changes a route of interrupts. By version and header:
KVM = """
typedef struct { int changes; } KVMRouteChange;
static inline KVMRouteChange kvm_irqchip_begin_route_changes(void *kvm) { return (KVMRouteChange){}; }
static inline int kvm_irqchip_add_msi_route(KVMRouteChange *c, int vector, PCIDevice *pci) { return 7; }
static inline void kvm_irqchip_commit_route_changes(KVMRouteChange *c) { c->changes = 0; }
"""
ROUTES = {
    "10.0": {"system/kvm.h": KVM},
    "10.2": {"system/kvm.h": KVM,
             "system/accel-irq.h": "int accel_irqchip_add_msi_route(KVMRouteChange *c, int vector, PCIDevice *pci);\n"},
    "11.1": {"system/kvm.h": "", "accel/accel-route.h": "typedef struct { int changes; } AccelRouteChange;\n",
             "system/accel-irq.h": """
#include "accel/accel-route.h"
static inline AccelRouteChange accel_irqchip_begin_route_changes(void) { return (AccelRouteChange){}; }
static inline int accel_irqchip_add_msi_route(AccelRouteChange *c, int vector, PCIDevice *pci) { return 7; }
static inline void accel_irqchip_commit_route_changes(AccelRouteChange *c) { c->changes = 0; }
"""}}


def test_files_missing_in_debians_tarball_are_added(tmp_path):
    firmware = tmp_path / "pc-bios"
    (firmware / "dtb").mkdir(parents=True)
    (firmware / "meson.build").write_text("fds = [\n  'edk2-arm-code.fd',\n  'edk2-x86_64-code.fd',\n]\n")
    (firmware / "dtb" / "bamboo.dts").touch()       # compiled by dtc, which a host need not have
    qemu_headers.complete(tmp_path)
    assert (firmware / "edk2-arm-code.fd.bz2").exists() and (firmware / "edk2-x86_64-code.fd.bz2").exists()
    assert (firmware / "dtb" / "bamboo.dtb").exists()


def test_headers_are_found_among_the_targets_of_a_build():
    listed = ("qapi/qapi-types.h: CUSTOM_COMMAND\nqapi/qapi-types.c: CUSTOM_COMMAND\n"
              "trace/trace-hw_net.h: CUSTOM_COMMAND\nqemu-version.h: CUSTOM_COMMAND\nqemu-system-x86_64: c_LINKER\n")
    assert qemu_headers.generated(listed) == ["qapi/qapi-types.h", "trace/trace-hw_net.h", "qemu-version.h"]


def test_packages_of_qemus_own_tests_are_not_required(tmp_path):
    (tmp_path / "pc-bios").mkdir()
    (tmp_path / "pc-bios" / "meson.build").touch()
    needs = tmp_path / "pythondeps.toml"
    needs.write_text('[meson]\nmeson = { accepted = ">=1.5.0" }\n\n# Always installed.\n[tooling]\n'
                     '"qemu.qmp" = { accepted = ">=0.0.5" }\n# The oldest:\n"pip" = { accepted = ">=20.3.4" }\n'
                     '\n[functests]\npygdbmi = { accepted = ">=0.11" }\n')
    qemu_headers.complete(tmp_path)
    left = tomllib.loads(needs.read_text())
    assert left["tooling"] == {} and left["meson"] and left["functests"]


def test_kvm_has_an_emulator_that_can_use_it_on_each_host():
    """QEMU's configure refuses --enable-kvm without one; the x86 emulator uses KVM only on x86 hosts."""
    for machine, emulator in (("x86_64", "x86_64-softmmu"), ("aarch64", "aarch64-softmmu")):
        targets, *others = qemu_headers.options(machine)
        assert {emulator, "x86_64-softmmu"} == set(targets.removeprefix("--target-list=").split(","))
        assert "--enable-kvm" in others


@pytest.mark.parametrize("version", ROUTES)
def test_a_vector_gets_its_route_with_each_version(tmp_path, version):
    source = (paths.ROOT / "qemu-hw/glue/pib_hca_irqfd.c").read_text()
    header = re.search(r'#include "system/kvm.h"\n(?:#.*\n)*', source)
    function = re.search(r"static int pib_hca_irqfd_add_route\((?:.*\n)*?}\n", source)
    for name, text in ROUTES[version].items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    program = tmp_path / "program.c"
    program.write_text("#define PIB_HCA_QEMU_HAS(header) __has_include(header)\n"
                       "typedef int PCIDevice;\nvoid *kvm_state;\n"
                       f"{header[0]}{function[0]}int main(void) {{ return pib_hca_irqfd_add_route(0, 1) != 7; }}\n")
    subprocess.run(["gcc", "-std=gnu11", "-Werror", "-I", tmp_path, "-o", tmp_path / "program", program], check=True)
    assert subprocess.run([tmp_path / "program"], check=False).returncode == 0
