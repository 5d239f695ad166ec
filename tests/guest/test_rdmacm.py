# SPDX-License-Identifier: GPL-2.0-or-later
"""The connection manager over IPoIB addresses."""

import subprocess

import pytest

import labs
from lab.fabric import measure
from rdma import DEVICE, complaints, counter, sh, wait_until

LIMIT_S = 150
# The ends of perftest agree over one connection. Then the client connects again, while the server is about to listen
# again: a server that is late answers that it has no such service, by a REJ with reason 8 or, for UD, by a SIDR_REP
# with status 1. Its client ends or crashes.
PERFTEST = "ib_"
LATE = (b"Event: RDMA_CM_EVENT_REJECTED; error: 8.", b"Event: RDMA_CM_EVENT_UNREACHABLE; error: 1.")
PERFTEST_TRIES = 5


def wait_listening(node, program: str) -> None:
    """Waits until a program of this name accepts connections."""
    def listens() -> bool:
        shown = sh(node, "rdma resource show cm_id").splitlines()
        return any("state LISTEN " in line and f" comm {program[:15]} " in line for line in shown)

    wait_until(listens, f"{program} in {node.name} to listen", LIMIT_S)


def pair(server, client, server_line: str, client_line: str, endless: bool = False) -> str:
    """Runs a server and, once it listens, one client; returns the client's output. Both run again if perftest's server
    was late. endless: the server does not end with its client."""
    program = server_line.split()[0]
    for tries in range(1, PERFTEST_TRIES + 1):
        done, status, heard = run_once(server, client, server_line, client_line, endless)
        late = program.startswith(PERFTEST) and any(event in done.stderr for event in LATE)
        if not late or tries == PERFTEST_TRIES:
            break
        expect_crash_of(program)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode() + heard
    assert endless or status == 0, heard
    return done.stdout.decode()


def run_once(server, client, server_line: str, client_line: str, endless: bool):
    """Returns the client's result, the server's status and output. A server whose client failed is ended."""
    program = server_line.split()[0]
    serving = server.start([f"exec timeout {LIMIT_S} {server_line}"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        wait_listening(server, program)
        done = client.run([f"timeout {LIMIT_S} {client_line}"], timeout_s=LIMIT_S + 30)
        if not endless and done.returncode == 0:
            serving.wait(LIMIT_S + 30)
    finally:
        server.run(["pkill", "-x", program])
        text, _ = serving.communicate(timeout=60)
    return done, serving.returncode, text.decode(errors="replace")


def expect_crash_of(program: str) -> None:
    """Accepts the kernel messages that a crashed client causes, and no others."""
    for name, said in labs.new_kernel_messages().items():
        others = [line for line in complaints(said) if f"traps: {program[:15]}[" not in line]
        assert not others, f"{name}: the kernel complains:\n{said}"


def test_rping_verifies_its_data(vm0, vm1, addresses):
    pair(vm0, vm1, f"rping -s -a {addresses[0]} -S 4096 -C 50",
         f"rping -c -a {addresses[0]} -V -C 50 -S 4096")


def test_perftest_connects_through_rdma_cm(vm0, vm1, addresses):
    line = "ib_send_bw -R -s 4096 -n 200"
    text = pair(vm0, vm1, line, f"{line} {addresses[0]}")
    assert measure.columns(text, 4096)[1] == 200


# Server and client; {} is the server's address.
PROGRAMS = {
    "rping over IPv6": ("rping -s -a {six} -C 20", "rping -c -a {six} -V -C 20"),
    "rping with a queue a thread": ("rping -s -P -p 7180 -a {}", "rping -c -p 7180 -a {} -V -C 20"),
    "ucmatose": ("ucmatose -c 4 -C 20 -S 4096", "ucmatose -s {} -c 4 -C 20 -S 4096"),
    "ucmatose, migrated to another channel": ("ucmatose -c 2 -m", "ucmatose -s {} -c 2 -m"),
    "udaddy": ("udaddy -c 4 -C 20 -S 1024", "udaddy -s {} -c 4 -C 20 -S 1024"),
    "rstream": ("rstream -S 65536 -C 50", "rstream -s {} -S 65536 -C 50"),
    "rstream, checked, polled": ("rstream -S 4096 -C 50 -T v -T n", "rstream -s {} -S 4096 -C 50 -T v -T n"),
    "riostream": ("riostream -S 65536 -C 50", "riostream -s {} -S 65536 -C 50"),
    "cmtime": ("cmtime -c 50", "cmtime -s {} -c 50"),
    "ib_write_bw": ("ib_write_bw -R -n 200", "ib_write_bw -R -n 200 {}"),
    "ib_read_lat": ("ib_read_lat -R -n 100", "ib_read_lat -R -n 100 {}"),
    "ib_send_lat, UD": ("ib_send_lat -R -c UD -n 100", "ib_send_lat -R -c UD -n 100 {}"),
}
ENDLESS = ("rping -s -P",)      # servers that do not end with their client


@pytest.fixture(scope="module")
def six(vm0, vm1, addresses):
    """An IPv6 address of the first guest that the other one can reach."""
    for number, node in enumerate((vm0, vm1), 1):
        assert node.run([f"ip -6 addr replace fd77::{number}/64 dev ib0 nodad"]).returncode == 0
    done = vm1.run([f"timeout {LIMIT_S} sh -c 'until ping -c 1 -W 1 fd77::1; do sleep 0.5; done'"],
                   timeout_s=LIMIT_S + 30)
    assert done.returncode == 0, done.stdout.decode()
    return "fd77::1"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_librdmacm_works(vm0, vm1, addresses, six, name):
    server, client = (line.format(addresses[0], six=six) for line in PROGRAMS[name])
    pair(vm0, vm1, server, client, server.startswith(ENDLESS))


def test_rcopy_copies_a_file(vm0, vm1, addresses):
    vm1.run(["head -c 3000000 /dev/urandom >/tmp/sent"])
    vm0.run(["rm -f /tmp/received"])
    pair(vm0, vm1, "rcopy", f"rcopy /tmp/sent {addresses[0]}:/tmp/received", endless=True)
    sums = {node.run(["md5sum", path]).stdout.split()[0]
            for node, path in ((vm1, "/tmp/sent"), (vm0, "/tmp/received"))}
    assert len(sums) == 1


def test_mckey_receives_multicasts(vm0, vm1, addresses):
    """The receiver ends when it has all messages of one sender; messages before its start are lost."""
    receiving = vm0.start([f"exec timeout {LIMIT_S} mckey -m 239.77.0.9 -b {addresses[0]} -C 5"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        while receiving.poll() is None:
            vm1.run([f"timeout 30 mckey -m 239.77.0.9 -b {addresses[1]} -s -C 5"], timeout_s=60)
    finally:
        vm0.run(["pkill", "-x", "mckey"])
    text = receiving.communicate(timeout=60)[0].decode()
    assert receiving.returncode == 0 and "test complete" in text, text


def messages(node, way):
    """Numbers of connection management messages so far, by kind. way: tx or rx."""
    done = node.run([f"cd /sys/class/infiniband/{DEVICE}/ports/1/cm_{way}_msgs; grep . *"])
    assert done.returncode == 0, done.stderr.decode()
    return {kind: int(count) for kind, count in
            (line.split(":") for line in done.stdout.decode().split())}


def test_ib_cm_counts_every_message_of_a_connection(vm0, vm1, addresses):
    """REQ, REP, RTU, DREQ and DREP, which ib_cm counts at both ends."""
    ends = ((vm0, "rx"), (vm0, "tx"), (vm1, "tx"), (vm1, "rx"))
    before = [messages(*end) for end in ends]
    pair(vm0, vm1, f"rping -s -a {addresses[0]} -C 3", f"rping -c -a {addresses[0]} -V -C 3")
    got, said, asked, heard = ({kind: count - then[kind] for kind, count in messages(*end).items()}
                               for end, then in zip(ends, before))
    for kind in ("req", "rtu"):
        assert asked[kind] >= 1 and got[kind] >= 1, (kind, asked, got)
    assert said["rep"] >= 1 and heard["rep"] >= 1, (said, heard)
    assert asked["dreq"] + said["dreq"] >= 1 and asked["drep"] + said["drep"] >= 1, (asked, said)


def test_a_program_that_takes_its_time_is_waited_for(vm0, vm1, addresses):
    """While a program has not answered, a repeated REQ is answered by MRA."""
    serving = vm0.start([f"exec timeout {2 * LIMIT_S} rping -s -P -p 7181 -a {addresses[0]}"],
                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    connect = f"timeout {LIMIT_S} rping -c -p 7181 -a {addresses[0]} -V -C 3"
    try:
        wait_listening(vm0, "rping")
        done = vm1.run([connect], timeout_s=LIMIT_S + 30)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        said, heard = messages(vm0, "tx")["mra"], messages(vm1, "rx")["mra"]
        vm0.run(["pkill -STOP -x rping"])
        asking = vm1.start([connect], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
        wait_until(lambda: messages(vm1, "rx")["mra"] > heard, "MRA")
        assert messages(vm0, "tx")["mra"] > said
        vm0.run(["pkill -CONT -x rping"])
        text, _ = asking.communicate(timeout=LIMIT_S)
        assert asking.returncode == 0, text.decode()
    finally:
        vm0.run(["pkill -CONT -x rping; pkill -x rping"])
        serving.wait(timeout=60)


def test_a_port_without_a_server_rejects_the_connection(vm1, addresses):
    done = vm1.run([f"timeout {LIMIT_S} rping -c -a {addresses[0]} -p 9999 -C 1"], timeout_s=LIMIT_S + 30)
    assert done.returncode not in (0, 124)
    assert b"REJECTED" in done.stdout + done.stderr, (done.stdout + done.stderr).decode()


def test_a_tcp_program_works_over_rsockets(vm0, vm1, addresses):
    """Netcat, which opens a plain SOCK_STREAM. (librspreload leaves SOCK_STREAM | SOCK_CLOEXEC, as Python and perl open
    it, to TCP.)"""
    preload = "env LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"
    serving = vm0.start([f"exec timeout {LIMIT_S} {preload} nc.traditional -l -p 8777 | md5sum"],
                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        wait_listening(vm0, "nc.traditional")
        before = counter(vm1, "port_xmit_data")
        sent = sh(vm1, f"head -c 1000000 /dev/urandom >/tmp/sent; md5sum </tmp/sent; timeout {LIMIT_S} {preload} "
                       f"nc.traditional -q 0 {addresses[0]} 8777 </tmp/sent")
        assert serving.communicate(timeout=LIMIT_S)[0] == sent
        assert counter(vm1, "port_xmit_data") - before > 1_000_000 / 4
    finally:
        vm0.run(["pkill", "-x", "nc.traditional"])
        serving.wait(timeout=60)
