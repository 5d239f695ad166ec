# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs unit tests on an emulated 64-bit Arm machine whose kernel has another page size than this machine's.

The initramfs contains only the tests; their output arrives on the console."""

import pathlib
import re
import shlex
import shutil
from collections.abc import Iterable

from lab.arm import tree
from lab.base import ui
from lab.base.counts import ALL_SKIPPED, catch2, Count, FAILURE
from lab.build import builder
from lab.guests import initramfs

INIT = pathlib.Path(__file__).with_name("arm-init")
MEMORY_MIB, CPUS = 4096, 2
ARCHIVE, KERNEL = "boot.cpio", "boot.kernel"    # files in the builder's working directory
TEST_S = 3600                   # limit for one test, reached only by a hang
MACHINE_S = 6 * 3600            # limit for all tests, reached only by a kernel that hangs
PAGES = re.compile(r"^lab: pages of (\d+) kB$", re.MULTILINE)
OUTPUT = re.compile(r"^lab: begin (\S+)$\n(.*?)(?:^|(?<=.))lab: end \1 (\d+)$", re.MULTILINE | re.DOTALL)
# Copies each program and the libraries it loads to the same paths below a folder.
COLLECT = f"""
rm -rf boot; mkdir boot
for program in "$@"; do
    qemu-aarch64 -E LD_TRACE_LOADED_OBJECTS=1 "$program" | sed -n 's#.*\\s\\(/[^ ]*\\) (0x.*#\\1#p'
done | sort -u > boot.libraries
for library in $(cat boot.libraries); do
    install -D "$library" "boot$library"
done
for program in "$@"; do
    mkdir -p "boot${{program%/*}}"
    {tree.TRIPLET}-strip -o "boot$program" "$program"
done
install -D /bin/busybox boot/bin/busybox
"""


def _script(tests: list[dict]) -> str:
    """A shell script that runs each test as meson does. A test's output goes to a file, so Catch2 prints no colours."""
    lines = []
    for test in tests:
        name = test_name(test)
        env = " ".join(f"{key}={shlex.quote(value)}" for key, value in test["env"].items())
        lines += [f"echo lab: begin {name}",
                  f"env {env} timeout {TEST_S} {shlex.join(test['cmd'])} > /tmp/output 2>&1; status=$?",
                  f"cat /tmp/output; echo lab: end {name} $status"]
    return "\n".join([*lines, ""])


def test_name(test: dict) -> str:
    return re.sub(r"\s+", "-", test["name"])


def _on_host(tools: builder.Builder, path: str) -> pathlib.Path:
    return tools.tree / path.lstrip("/")


def _named(tools: builder.Builder, words: Iterable[str]) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
    """Files and folders of the working directory that these words name."""
    found = {_on_host(tools, word) for word in words if word.startswith(f"{tools.inside}/")}
    return sorted(filter(pathlib.Path.is_file, found)), sorted(filter(pathlib.Path.is_dir, found))


def _initramfs(tools: builder.Builder, tests: list[dict], archive: pathlib.Path) -> None:
    programs, folders = _named(tools, (word for test in tests for word in [test["cmd"][0], *test["env"].values()]))
    inputs, _ = _named(tools, (word for test in tests for word in test["cmd"][1:]))
    inside = [f"/{program.relative_to(tools.tree)}" for program in programs]
    tools.sh("collecting the unit tests", f"set -- {shlex.join(inside)}\n{COLLECT}", tree.LOG)
    stage = tools.work / "boot"
    for folder in folders:
        shutil.copytree(folder, stage / folder.relative_to(tools.tree))
    for file in inputs:             # for example recorded inputs of a fuzz target
        place = stage / file.relative_to(tools.tree)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    shutil.copy(INIT, stage / "init")
    (stage / "init").chmod(0o755)
    (stage / "tests").write_text(_script(tests))
    for name in ("proc", "sys", "dev", "tmp", "lib"):
        (stage / name).mkdir(exist_ok=True)
    initramfs.cpio(stage, archive)


def parse(console: str, names: list[str], kib: int) -> Count:
    """Results of the named tests. If the page size is not `kib`, all of them fail."""
    console = console.replace("\r", "")
    pages = PAGES.search(console)
    if not pages or int(pages[1]) != kib:
        ui.say(f"the machine with pages of {kib} KiB ran no test. The end of its console:\n{console[-2000:]}")
        return FAILURE
    ended = {name: (output, int(status)) for name, output, status in OUTPUT.findall(console)}
    return sum((_result(name, *ended.get(name, ("the machine ended before", -1))) for name in names), Count())


def _result(name: str, output: str, status: int) -> Count:
    if status == ALL_SKIPPED:    # for example without tshark
        return Count()
    count = (catch2(output) or Count(passed=int(not status), failed=int(bool(status)))).with_status(bool(status))
    if count.failed:
        ui.say(f"{name}, status {status}:\n{output[-4000:]}")
    return count


def _argv(kernel: str, archive: str) -> str:
    return shlex.join(["qemu-system-aarch64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                       "-machine", "virt,gic-version=3", "-accel", "tcg", "-cpu", "max,pauth-impdef=on",
                       "-smp", str(CPUS), "-m", str(MEMORY_MIB), "-kernel", kernel, "-initrd", archive,
                       "-append", "console=ttyAMA0 quiet panic=-1", "-serial", "stdio"])


def run(tools: builder.Builder, tests: list[dict], kernel: pathlib.Path, kib: int) -> Count:
    """Runs the tests on the emulated machine; returns their count. kernel: path of its image, in the tree or not."""
    _initramfs(tools, tests, tools.work / ARCHIVE)
    shutil.copy(kernel, tools.work / KERNEL)
    console = tools.work / f"console-{kib}k"
    # In the foreground, QEMU stays in the group of processes that an interrupt ends.
    tools.sh(f"running the unit tests, pages of {kib} KiB",
             f"timeout --foreground {MACHINE_S} {_argv(KERNEL, ARCHIVE)} < /dev/null > {console.name} 2>&1 || true",
             tree.LOG)
    return parse(console.read_text(errors="replace"), [test_name(test) for test in tests], kib)
