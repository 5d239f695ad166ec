# SPDX-License-Identifier: GPL-2.0-or-later
"""Helpers of the guest tests: commands that must succeed, pairs of programs, waits that poll."""
import pathlib
import re
import subprocess
import time

from lab.fabric import measure

PATIENCE_S = 300  # the machines are slow and busy, so only a hang reaches this limit
DEVICE = "pib_0"
PROGRAMS = pathlib.Path(__file__).parent / "programs"


def sh(node, line, *, check=True, timeout=PATIENCE_S):
    """Runs a shell line in a guest; returns its standard output. With check, it must succeed."""
    done = node.run([line], timeout_s=timeout)
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if check:
        assert done.returncode == 0, f"{node.name}$ {line}\nexit {done.returncode}\n{out}\n{err}"
    return out if check else (done.returncode, out, err)


def put_program(node, name):
    """Copies a file of programs/, and the files of programs/ that it imports, to a guest's /tmp."""
    file = PROGRAMS / name
    text = file.read_text()
    assert node.run([f"cat >/tmp/{name}"], stdin=text.encode()).returncode == 0
    for module in re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE):
        if (PROGRAMS / f"{module}.py").exists():
            put_program(node, f"{module}.py")


def wait_until(condition, what, timeout=PATIENCE_S):
    """Polls until condition() is true and returns its value."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {timeout} s for {what}"
        time.sleep(0.3)


def port_state(node):
    return sh(node, f"cat /sys/class/infiniband/{DEVICE}/ports/1/state").strip()


def wait_active(*nodes):
    for node in nodes:
        wait_until(lambda: "ACTIVE" in port_state(node), f"{node.name}'s port to be ACTIVE")


def debugfs(node, line):
    """Runs a shell line in the folder of the driver in debugfs; a guest of the lab has one HCA."""
    return sh(node, "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug; "
              f"cd /sys/kernel/debug/pib_hca/* && {line}")


def lid(node):
    return int(sh(node, f"cat /sys/class/infiniband/{DEVICE}/ports/1/lid"), 16)


def run_pair(server, client, server_line, client_line, timeout=PATIENCE_S):
    """Runs a server in one guest and, once it listens, its client in the other. Returns exit status, output and errors
    of the client, then exit status and output of the server.

    Repeats the client until the server listens, because these programs do not report that.
    """
    serving = server.start([f"exec timeout {timeout} {server_line}"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        end = time.monotonic() + timeout
        while True:
            code, out, err = sh(client, f"timeout {timeout} {client_line}", check=False,
                                timeout=timeout + 60)
            refused = "Couldn't connect" in out + err or "refused" in out + err
            if not (refused and time.monotonic() < end and serving.poll() is None):
                break
            time.sleep(0.3)
        served = serving.communicate(timeout=timeout)[0]
    finally:
        serving.end()
    return code, out, err, serving.returncode, served


def pair(server, client, server_line, client_line, timeout=PATIENCE_S):
    """Like run_pair(), but both must succeed. Returns the output of client and server."""
    out, _, heard = _pair(server, client, server_line, client_line, timeout)
    return out, heard


def _pair(server, client, server_line, client_line, timeout):
    code, out, err, server_code, heard = run_pair(server, client, server_line, client_line, timeout)
    assert code == 0, f"client: {client_line}\nexit {code}\n{out}\n{err}\nserver:\n{heard}"
    assert server_code == 0, f"server: {server_line}\nexit {server_code}\n{heard}"
    return out, err, heard


def perftest(server, client, line):
    """Runs a perftest program in two guests, again if its clock failed. Returns the client's output, whose figures are
    not 0."""
    return measure.with_clock(
        line, lambda: _pair(server, client, line, f"{line} {server.name}", PATIENCE_S)[:2])


def perftest_rows(text):
    """The result lines of a perftest program: lists of numbers, message size first."""
    rows = []
    for line in text.splitlines():
        words = line.split()
        try:
            rows.append([float(word) for word in words])
        except ValueError:
            continue
    return [row for row in rows if len(row) >= 4]


def resources(node):
    """The objects that rdma resource counts, by kind, for our device."""
    words = sh(node, f"rdma resource show {DEVICE}").split(f"{DEVICE}:", 1)[1].split()
    return {kind: int(count) for kind, count in zip(words[::2], words[1::2])}


def counter(node, name):
    """A counter of the device's first port. Counters of data count words of four bytes."""
    return int(sh(node, f"cat /sys/class/infiniband/{DEVICE}/ports/1/counters/{name}"))


def ping_itself(node):
    """Sends RC messages from a guest to itself."""
    sh(node, f"ibv_rc_pingpong -d {DEVICE} -n 10 & "
             f"until ibv_rc_pingpong -d {DEVICE} -n 10 127.0.0.1; do sleep 0.2; done; wait")


COMPLAINTS = ("BUG:", "WARNING:", "Oops", "general protection", "possible circular locking",
              "sleeping function called", "soft lockup", "hung task", "Call Trace", "UBSAN:")
# The DMA API's check reports two memory regions over one page, and more than seven, as errors. Verbs allow them, and
# ib_core maps them.
OVERLAP = re.compile(r"^.*\[ cut here \]-+\n.*(?:cacheline tracking EEXIST|exceeded \d+ overlapping mappings)"
                     r"(?s:.*?)end trace.*$", re.M)


def complaints(log):
    """Lines of a kernel log that indicate an error."""
    return [line for line in OVERLAP.sub("", log).splitlines()
            if any(word in line for word in COMPLAINTS)]


def kernel_complaints(node):
    return complaints(sh(node, "dmesg"))


def reload_the_driver(vm1, times):
    module = sh(vm1, "modinfo -n pib_hca 2>/dev/null || find / -xdev -name pib_hca.ko | head -1").strip()
    assert module
    for _ in range(times):
        sh(vm1, "modprobe -r ib_ipoib ib_umad rdma_ucm 2>/dev/null; rmmod -v pib_hca || "
                "{ cd /sys/module/pib_hca; grep . initstate refcnt; ls holders; lsmod; ps ax; exit 1; }")
        assert DEVICE not in sh(vm1, "ls /sys/class/infiniband 2>/dev/null; true")
        sh(vm1, f"modprobe -a ib_umad ib_uverbs; modprobe pib_hca || insmod {module}")
        wait_until(lambda: DEVICE in sh(vm1, "ls /sys/class/infiniband"), "the device to come back")
    wait_active(vm1)
    assert kernel_complaints(vm1) == []


def switch_port(lab, node, port=1):
    """Number, as a string, of the switch port to which a guest's port is connected. The lab has one switch."""
    row = re.search(rf"^ *(\d+) .* {node.name} pib-hca port {port} ", lab.switch().ctl("status"), re.M)
    assert row, f"{node.name}'s port {port} is not connected"
    return row[1]
