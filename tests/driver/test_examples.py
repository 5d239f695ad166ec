# SPDX-License-Identifier: GPL-2.0-or-later
"""The drivers in examples/, without a guest: that of user space compiles, and the first driver's steps are complete."""
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

from lab.base import paths

FIRST = paths.ROOT / "examples" / "first-driver"
STEPS = sorted(path.name for path in FIRST.glob("step*"))
USERSPACE = paths.ROOT / "examples" / "userspace-driver"
GUIDE = paths.ROOT / "docs" / "first-driver.md"
# Two calls of a function, the one before the other, as the manual or the kernel demands.
IN_ORDER = [
    pytest.param(FIRST / "step3-interrupts/event.c", "event_close", "disconnect_interrupt(", "PIB_HCA_CMD_DESTROY_EQ",
                 id="no doorbell of a destroyed EQ (8.2.9)"),
    pytest.param(FIRST / "step3-interrupts/event.c", "arm", "dma_mb()", "writeq(",
                 id="an EQE is read before its place is given back"),
    pytest.param(USERSPACE / "event.c", "arm", "store_barrier()", "store64(", id="likewise, in user space"),
    pytest.param(FIRST / "step2-commands/command.c", "command_destroy", "execute(", "give_up(",
                 id="no memory is freed while the device has the object"),
    pytest.param(FIRST / "step2-commands/command.c", "give_up", "hca_stop(", "queue->broken = true",
                 id="bus mastering is cleared after a reset (4.1.3)"),
    pytest.param(FIRST / "step8-verbs/verbs.c", "verbs_register", "ib_register_device(", "begin_events(",
                 id="no event of a device that is not registered"),
    pytest.param(USERSPACE / "exchange.c", "exchange_accept", "event_wait_input(", " accept(",
                 id="events are taken until a peer comes (9.1.1)"),
    pytest.param(USERSPACE / "pingpong.c", "wait_for_the_end", "event_wait_input(", "read(STDIN_FILENO",
                 id="events are taken until the end of input (9.1.1)"),
    pytest.param(USERSPACE / "hca.c", "hca_open", "check_reset(", "vfio_enable_bus_master(",
                 id="no access to memory before the reset (4)"),
    pytest.param(FIRST / "step1-find/hca.c", "hca_start", "hca_reset(", "pci_set_master(",
                 id="likewise, in the kernel"),
]


@pytest.fixture(scope="module", name="program")
def compiled(tmp_path_factory):
    place = tmp_path_factory.mktemp("examples")
    shutil.copytree(paths.ROOT / "hw-interface", place / "hw-interface")
    shutil.copytree(USERSPACE, place / "examples" / "userspace-driver",
                    ignore=shutil.ignore_patterns("*.o", "userspace-driver"))
    made = subprocess.run(["make", "-C", place / "examples" / "userspace-driver"], capture_output=True, text=True,
                          check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return place / "examples" / "userspace-driver" / "userspace-driver"


def run(program, *words):
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("words", [(), ("none",), ("show", "show"), ("-x", "show")])
def test_a_command_line_without_a_scene_prints_the_list(program, words):
    code, said = run(program, *words)
    assert code == 2 and "usage: " in said and "ud-pingpong" in said


@pytest.mark.parametrize("words", [("-n", "0"), ("-n", "-1"), ("-n", "1000001"), ("-s", "x"), ("-s", "1x"), ("-s", "")])
def test_a_number_out_of_range_is_refused(program, words):
    code, said = run(program, *words, "rdma")
    assert code == 1 and f"{words[1]}: expected a number from 1 to " in said


def test_a_machine_without_the_hca_is_reported(program):
    functions = pathlib.Path("/sys/bus/pci/devices").glob("*")
    if any((path / "device").read_text().strip() == "0x1b0c" for path in functions):
        pytest.skip("this machine has the device")
    code, said = run(program, "show")
    assert code == 1 and "userspace-driver: " in said


@pytest.mark.parametrize("step", STEPS)
def test_a_step_has_all_its_files_and_its_place_in_the_guide(step):
    objects = re.search(r"^first_driver-y := (.*)$", (FIRST / step / "Kbuild").read_text(), re.M)[1].split()
    assert {path.stem for path in (FIRST / step).glob("*.c")} == {name.removesuffix(".o") for name in objects}
    assert all(path.is_file() for path in (FIRST / step).iterdir())
    assert f"`{step}`" in GUIDE.read_text()


@pytest.mark.parametrize("file, function, first, then", IN_ORDER)
def test_two_calls_are_in_order(file, function, first, then):
    body = re.search(rf"^[a-z][^\n;]*\b{function}\([^;]*?\)\n\{{\n(.*?)^\}}", file.read_text(), re.M | re.S)[1]
    assert body.count(first) == body.count(then) == 1 and body.index(first) < body.index(then), body


def test_each_error_of_the_first_driver_says_what_to_do():
    advice = re.compile(r"expected .*: take |Start the guest anew|Why:  \./pib why")
    printed = re.compile(r'dev_err\([^;"]*"([^"]*)"')
    said = [text for path in FIRST.glob("step*/*.c") for text in printed.findall(path.read_text())]
    assert len(said) > 40 and [text for text in said if not advice.search(text)] == []


# Maps the file of argument 1 as registers, and raises the signal whose number is argument 2.
END_BY_SIGNAL = """#include "hca.c"
#include <fcntl.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
	take_care_of_the_end(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(argv[argc - 2], O_RDWR), 0));
	return raise(atoi(argv[argc - 1]));
}
"""
FAULTS = [signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV]


def with_another_main(program, name, text, without=("main",)):
    (program.parent / f"{name}.c").write_text(text)
    objects = [path for path in program.parent.glob("*.o") if path.stem not in without]
    subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", f"-I{program.parents[2] / 'hw-interface'}", "-o", name,
                    f"{name}.c", *objects], cwd=program.parent, check=True)
    return program.parent / name


@pytest.fixture(scope="module", name="ended")
def program_that_ends_by_a_signal(program):
    return with_another_main(program, "ended", END_BY_SIGNAL, ("main", "hca"))


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM,
                                    *FAULTS])
def test_the_program_resets_the_device_at_each_signal_that_ends_it(ended, tmp_path, number):
    (tmp_path / "registers").write_bytes(bytes(4096))
    done = subprocess.run([ended, tmp_path / "registers", str(int(number))], cwd=tmp_path, check=False)
    assert (tmp_path / "registers").read_bytes()[:16] == bytes([0, 0, 0, 0, 2, *bytes(11)])     # CONTROL.RESET
    assert done.returncode == (-number if number in FAULTS else 128 + number)


SPEAK_TO_A_PEER_THAT_HAS_GONE = """#include "exchange.h"
#include <sys/socket.h>
#include <unistd.h>
int main(void)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || close(ends[1]))
		return 2;
	exchange_say(fdopen(ends[0], "r"), "check %u\\n", 1);
	return 0;
}
"""


def test_a_peer_that_has_gone_is_an_error_with_words(program):
    code, said = run(with_another_main(program, "gone", SPEAK_TO_A_PEER_THAT_HAS_GONE))
    assert code == 1 and "answer to the peer" in said, (code, said)


# A kernel whose pages have 64 KiB, as some of arm64 have.
LOOK_UP_A_FRAME = """#include <stdint.h>
#include <unistd.h>
#define MEMORY 0xffff80000000
static ssize_t read_entry(int file, void *entry, size_t bytes, off_t offset)
{
	(void)file;
	*(uint64_t *)entry = 1ull << 63 | 0x1234;
	return offset == MEMORY / 65536 * 8 ? (ssize_t)bytes : -1;
}
#define sysconf(name) 65536
#define pread read_entry
#include "dma.c"
int main(void)
{
	return physical_address((void *)MEMORY) != 0x12340000;
}
"""


def test_a_bus_address_is_right_on_a_kernel_with_larger_pages(program):
    assert run(with_another_main(program, "frame", LOOK_UP_A_FRAME, ("main", "dma"))) == (0, "")


def bind(tmp_path, pages, free, reserved, group=None, built_in=False):
    """Runs bind.sh on a machine of files, with an HCA; returns its number of huge pages, and its
    no-IOMMU mode."""
    hca, huge = tmp_path / "sys/bus/pci/devices/0000:01:00.0", tmp_path / "sys/kernel/mm/hugepages/hugepages-2048kB"
    unsafe = tmp_path / "sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
    files = {hca / "vendor": "0x1234", hca / "device": "0x1b0c", huge / "nr_hugepages": pages,
             huge / "free_hugepages": free, huge / "resv_hugepages": reserved, unsafe: "N",
             tmp_path / "modprobe": f"#!/bin/sh\nexit {int(built_in)}",
             **({hca / "iommu_group/name": group} if group else {})}
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    (tmp_path / "modprobe").chmod(0o755)
    for module in ["bus/pci/drivers/vfio-pci", "module/vfio_iommu_type1"] if built_in else []:
        (tmp_path / "sys" / module).mkdir(parents=True)
    script = re.sub(r"(?<![\w.])/(?=sys/|proc/)", f"{tmp_path}/", (USERSPACE / "bind.sh").read_text())
    subprocess.run(["sh", "-c", script], check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert (hca / "driver_override").read_text() == "vfio-pci\n"
    assert (tmp_path / "sys/bus/pci/drivers_probe").read_text() == f"{hca.name}\n"
    return (huge / "nr_hugepages").read_text().strip(), unsafe.read_text().strip()


@pytest.mark.parametrize("pages, free, reserved, then", [("0", "0", "0", "1"), ("3", "0", "0", "4"),
                                                         ("512", "500", "0", "512"), ("3", "2", "2", "4")])
def test_an_hca_without_an_iommu_gets_a_huge_page_beside_those_of_others(tmp_path, pages, free, reserved, then):
    assert bind(tmp_path, pages, free, reserved) == (then, "1")


def test_modules_that_the_kernel_has_built_in_are_not_looked_for(tmp_path):
    assert bind(tmp_path, "0", "0", "0", built_in=True) == ("1", "1")


@pytest.mark.parametrize("group, then", [("vfio-noiommu", ("1", "1")), ("of an IOMMU", ("0", "N"))])
def test_a_group_of_no_iommu_mode_is_no_iommu(tmp_path, group, then):
    """bind.sh runs again after the mode or the huge page was taken away."""
    assert bind(tmp_path, "0", "0", "0", group) == then


# Runs peer.py with stand-ins for pyverbs, which only the guests have.
WITHOUT_VERBS = """import runpy, sys, unittest.mock
names = ["pyverbs"] + ["pyverbs." + name for name in "enums addr cq device mr pd qp wr".split()]
sys.modules.update((name, unittest.mock.MagicMock()) for name in names)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("folder, words, said", [
    (FIRST, [], "usage: python3 peer.py DEVICE LID QPN"),
    (FIRST, ["pib_0", "2", "40"], "usage: python3 peer.py DEVICE LID QPN"),
    (USERSPACE, ["pib_0"], "usage: python3 peer.py DEVICE HOST"),
    (USERSPACE, ["pib_0", "127.255.255.254"], "Start this program when the driver there says"),
])
def test_a_peer_says_how_it_is_started(folder, words, said):
    code, told = run(sys.executable, "-B", "-c", WITHOUT_VERBS, folder / "peer.py", *words)
    assert code == 1 and said in told and "Traceback" not in told, told


def test_there_are_eight_steps_with_an_exercise_each():
    assert [step[:5] for step in STEPS] == [f"step{number}" for number in range(1, 9)]
    assert GUIDE.read_text().count("**Exercise.**") == len(STEPS)
