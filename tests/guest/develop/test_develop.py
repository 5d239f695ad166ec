# SPDX-License-Identifier: GPL-2.0-or-later
"""Drivers exchanged in running guests, and guests whose kernel a driver has ended."""
import contextlib
import pathlib
import re
import shutil
import socket

import pytest

from lab.base import paths, ui
from lab.build import debug_kernel, kernel_module
from lab.develop import commands, crash, debug_commands, exchange, gdb, guest_trace, trace_words
from lab.fabric import capture, report, up
from lab.guests import guest_kernel, vm
from labs import booted
from rdma import DEVICE, PATIENCE_S, sh, wait_until

DRIVERS = pathlib.Path(__file__).parent / "drivers"
ADDRESSES = {"vm0": "10.78.0.1", "vm1": "10.78.0.2"}
BOUND = "readlink /sys/bus/pci/devices/*/driver | grep -c -e /pib_hca$ -e /probe_only$ -e /faulty$"


@pytest.fixture(scope="module", name="bench")
def guests_without_a_driver():
    with booted("test-develop", 2, "trace-entries=65536,trace-registers=on,trace-interrupts=on",
                driver=None) as running:
        yield running


@pytest.fixture(name="ours")
def guests_with_our_driver(bench):
    if sh(bench.node("vm1"), BOUND, check=False)[1] != "1\n":
        commands.exchange_driver(bench, kernel_module.OURS, ["vm0", "vm1"])
    return bench


def ping(lab):
    """Pings vm1 from vm0 over IPoIB until it answers, because the subnet manager may have just started."""
    sh(lab.node("vm0"), f"timeout 200 sh -c 'until ping -c 1 -W 1 {ADDRESSES['vm1']}; do sleep 0.3; done'")


def edited(directory):
    """Copies our driver to the directory, with one more line."""
    shutil.copytree(paths.ROOT / "hw-interface", directory / "hw-interface")
    shutil.copytree(kernel_module.OURS, directory / "driver")
    main = directory / "driver" / "main.c"
    text, count = re.subn(r"(pib_hca_module_init\(void\)\n\{\n\tint ret;\n)", r'\1\n\tpr_info("a line of mine\\n");',
                          main.read_text())
    assert count == 1
    main.write_text(text)
    return directory / "driver"


def test_nothing_binds_to_the_hca_of_a_bare_guest(bench):
    for name in bench.nodes():
        assert sh(bench.node(name), BOUND, check=False)[1] == "0\n"


def test_our_driver_makes_a_subnet_of_bare_guests(ours, capsys):
    commands.exchange_driver(ours, kernel_module.OURS, ["vm0", "vm1"])
    said = capsys.readouterr().out
    for name in ours.nodes():
        assert f"{name}: pib_hca.ko, exchanged" in said and "ACTIVE" in sh(
            ours.node(name), f"cat /sys/class/infiniband/{DEVICE}/ports/1/state")


def test_a_changed_driver_is_exchanged_and_addresses_stay(ours, tmp_path, capsys):
    for name, address in ADDRESSES.items():
        sh(ours.node(name), f"ip link set ib0 up && ip addr replace {address}/24 dev ib0")
    ping(ours)
    commands.exchange_driver(ours, edited(tmp_path), ["vm1"])
    assert "a line of mine" in capsys.readouterr().out
    assert f" {ADDRESSES['vm1']}/24 " in sh(ours.node("vm1"), "ip addr show dev ib0")
    ping(ours)


def test_the_driver_of_the_subnet_managers_guest_is_exchanged(ours):
    commands.exchange_driver(ours, kernel_module.OURS, ["vm0"])
    assert sh(ours.node("vm0"), "pidof opensm")
    ping(ours)


def test_another_driver_takes_the_place_of_ours(ours, capsys):
    commands.exchange_driver(ours, DRIVERS / "probe_only", ["vm1"])
    assert "probe_only has found the HCA" in capsys.readouterr().out
    assert sh(ours.node("vm1"), "ls /sys/class/infiniband; readlink /sys/bus/pci/drivers/probe_only/module") == (
        "../../../../module/probe_only\n")
    commands.exchange_driver(ours, kernel_module.OURS, ["vm1"])
    assert "probe_only has left the HCA" in capsys.readouterr().out and DEVICE in sh(
        ours.node("vm1"), "ls /sys/class/infiniband")


def test_the_drivers_calls_enclose_the_commands_of_the_device(ours):
    """The times of the guest's calls are converted to the device's clock."""
    vm1, words = ours.node("vm1"), trace_words.Words()
    recording = guest_trace.Recording(vm1, ["irq:irq_handler_entry"])
    sh(vm1, f"""python3 -c 'from pyverbs.device import Context; from pyverbs.cq import CQ
CQ(Context(name="{DEVICE}"), 8)'""")
    calls, clock = recording.end()
    assert recording.module == "pib_hca" and clock.uncertainty_ns < 10_000_000
    assert "irq_handler_entry" in {call.name for call in calls}
    near = clock.uncertainty_ns + 2000      # the kernel's trace has microseconds
    made = [entry for entry in vm.device_property(ours.monitor("vm1"), "trace")
            if entry["kind"] == "command" and words.name("CMD", entry["opcode"]) == "CREATE_CQ"
            and entry["fetched_ns"] > calls[0].begin_ns]
    assert made
    for entry in made:
        assert [call for call in calls if call.name == "pib_hca_create_cq"
                and call.begin_ns - near < entry["fetched_ns"] and entry["time_ns"] < (call.end_ns or 0) + near]


def test_a_driver_that_does_not_compile_changes_nothing(ours, tmp_path):
    shutil.copytree(DRIVERS / "probe_only", tmp_path / "wrong")
    (tmp_path / "wrong" / "probe_only.c").write_text("#include <none.h>\n")
    with pytest.raises(ui.LabError, match=rf"{tmp_path}/wrong/probe_only\.c:1:.*none\.h"):
        commands.exchange_driver(ours, tmp_path / "wrong", ["vm1"])
    assert sh(ours.node("vm1"), BOUND) == "1\n"


def drained(sock):
    """Reads what has been captured until now; fails if the switch has ended the capture."""
    with contextlib.suppress(BlockingIOError):
        while True:
            assert sock.recv(capture.CHUNK, socket.MSG_DONTWAIT)


def dies(lab, source, said):
    """A driver crashes or hangs vm1, and reboot brings it back; vm0, hub and switch keep running, and a capture at the
    switch goes on."""
    others = {name: one for name, one in lab.state.processes.items() if name != "vm1"}
    with capture.opened(lab.switch().control, []) as (sock, _):
        try:
            with pytest.raises(ui.LabError, match=said) as raised:
                commands.exchange_driver(lab, source, ["vm1"])
        finally:
            up.reboot(lab, "vm1")
        assert "./pib reboot vm1" in str(raised.value)
        assert {name: one for name, one in lab.state.processes.items() if name != "vm1"} == others
        drained(sock)
        commands.exchange_driver(lab, kernel_module.OURS, ["vm1"])
        wait_until(lambda: DEVICE in sh(lab.node("vm1"), "ls /sys/class/infiniband"), "the device")
        sock.settimeout(PATIENCE_S)
        assert sock.recv(capture.CHUNK), "the capture has ended"
    return str(raised.value)


def test_a_crash_of_the_kernel_is_reported_with_lines_of_source(ours):
    said = dies(ours, DRIVERS / "faulty", "(?s)the kernel of vm1 reports:.*BUG: .*faulty_write")
    line = next(number for number, text in enumerate((DRIVERS / "faulty" / "faulty.c").read_text().splitlines(), 1)
                if "*where = 1" in text)
    assert f"{DRIVERS}/faulty/faulty.c:{line}:  *where = 1;" in said


def test_a_failed_probe_is_a_failure(ours, tmp_path):
    shutil.copytree(DRIVERS / "faulty", tmp_path / "fails")
    with open(tmp_path / "fails" / "Kbuild", "a", encoding="utf-8") as file:
        file.write("ccflags-y := -DFAIL\n")
    with pytest.raises(ui.LabError, match="(?s)vm1: .*has no driver\n.*faulty has found the HCA.*its probe failed"):
        commands.exchange_driver(ours, tmp_path / "fails", ["vm1"])
    commands.exchange_driver(ours, kernel_module.OURS, ["vm1"])
    assert sh(ours.node("vm1"), BOUND) == "1\n"


def test_an_hca_of_vfio_is_left_there(ours):
    vm1 = ours.node("vm1")
    place = "/sys/bus/pci/devices/$(lspci -D -d 1234:1b0c | cut -d ' ' -f 1)"
    sh(vm1, f"echo vfio-pci >{place}/driver_override; basename {place} >{place}/driver/unbind")
    try:
        with pytest.raises(ui.LabError, match="vfio-pci has the HCA"):
            commands.exchange_driver(ours, kernel_module.OURS, ["vm1"])
    finally:
        sh(vm1, f"echo >{place}/driver_override")
    commands.exchange_driver(ours, kernel_module.OURS, ["vm1"])
    assert sh(vm1, BOUND) == "1\n"


@pytest.mark.nightly
def test_a_kernel_that_hangs_reports_where_it_is(ours, tmp_path, monkeypatch):
    """The report comes long before an exchange reaches its limit."""
    def late(*_):
        pytest.fail("the hang was not noticed before the limit")
    monkeypatch.setattr(exchange, "_explain_hang", late)
    shutil.copytree(DRIVERS / "faulty", tmp_path / "hangs")
    with open(tmp_path / "hangs" / "Kbuild", "a", encoding="utf-8") as file:
        file.write("ccflags-y := -DHANG\n")
    assert "faulty.c" in dies(ours, tmp_path / "hangs", "(?s)reports:.*faulty_probe")


def test_a_console_has_the_kernels_report(ours):
    sh(ours.node("vm1"), "echo 'BUG: not at all' >/dev/console")
    files = commands.vm.Files("vm1", ours.sockets())
    assert report.first(files.console.read_text()).startswith("BUG: not at all")


@pytest.mark.skipif(guest_kernel.chosen() not in debug_kernel.KINDS, reason="tests/debug has Debian's kernels")
def test_debuggers_know_the_symbols_of_a_kernel_with_checks(ours, capfd):
    base = debug_commands.image_of(ours)
    assert gdb.kernel(ours, "vm1", base, ["-batch", "-ex", "lx-ps", "-ex", "list pib_hca_post_send"]) == 0
    said = capfd.readouterr().out
    assert re.search(r"^symbols of modules: .*pib_hca", said, re.MULTILINE), said
    assert re.search(r"\bkthreadd$", said, re.MULTILINE) and "pib_hca_post_send(" in said, said
    assert crash.crash(ours, "vm1", base, None, ["qps"]) == 0
    assert ": driver, device; " in capfd.readouterr().out
