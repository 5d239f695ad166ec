# SPDX-License-Identifier: GPL-2.0-or-later
"""The driver beyond verbs: power management, resets without its knowledge, interrupts, on-demand paging."""
import contextlib
import re
import subprocess
import zlib

import pytest

from rdma import DEVICE, PATIENCE_S, debugfs, lid, put_program, sh, wait_active, wait_until
from traffic import stop_transfer, transfer

CONTENT = b"late" * 16384


def slot(node):
    return sh(node, f"basename $(readlink -f /sys/class/infiniband/{DEVICE}/device)").strip()


def log_after(node, mark):
    return sh(node, "dmesg").rsplit(mark, 1)[-1]


def test_a_suspended_machine_comes_back_with_its_hca(vm0, vm1):
    """The device may not reach memory while the machine sleeps: MADs that arrive then are dropped."""
    wait_active(vm0, vm1)
    sh(vm1, "echo 'lab: suspend' >/dev/kmsg")
    asking = vm0.start([f"for n in $(seq 20); do smpquery -t 200 nodeinfo {lid(vm1)}; done"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:    # suspends all devices, and resumes them after a second
        sh(vm1, "echo devices >/sys/power/pm_test; echo 1 >/sys/module/suspend/parameters/pm_test_delay; "
                "echo freeze >/sys/power/state; echo none >/sys/power/pm_test")
    finally:
        asking.kill()
        asking.wait()
    wait_active(vm1)
    said = log_after(vm1, "lab: suspend")
    assert "PM: suspend exit" in said and "given up" not in said and "not started again" not in said, said
    sh(vm0, f"smpquery nodeinfo {lid(vm1)}")


def test_a_device_that_was_reset_behind_the_drivers_back_is_started_again(vm0, vm1):
    """The driver detects the reset without a command, ends the program that uses the device, and restarts the
    device."""
    wait_active(vm0, vm1)
    with transfer(vm0, vm1):
        reset(vm1)
        wait_until(lambda: re.search(": started again$", log_after(vm1, "lab: reset"), re.MULTILINE),
                   "the driver to start the device again")
        stop_transfer(vm1, vm0)
    assert "; it will be started again" in log_after(vm1, "lab: reset")
    wait_active(vm1)
    sh(vm0, f"smpquery nodeinfo {lid(vm1)}")


def test_a_failed_device_that_the_kernel_resets_is_started_once(vm1):
    """The driver starts a device again 10 s after its last start at the earliest: the kernel's reset comes before."""
    wait_active(vm1)
    by_kernel = f"echo 1 >/sys/bus/pci/devices/{slot(vm1)}/reset"
    sh(vm1, by_kernel)
    reset(vm1)
    wait_until(lambda: "; it will be started again" in log_after(vm1, "lab: reset"), "the driver to notice the reset")
    sh(vm1, f"{by_kernel}; sleep 12")
    assert ": started again" not in log_after(vm1, "lab: reset")
    wait_active(vm1)


def reset(vm1):
    """Makes a function-level reset without the kernel's knowledge."""
    sh(vm1, "echo 'lab: reset' >/dev/kmsg")
    device = slot(vm1)
    sh(vm1, f"cp /sys/bus/pci/devices/{device}/config /tmp/config; setpci -s {device} CAP_EXP+8.w=8000:8000; "
            f"sleep 0.2; dd if=/tmp/config of=/sys/bus/pci/devices/{device}/config bs=256 count=1 2>/dev/null")


def test_names_of_interrupts_have_device_and_vector(vm1):
    names = re.findall(r"pib_hca-(\S+)@pci:(\S+)", sh(vm1, "cat /proc/interrupts"))
    assert names[0][0] == "async" and {where for _, where in names} == {slot(vm1)}
    assert [name for name, _ in names[1:]] == [f"comp{number}" for number in range(len(names) - 1)]


def test_mapped_doorbells_are_neither_dumped_nor_executable(vm1):
    put_program(vm1, "mappings.py")
    sh(vm1, "mount -o remount,exec /dev")   # otherwise the kernel makes no mapping of its files executable
    assert sh(vm1, f"python3 /tmp/mappings.py {DEVICE}") == "fine\n"


def test_the_drivers_folder_in_debugfs_has_the_name_of_the_slot(vm1):
    """udev may give a device another name, and its old name to the next one."""
    assert debugfs(vm1, "pwd").strip() == f"/sys/kernel/debug/pib_hca/{slot(vm1)}"


# -- on-demand paging ---------------------------------------------------------

@contextlib.contextmanager
def slow_file(node):
    """A file whose content arrives only when go() is called; yields (path, wait until it is read, go)."""
    put_program(node, "slow_file.py")
    sh(node, "modprobe fuse; mkdir -p /tmp/slow")
    server = node.start([f"exec timeout {PATIENCE_S} python3 /tmp/slow_file.py /tmp/slow"], text=True,
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def heard(word):
        said = server.stdout.readline()
        assert said == f"{word}\n", said

    def go():
        server.stdin.write("\n" * 64)
        server.stdin.flush()

    try:
        heard("mounted")
        yield "/tmp/slow/slow", lambda: heard("reading"), go
    finally:
        go()
        sh(node, "umount -l /tmp/slow", check=False)
        server.kill()


def write_from(node, path, *how):
    put_program(node, "on_demand.py")
    return node.start([f"exec timeout {PATIENCE_S} python3 /tmp/on_demand.py {DEVICE} {path} {' '.join(how)}"],
                      text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def arrived(program):
    """The CRC of the data that a program has written."""
    said = program.communicate(timeout=PATIENCE_S)[0]
    assert program.returncode == 0, said
    return int(said)


def test_a_slow_page_delays_no_other_program(vm0):
    """Neither page faults nor the destruction of regions of one program delay other programs."""
    wait_active(vm0)
    sh(vm0, "head -c 65536 /dev/urandom >/tmp/quick")
    expected = int(sh(vm0, "python3 -c 'import zlib; print(zlib.crc32(open(\"/tmp/quick\", \"rb\").read()))'"))
    with slow_file(vm0) as (path, wait_until_read, go):
        slow = write_from(vm0, path)
        try:
            wait_until_read()
            assert arrived(write_from(vm0, "/tmp/quick")) == expected
            assert slow.poll() is None
            go()
            assert arrived(slow) == zlib.crc32(CONTENT)
        finally:
            slow.kill()


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_the_device_reads_pages_that_it_may_not_write(vm0, kind):
    wait_active(vm0)
    sh(vm0, "yes late | tr -d '\\n' | head -c 65536 >/tmp/read-only")
    assert arrived(write_from(vm0, "/tmp/read-only", *([kind] if kind == "implicit" else []))) == zlib.crc32(CONTENT)


def test_tables_of_pages_that_a_process_gives_back_are_freed(vm0):
    put_program(vm0, "odp_tables.py")
    assert sh(vm0, f"python3 /tmp/odp_tables.py {DEVICE} /sys/kernel/debug/pib_hca/{slot(vm0)}/odp_tables") == "fine\n"
