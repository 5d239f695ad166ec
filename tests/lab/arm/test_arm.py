# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of unit tests on an emulated Arm machine are read from its console; a tree takes packages of two
architectures."""

import pathlib
import re
import shlex
import subprocess

import pytest

from lab.arm import host, kernel, machine, tree
from lab.base import paths
from lab.base.counts import Count, FAILURE
from lab.build import debian
from lab.testing import arm, progress

GOOD = """[    0.1] a word of the kernel\r
lab: pages of 64 kB\r
lab: begin link-endpoint\r
All tests passed (10 assertions in 2 test cases)\r
lab: end link-endpoint 0\r
lab: begin copier\r
test cases: 3 | 2 passed | 1 failed\r
lab: end copier 1\r
"""


def test_counts_are_read_from_the_output_of_catch2():
    assert machine.parse(GOOD, ["link-endpoint", "copier"], 64) == Count(4, 1)


def test_a_machine_that_ends_early_fails_its_unfinished_tests():
    assert machine.parse(GOOD[:GOOD.index("lab: end copier")], ["link-endpoint", "copier", "other"], 64) == Count(2, 2)


@pytest.mark.parametrize("console", ["", GOOD])
def test_pages_of_another_size_are_a_failure(console):
    assert machine.parse(console, ["link-endpoint"], 16) == FAILURE


@pytest.mark.parametrize("place", ["tree/boot", "cache/arm-64k-0"])
def test_the_machine_boots_a_kernel_in_the_tree_and_one_in_the_cache(tmp_path, monkeypatch, place):
    """QEMU runs in a chroot of the tree, in the working directory. A kernel with pages of 64 KiB is outside of the
    tree.
    """
    def run(_title, script, _log):
        words = shlex.split(script)
        found = tools.work / words[words.index("-kernel") + 1]
        assert found.is_relative_to(tools.tree) and found.read_text() == "a kernel"
        (tools.work / "console-64k").write_text(GOOD)
    tools = Tools(tmp_path / "tree")
    tools.sh = run
    monkeypatch.setattr(machine, "_initramfs", lambda *_: None)
    booted = tmp_path / place / "Image"
    for directory in (tools.work, booted.parent):
        directory.mkdir(parents=True)
    booted.write_text("a kernel")
    assert machine.run(tools, [{"name": "link-endpoint"}], booted, 64) == Count(2, 0)


def test_a_program_that_ends_badly_after_its_tests_has_failed():
    console = GOOD.replace("lab: end link-endpoint 0", "lab: end link-endpoint 139")
    assert machine.parse(console, ["link-endpoint"], 64) == Count(2, 1)


def test_a_program_that_skips_all_its_tests_is_not_counted():
    console = "lab: pages of 64 kB\nlab: begin capture\ntest cases: 1 | 1 skipped\nlab: end capture 4\n"
    assert machine.parse(console, ["capture"], 64) == Count()


@pytest.fixture(name="packed")
def files_that_are_packed(monkeypatch):
    """The files of the machine's initramfs, once it is made."""
    packed = []
    monkeypatch.setattr(machine.initramfs, "cpio", lambda stage, _archive: packed.extend(stage.rglob("*")))
    return packed


def tools_with(directory, name, text):
    """Tools whose working directory has a program and another file."""
    tools = Tools(directory)
    file = tools.work / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    (tools.work / "program").touch()
    return tools


def test_a_tests_environment_is_passed_to_the_machine(tmp_path, packed):
    tools = tools_with(tmp_path, "topologies/one", "a file")
    test = {"name": "t", "cmd": [f"{tools.inside}/program"], "env": {"A": f"{tools.inside}/topologies", "B": "word"}}
    machine._initramfs(tools, [test], tmp_path / "archive")
    stage = tools.work / "boot"
    assert stage / "work" / "x" / "topologies" / "one" in packed and stage / "init" in packed
    assert f"set -- {tools.inside}/program\n" in tools.ran[0]


def test_recorded_inputs_of_a_fuzz_target_are_passed_to_the_machine(tmp_path, packed):
    """A file that a test's argument names is copied unchanged: strip would refuse it."""
    tools = tools_with(tmp_path, "corpus/topology.inputs", "00 ff")
    inputs = f"{tools.inside}/corpus/topology.inputs"
    test = {"name": "t", "cmd": [f"{tools.inside}/program", "--runs", "9", inputs], "env": {}}
    machine._initramfs(tools, [test], tmp_path / "archive")
    copy = tools.work / "boot" / inputs.lstrip("/")
    assert copy in packed and copy.read_text() == "00 ff"
    assert f"set -- {tools.inside}/program\n" in tools.ran[0]


def test_a_kernel_that_hangs_does_not_hang_the_part(tmp_path, monkeypatch):
    def run(_title, script, _log):
        scripts.append(script)
        (tools.work / "console-64k").write_text("")
    tools, scripts = Tools(tmp_path), []
    tools.work.mkdir(parents=True)
    tools.sh = run
    monkeypatch.setattr(machine, "_initramfs", lambda *_: None)
    (tmp_path / "Image").touch()
    assert machine.run(tools, [{"name": "t"}], tmp_path / "Image", 64) == FAILURE
    words = shlex.split(scripts[0])
    assert words[:4] == ["timeout", "--foreground", str(machine.MACHINE_S), "qemu-system-aarch64"]


def test_the_machine_has_what_unit_tests_look_up():
    """Unit tests look up the name of root's group, use an /etc/hosts of their own, watch a directory with inotify,
    confine the switch with seccomp, and make certificates that begin in the past."""
    init = machine.INIT.read_text()
    assert "date -s " in init
    assert all(f"> /etc/{name}\n" in init for name in ("passwd", "group", "hosts"))
    options = kernel.FRAGMENT.read_text().splitlines()
    assert {"CONFIG_INOTIFY_USER=y", "CONFIG_SECCOMP_FILTER=y"} <= set(options)


@pytest.mark.parametrize("status, log, count", [
    (0, '{"result": "OK", "stdout": "All tests passed (2 assertions in 2 test cases)"}', Count(passed=2)),
    (1, '{"result": "OK", "stdout": "All tests passed (2 assertions in 2 test cases)"}', Count(2, 1)),
    (0, None, FAILURE)])
def test_emulated_tests_count_by_mesons_log_and_status(tmp_path, status, log, count):
    def run(_title, script, _log):
        tools.ran.append(script)
        (tools.work / "arm" / "status").write_text(f"{status}\n")
        if log:
            (tools.work / "arm" / "build" / "meson-logs" / "testlog.json").write_text(log + "\n")
    tools = Tools(tmp_path)
    tools.sh = run
    (tools.work / "arm" / "build" / "meson-logs").mkdir(parents=True)
    tests = [{"name": "copier", "env": {}},
             {"name": "fabric", "env": {"PIB_SWITCH": f"{tools.inside}/arm/build/fabric-switch/pib-switch"}}]
    assert host.test_emulated(tools, tests) == count
    assert " copier " in tools.ran[0] and "fabric" not in tools.ran[0]


class Tools:
    """A builder that notes scripts in place of running them."""
    inside = "/work/x"

    def __init__(self, tree_: pathlib.Path):
        self.tree, self.work, self.ran = tree_, tree_ / "work" / "x", []

    def sh(self, _title, script, _log):
        self.ran.append(script)
        (self.work / "boot").mkdir()


def test_tests_run_with_mesons_environment_and_their_status_is_reported(tmp_path):
    program = tmp_path / "a program"
    program.write_text("#!/bin/sh\necho $VALUE $1\nexit 3\n")
    program.chmod(0o755)
    test = {"name": "a test", "cmd": [str(program), "x"], "env": {"VALUE": "two words"}}
    script = machine._script([test])
    said = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=True).stdout
    assert said == "lab: begin a-test\ntwo words x\nlab: end a-test 3\n"
    assert shlex.split(script)                      # quotes are closed


@pytest.mark.parametrize("machine_, faults", [(183, []), (62, ["libpib-rdmav59.so is not for Arm"])])
def test_the_provider_is_compiled_by_the_cross_compiler(tmp_path, monkeypatch, machine_, faults):
    """machine_: the number of the processor in the program that the compiler makes; 62 is that of a PC."""
    def compiled(tools_, release, options):
        assert release == tree.RELEASE and options == f"-DCMAKE_TOOLCHAIN_FILE={tools_.inside}/toolchain.cmake"
        (tools_.work / "rdma-core" / "build" / "lib").mkdir(parents=True)
        program = bytes(18) + machine_.to_bytes(2, "little")
        (tools_.work / "rdma-core" / "build" / "lib" / "libpib-rdmav59.so").write_bytes(program)
        return []
    tools = Tools(tmp_path)
    monkeypatch.setattr(host.kernels, "compile_provider", compiled)
    assert host.compile_provider(tools) == faults
    toolchain = (tools.work / "toolchain.cmake").read_text()
    assert f"{tree.TRIPLET}-gcc" in toolchain and f"/usr/lib/{tree.TRIPLET}/pkgconfig" in toolchain


def test_every_program_that_packages_have_for_arm_is_compiled(monkeypatch, tmp_path, capsys):
    """qemu-pib-hca and pib-switch are in host.DEVICE, pib-hca-dkms is the driver."""
    control = (paths.ROOT / "debian" / "control").read_text()
    assert set(re.findall(r"^Package: (\S+)\nArchitecture: amd64 arm64$", control, re.MULTILINE)) == {
        "qemu-pib-hca", "pib-switch", "ibverbs-provider-pib"}
    monkeypatch.setattr(arm.tree, "ensure", lambda: tmp_path)
    monkeypatch.setattr(arm.host, "compile_driver", lambda _tools: {"6.12-arm64": []})
    monkeypatch.setattr(arm.host, "compile_host", lambda _tools: None)
    monkeypatch.setattr(arm.host, "compile_provider", lambda _tools: ["pib.c:1: error: no"])
    monkeypatch.setattr(arm.host, "programs", lambda _tools: [])
    monkeypatch.setattr(arm.rdma_core, "version", lambda _tree: "56.1-1")
    monkeypatch.setattr(arm, "RUNS", {4: lambda *_: Count(passed=7)})
    assert arm.check(progress.Progress([arm.STAGE], whole=False)) == Count(8, 1)
    assert "provider, rdma-core 56.1-1: pib.c:1: error: no" in capsys.readouterr().err


def test_an_archive_has_packages_of_the_wanted_architectures(tmp_path):
    debian.Archive(tmp_path / "two", [], ("deb",), tree.ARCHITECTURES)
    assert 'APT::Architectures { "amd64"; "arm64"; };' in (tmp_path / "two" / "apt.conf").read_text()
    debian.Archive(tmp_path / "own", [])
    assert "Architectures" not in (tmp_path / "own" / "apt.conf").read_text()
