# SPDX-License-Identifier: GPL-2.0-or-later
"""Random traffic between two guests, whose bytes are compared, and wires that lose some of it."""
import contextlib
import re
import subprocess

from rdma import DEVICE, PATIENCE_S, counter, put_program, sh, switch_port, wait_until

SOME = 1 << 20          # bytes


def random_traffic(server, client, mib, seed, patience_s=PATIENCE_S):
    """SENDs, WRITEs and READs of this many MiB in all; a seed reproduces them."""
    for node in (server, client):
        put_program(node, "random_traffic.py")
    line = f"timeout {patience_s} python3 /tmp/random_traffic.py {DEVICE} {mib} {seed}"
    running = server.start([line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = sh(client, f"{line} {server.name}", timeout=patience_s + 60)
        heard = running.communicate(timeout=PATIENCE_S)[0].decode()
    finally:    # a program whose peer has ended polls forever
        sh(server, "pkill -f '[r]andom_traffic.py'", check=False)
    assert "the same at both ends" in said and said == heard, said + heard


@contextlib.contextmanager
def lossy_wires(lab, *nodes, least_lost=0):
    """Loses each packet between these guests and the switch with a probability of 1 %, in both directions. least_lost:
    the block must lose this many."""
    ports = [switch_port(lab, node) for node in nodes]
    for port in ports:
        assert lab.switch().ctl("fault", port, "--direction", "both", "--drop", "0.01", "--seed", "1")
    lost = 0
    try:
        yield
    finally:
        for port in ports:
            shown = lab.switch().ctl("fault", port)
            lost += sum(int(number) for number in re.findall(r"dropped\D*(\d+)", shown))
            lab.switch().ctl("fault", port, "--clear")
    assert lost > least_lost, "the wire was not lossy"


def stop_transfer(*nodes):
    """Kills the programs that transfer() runs in these guests, and waits until they have ended."""
    for node in nodes:
        sh(node, "pkill -9 -x ib_write_bw; while pidof ib_write_bw; do sleep 0.1; done")


def begin_transfer(server, client, options=""):
    """Starts ib_write_bw in both guests, and waits until it carries data; returns the programs, the client's last."""
    def run(node, *more):
        words = ["timeout", str(2 * PATIENCE_S), "ib_write_bw", "-D", str(2 * PATIENCE_S), "-d", DEVICE, "-F",
                 *options.split(), *more]
        return node.start(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    before = received(server)
    running = [run(server)]
    try:
        wait_until(lambda: sh(server, "ss -Hltn 'sport = :18515'"), "the server to listen")
        running.append(run(client, server.name))
        goes_on(running[1], lambda: received(server), before)
        return running
    except BaseException:
        end_transfer(running, server, client)
        raise


def end_transfer(running, *nodes):
    """Ends programs of begin_transfer(); nodes: the guests that still run."""
    stop_transfer(*nodes)
    for one in running:
        one.communicate(timeout=PATIENCE_S)


@contextlib.contextmanager
def transfer(server, client, options=""):
    """Runs ib_write_bw from client to server until the block ends. Yields the client's program."""
    running = begin_transfer(server, client, options)
    try:
        yield running[1]
    finally:
        end_transfer(running, server, client)


def received(node):
    """Bytes that the device's first port has received."""
    return 4 * counter(node, "port_rcv_data")


def goes_on(program, carried, before=None):
    """Waits until SOME more bytes have been carried; fails if the client's program of transfer() has ended. carried:
    returns the bytes so far; before: their number at the start, by default the present one."""
    least = (carried() if before is None else before) + SOME
    wait_until(lambda: program.poll() is not None or carried() > least, "more data")
    assert program.poll() is None, program.stdout.read()


def unbind_and_bind(node, meanwhile):
    """Unbinds the device from the driver, calls meanwhile(), and binds it again."""
    where = sh(node, f"readlink -f /sys/class/infiniband/{DEVICE}/device").strip()
    slot = where.rsplit("/", 1)[1]
    sh(node, f"echo {slot} >{where}/driver/unbind")
    assert DEVICE not in sh(node, "ls /sys/class/infiniband")
    meanwhile()
    sh(node, f"echo {slot} >/sys/bus/pci/drivers/pib_hca/bind")
    wait_until(lambda: DEVICE in sh(node, "ls /sys/class/infiniband"), "the device to come back")
