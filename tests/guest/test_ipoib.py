# SPDX-License-Identifier: GPL-2.0-or-later
"""IP over InfiniBand between two guests: both modes, IPv4 and IPv6, multicast, and what happens
when the port or the subnet manager goes away."""
import re
import subprocess

import pytest

import managers
from lab.fabric import subnet
from rdma import PATIENCE_S, sh, switch_port, wait_active, wait_until

MODES = {"datagram": 4092, "connected": 65520}
GROUP = "239.77.0.1"


def link(node):
    """(MTU, carrier) of ib0."""
    text = sh(node, "cat /sys/class/net/ib0/mtu; cat /sys/class/net/ib0/carrier 2>/dev/null || echo 0")
    mtu, carrier = text.split()
    return int(mtu), carrier == "1"


def wait_ping(node, address, options=""):
    sh(node, f"timeout {PATIENCE_S} sh -c 'until ping -c 1 -W 1 {options} {address} >/dev/null; do sleep 0.3; done'")


def ping(node, address, options=""):
    text = sh(node, f"ping -c 5 -i 0.2 -W 20 {options} {address}")
    assert " 0% packet loss" in text, text


@pytest.fixture(scope="module")
def large_groups(vm0, vm1, addresses):
    """A broadcast group with MTU 4096. opensm's default is 2048, which datagram mode may not exceed."""
    managers.stop(vm0)
    sh(vm0, "echo 'Default=0x7fff, ipoib, mtu=5 : ALL=full ;' >/tmp/large.conf")
    managers.start(vm0, "-P /tmp/large.conf")
    managers.wait_state(vm0, "MASTER")
    yield
    managers.stop(vm0)
    log = managers.take_log(vm0)
    managers.check(log)
    subnet.start_manager(vm0)
    managers.wait_state(vm0, "MASTER")
    for node in (vm0, vm1):
        sh(node, "ip link set ib0 down; ip link set ib0 up")
    wait_ping(vm1, addresses[0])


@pytest.fixture(scope="module", params=MODES)
def mode(request, vm0, vm1, addresses, large_groups):
    """ib0 of both guests in one mode, with its largest MTU."""
    for node in (vm0, vm1):
        sh(node, f"ip link set ib0 down; echo {request.param} >/sys/class/net/ib0/mode; "
                 "ip link set ib0 up")
        wait_until(lambda: sh(node, f"ip link set ib0 mtu {MODES[request.param]}", check=False)[0] == 0
                   and link(node)[0] == MODES[request.param], "the largest MTU")
        assert request.param in sh(node, "cat /sys/class/net/ib0/mode")
    wait_ping(vm1, addresses[0])
    yield request.param
    for node in (vm0, vm1):
        sh(node, "ip link set ib0 down; echo datagram >/sys/class/net/ib0/mode; ip link set ib0 up")
    wait_ping(vm1, addresses[0])


def six(node):
    """The link-local address of ib0."""
    text = wait_until(lambda: sh(node, "ip -6 addr show dev ib0 scope link -tentative"), "an IPv6 address")
    return re.search(r"inet6 (fe80:\S+)/", text)[1] + "%ib0"


def test_ping(vm0, vm1, mode, addresses):
    """A small ping, and the largest one that fits the MTU without fragments."""
    largest = MODES[mode]
    assert link(vm0) == (largest, True)
    for sender, address in ((vm0, addresses[1]), (vm1, addresses[0])):
        ping(sender, address)
        ping(sender, address, f"-M do -s {largest - 28}")
    for sender, receiver in ((vm0, vm1), (vm1, vm0)):
        wait_ping(sender, six(receiver))
        ping(sender, six(receiver), f"-M do -s {largest - 48}")


@pytest.mark.parametrize("family", ["-4", "-6"])
def test_iperf3(vm0, vm1, mode, addresses, family):
    address = addresses[0] if family == "-4" else six(vm0)
    serving = vm0.start(["exec iperf3 -s -1"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT, text=True)
    text = sh(vm1, f"for i in $(seq 60); do iperf3 {family} -c {address} -t 2 --json && exit 0; sleep 0.5; "
                   "done; exit 1")
    heard = serving.communicate(timeout=PATIENCE_S)[0]
    assert serving.returncode == 0, heard
    assert float(re.search(r'"sum_received":\s*{[^}]*"bits_per_second":\s*([\d.e+]+)', text)[1]) > 1e6, text


def test_multicast(vm0, vm1, mode):
    """Both guests join a group; each datagram arrives once."""
    receive = ("import socket,struct;s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.bind(('',7777));"
               "s.setsockopt(0,socket.IP_ADD_MEMBERSHIP,socket.inet_aton('{group}')+socket.inet_aton('{mine}'));"
               "s.settimeout(250);print(*[s.recv(100).decode() for _ in range(5)])")
    send = ("import socket,time;s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);"
            "s.setsockopt(0,socket.IP_MULTICAST_IF,socket.inet_aton('{mine}'));"
            "s.setsockopt(0,socket.IP_MULTICAST_TTL,4)\n"
            "number=0\n"
            "while True: s.sendto(str(number).encode(),('{group}',7777));number+=1;time.sleep(0.2)")
    mine = [re.search(r"inet (\S+)/", sh(node, "ip -4 addr show dev ib0"))[1] for node in (vm0, vm1)]
    sending = vm1.start(["timeout", "280", "python3", "-c", send.format(group=GROUP, mine=mine[1])],
                        stdin=subprocess.DEVNULL)
    try:
        done = vm0.run(["timeout", "280", "python3", "-c", receive.format(group=GROUP, mine=mine[0])],
                       timeout_s=PATIENCE_S)
        numbers = [int(word) for word in done.stdout.split()]
        assert len(numbers) == 5 and numbers == sorted(set(numbers)), (numbers, done.stderr.decode())
    finally:
        sh(vm1, "pkill -x python3", check=False)
        sending.kill()


def test_carrier_follows_the_port_and_traffic_comes_back(lab, vm0, vm1, mode, addresses):
    control = lab.switch()
    port = switch_port(lab, vm1)
    control.ctl("link", port, "down")
    wait_until(lambda: not link(vm1)[1], "no carrier without a link")
    control.ctl("link", port, "up")
    wait_until(lambda: link(vm1)[1], "the carrier to be back")
    wait_active(vm1)
    wait_ping(vm1, addresses[0])
    ping(vm0, addresses[1])


def test_a_new_subnet_manager_changes_nothing(vm0, vm1, mode, addresses):
    managers.stop(vm0)
    ping(vm1, addresses[0])                     # known paths need no manager
    managers.start(vm0, "-P /tmp/large.conf")
    managers.wait_state(vm0, "MASTER")
    wait_active(vm0, vm1)
    wait_ping(vm1, addresses[0])
    ping(vm0, addresses[1])
