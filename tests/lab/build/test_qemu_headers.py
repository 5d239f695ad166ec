# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's source is completed before its configure runs; headers are found among its targets."""

import tomllib

from lab.build import qemu_headers


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
