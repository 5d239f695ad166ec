# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports of the driver about itself: debugfs, and driver details of rdma resource. See docs/observability.md."""
import re
import subprocess

from lab.build import image
from lab.develop import coverage_points, driver_coverage, trace, trace_words
from lab.guests import vm
from lab.interface import description
from rdma import DEVICE, PATIENCE_S, debugfs, put_program, sh, wait_active, wait_until


def show(node, name):
    return debugfs(node, f"cat {name}").splitlines()


OBJECTS = {"qps": "qp", "cqs": "cq", "srqs": "srq", "mrs": "mr"}


def test_debugfs_shows_the_objects_of_the_kernel(vm0):
    qps = show(vm0, "qps")
    assert any(line.startswith("qp 0 state RTS") or line.startswith("qp 0x0 state RTS") for line in qps), qps
    cqs = show(vm0, "cqs")
    assert cqs and all(line.startswith("cq ") and " error 0 " in line for line in cqs), cqs
    eqs = show(vm0, "eqs")
    assert " async 1 " in eqs[0] and len(eqs) > 1


def test_debugfs_shows_the_objects_of_a_program(vm0):
    """A server that waits for its client has a CQ, an SRQ, a region and queue pairs until it ends."""
    before = {name: show(vm0, name) for name in OBJECTS}
    serving = vm0.start([f"exec timeout {PATIENCE_S} ibv_srq_pingpong -d {DEVICE} -q 4"], stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(show(vm0, "qps")) >= len(before["qps"]) + 4, "the program's queue pairs")
        for name, kind in OBJECTS.items():
            shown = show(vm0, name)
            assert len(shown) > len(before[name]) and all(line.startswith(f"{kind} ") for line in shown), (name, shown)
    finally:
        sh(vm0, "pkill -x ibv_srq_pingpon", check=False)    # a name has 15 characters
        serving.wait(timeout=60)
    wait_until(lambda: {name: len(show(vm0, name)) for name in OBJECTS}
               == {name: len(shown) for name, shown in before.items()}, "the program's objects to go")


def test_debugfs_has_the_reasons_of_refusals(vm1):
    put_program(vm1, "refused.py")
    qpn, other, lkey = sh(vm1, f"python3 /tmp/refused.py {DEVICE}").split()
    shown = show(vm1, "refusals")
    reasons = [rf"MODIFY_QP of {qpn} id \d+ refused: min_rnr_timer 32 at byte 102, at most 31 "
               r"\(manual 6\.15 rule 16\)",
               rf"send WQE 0 of QP {other} refused: sge\.lkey {lkey} at byte 28 must give the QP this access to all "
               r"bytes of the SGE, from 0x\w+ \(manual 12\.4 rule 35\)"]
    for line, reason in zip(shown[-2:], reasons, strict=True):
        assert re.fullmatch(rf"\d+ at \d+\.\d{{6}}s: {reason}", line), shown
    numbers = [int(line.partition(" ")[0]) for line in shown]
    assert numbers == sorted(set(numbers)), shown


def test_a_device_records_while_it_is_traced(lab, vm1):
    words, lines = trace_words.Words(), []
    put_program(vm1, "refused.py")
    with trace.recording(lab, "vm1", ["commands", "interrupts"], once=False) as (monitor, since_ns):
        sh(vm1, f"python3 /tmp/refused.py {DEVICE}")
        reader = trace.Reader(frozenset({"command", "interrupt", trace.REFUSAL}), words, since_ns=since_ns)
        trace.follow(monitor, reader, 0, lambda entry: lines.append(words.line(entry)))
    for told in (r"CREATE_QP .* type RC .*-> OK, QPN 0x", r"MODIFY_QP .* min_rnr_timer 32 ", r"interrupt \d",
                 r"  send WQE 0 of QP 0x\w+ refused: sge\.lkey "):
        assert any(re.search(told, line) for line in lines), lines
    assert vm.device_property(lab.monitor("vm1"), "trace") == []


def test_programs_receive_injected_events(vm0, vm1):
    """The last event is the device's failure, after which the driver starts the device again."""
    wait_active(vm0, vm1)
    put_program(vm1, "injected.py")
    events = show(vm1, "inject")
    folder = debugfs(vm1, "pwd").strip()
    out = sh(vm1, f"python3 /tmp/injected.py {DEVICE} {folder}")
    assert sorted(out.split()[1::2]) == sorted(events), out
    wait_until(lambda: "ACTIVE" in sh(vm1, f"cat /sys/class/infiniband/{DEVICE}/ports/1/state", check=False)[1],
               "the device to be started again")


def test_debugfs_shows_the_registers(vm0):
    registers = dict(line.split(" = ") for line in show(vm0, "registers"))
    assert registers["status"] == "0x00000001" and registers["port_count"] == "0x00000002", registers
    guid = sh(vm0, f"cat /sys/class/infiniband/{DEVICE}/node_guid").strip().replace(":", "")
    assert registers["node_guid_high"][2:] + registers["node_guid_low"][2:] == guid


def test_the_self_test_finds_registers_and_interrupts_in_order(vm0):
    vectors = int(sh(vm0, "grep -c pib_hca /proc/interrupts"))
    assert show(vm0, "selftest") == ["registers ok", *(f"vector {number} ok" for number in range(vectors))]


def test_rdma_resource_has_driver_details(vm0):
    assert "expected_psn" in sh(vm0, "rdma -dd resource show qp")
    assert "producer" in sh(vm0, "rdma -dd resource show cq")
    if image.release() != "bookworm":   # Linux 6.1 asks no driver about SRQs
        assert "waiting" in sh(vm0, "rdma -dd resource show srq")  # the SRQ of IPoIB


def test_rdma_statistic_has_the_names_that_tools_know(vm0):
    shown = sh(vm0, f"rdma statistic show link {DEVICE}/1")
    for name in ("out_of_sequence", "packet_seq_err", "rnr_nak_retry_err", "local_ack_timeout_err", "duplicate_request",
                 "rx_write_requests", "rx_read_requests", "rx_atomic_requests", "req_cqe_error", "resp_cqe_error"):
        assert f" {name} " in shown, shown


def test_the_device_counts_what_the_driver_uses(lab, vm0):
    """The boot and ibv_devinfo use at least the points listed here."""
    sh(vm0, f"ibv_devinfo -d {DEVICE} -v")
    points = coverage_points.points(description.interface(), driver_coverage.of_guest(lab, "vm0"))
    used = {point.title for point in points if point.uses}
    assert {"PIB_HCA_REG_VERSION: load", "PIB_HCA_REG_CONTROL: ENABLE", "PIB_HCA_UAR_EQ: EQ_ARM",
            "command: QUERY_DEVICE", "CREATE_EQ.flags: ASYNC", "CREATE_QP.type: GSI", "MODIFY_QP.state: RTS",
            "send WQE: SEND", "CQE: RECV", "CQE status: SUCCESS", "EQE: COMMAND"} <= used
    assert 0 < driver_coverage.share(points) < 1
