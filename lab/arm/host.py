# SPDX-License-Identifier: GPL-2.0-or-later
"""Host programs, driver and provider, cross-compiled for 64-bit Arm."""

import json
import pathlib
import shlex
import shutil

from lab.arm import tree
from lab.base import counts, paths, ui
from lab.base.counts import Count
from lab.build import builder, kernels

LOG = tree.LOG
CHECKOUT, BUILD = "arm", "arm/build"    # folders below the builder's working directory
LEFT_OUT = ("build", ".")               # prefixes of the checkout's folders that are not sources
PKG_CONFIG = f"/usr/lib/{tree.TRIPLET}/pkgconfig:/usr/share/pkgconfig"
CROSS = f"""[binaries]
c = '{tree.TRIPLET}-gcc'
cpp = '{tree.TRIPLET}-g++'
ar = '{tree.TRIPLET}-ar'
strip = '{tree.TRIPLET}-strip'
pkg-config = 'pkg-config'
exe_wrapper = 'qemu-aarch64'
[properties]
pkg_config_libdir = '{PKG_CONFIG}'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""
DEVICE = ("qemu-hw/glue/libpib-hca.so", "qemu-hw/glue/pib-hca-device.so", "fabric-switch/pib-switch")

TOOLCHAIN = f"""set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER {tree.TRIPLET}-gcc)
set(ENV{{PKG_CONFIG_LIBDIR}} {PKG_CONFIG})
"""
ELF_MACHINE, AARCH64 = slice(18, 20), (183).to_bytes(2, "little")

def _bring_checkout(tools: builder.Builder) -> None:
    for path in sorted(paths.ROOT.iterdir()):
        if path.name.startswith(LEFT_OUT):
            continue
        if path.is_dir():
            tools.bring(path, f"{CHECKOUT}/{path.name}")
        else:
            builder.copy_if_changed(path, tools.work / CHECKOUT / path.name)

def compile_host(tools: builder.Builder) -> pathlib.Path:
    """Compiles all targets, with tests; returns the build directory."""
    build = tools.work / BUILD
    _bring_checkout(tools)
    builder.write_if_changed(CROSS.encode(), tools.work / CHECKOUT / "cross.ini")
    if not (build / "build.ninja").exists():
        shutil.rmtree(build, ignore_errors=True)
        tools.sh("configuring the host side for Arm", f"cd {CHECKOUT}; meson setup build --cross-file cross.ini "
                 f"-Dqemu_headers={tree.HEADERS}", LOG)
    tools.sh("compiling the host side for Arm", f"ninja -C {BUILD}", LOG)
    missing = [name for name in DEVICE if not (build / name).exists()]
    if missing:
        raise ui.LabError(f"not compiled for Arm: {', '.join(missing)}. Look at the output of meson in "
                          f"{ui.log_path(LOG)}")
    return build

def programs(tools: builder.Builder) -> list[dict]:
    """The build's unit tests that are Arm programs, as meson describes them."""
    tools.sh("listing the unit tests", f"meson introspect --tests {BUILD} > {CHECKOUT}/tests.json", LOG)
    inside = f"{tools.inside}/{BUILD}/"
    tests = json.loads((tools.work / CHECKOUT / "tests.json").read_text())
    return [test for test in tests if test["cmd"][0].startswith(inside) and "unit" in " ".join(test["suite"])]

def test_emulated(tools: builder.Builder, tests: list[dict]) -> Count:
    """Runs the tests under QEMU's user-mode emulation, with pages of 4 KiB. It leaves out tests that start Arm programs
    themselves: only an Arm kernel can execute those."""
    log, status = tools.work / BUILD / "meson-logs" / "testlog.json", tools.work / CHECKOUT / "status"
    for file in (log, status):
        file.unlink(missing_ok=True)
    names = shlex.join(sorted({test["name"] for test in tests if not _started(tools, test)}))
    tools.sh("running the unit tests, pages of 4 KiB",
             f"status=0; meson test -C {BUILD} --no-rebuild --timeout-multiplier 10 {names} || status=$?; "
             f"echo $status > {CHECKOUT}/status", LOG)
    return counts.meson(log, int(status.read_text()))


def _started(tools: builder.Builder, test: dict) -> list[str]:
    """Programs of the build that tests find through environment variables."""
    return [value for value in test["env"].values() if value.startswith(f"{tools.inside}/{BUILD}/")]

def compile_driver(tools: builder.Builder) -> dict[str, list[str]]:
    """Compiles the driver for each kernel of the tree; returns the complaints by kernel version."""
    found = (tools.tree / "usr" / "src").glob("linux-headers-*-arm64*")
    return {kernel: kernels.compile_driver(tools, kernel, f"ARCH=arm64 CROSS_COMPILE={tree.TRIPLET}-")
            for kernel in sorted(path.name.removeprefix("linux-headers-") for path in found)}


def compile_provider(tools: builder.Builder) -> list[str]:
    """Compiles the provider in rdma-core; returns complaints."""
    builder.write_if_changed(TOOLCHAIN.encode(), tools.work / "toolchain.cmake")
    faults = kernels.compile_provider(tools, tree.RELEASE, f"-DCMAKE_TOOLCHAIN_FILE={tools.inside}/toolchain.cmake")
    if faults:
        return faults
    made = (tools.work / "rdma-core" / "build" / "lib").glob("libpib-rdmav*.so")
    return [f"{file.name} is not for Arm" for file in made if file.read_bytes()[ELF_MACHINE] != AARCH64]
