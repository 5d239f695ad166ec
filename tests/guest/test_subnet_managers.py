# SPDX-License-Identifier: GPL-2.0-or-later
"""Two guests in a 2D torus of sixteen switches: torus-2QoS, two subnet managers, lost SMPs, partitions, QoS,
and osmtest."""
import re
import signal
import subprocess

import pytest

import managers
from lab.base import paths
from lab.fabric import ctl, subnet, topology
from labs import booted
from rdma import DEVICE, PATIENCE_S, lid, pair, perftest, perftest_rows, run_pair, sh, wait_active, wait_until

FILE = paths.ROOT / "examples" / "topologies" / "torus-4x4.topo"
# Configuration of a standby that notices a failure soon: it polls every second, and gives up after two polls.
SOON = "sminfo_polling_timeout 1000\npolling_retry_number 2\n"


@pytest.fixture(scope="module")
def torus():
    with booted("test-managers", 2, fabric_file=FILE) as running:
        yield running


@pytest.fixture(scope="module")
def guests(torus):
    return [torus.node(name) for name in torus.nodes()]


@pytest.fixture
def no_manager(guests):
    """The logs of the started managers contain no errors except those that the test adds to the yielded list. A log is
    complete when its opensm has ended."""
    managers.stop(*guests)
    for guest in guests:
        managers.take_log(guest)
    expected = []
    yield expected
    managers.stop(*guests)
    for guest in guests:
        log = managers.take_log(guest)
        managers.check(log, expected)
    subnet.start_manager(guests[0])
    wait_active(*guests)


def traffic(server, client, extra=""):
    """Sends a number of messages that must all arrive; a lost one is an error."""
    line = f"ib_write_bw -d {DEVICE} -F -n 500 -u 16 {extra}"
    return perftest_rows(perftest(server, client, line))[-1][3]


# ---- routing

def torus_seed():
    """torus-2QoS.conf for the example: the origin and the directions of x and y. With a radix of 4 both directions must
    be given."""
    nodes = topology.load(FILE).nodes
    ways = {"xp": "1-0", "xm": "3-0", "yp": "0-1", "ym": "0-3"}
    links = [f"{way}_link {nodes['switch-0-0'].guid:#x} {nodes[f'switch-{place}'].guid:#x}"
             for way, place in ways.items()]
    return "\n".join(["torus 4 4 1", *links]) + "\n"


def test_torus_2qos_routes_traffic(guests, no_manager):
    sh(guests[0], f"cat >/tmp/torus.conf <<'END'\n{torus_seed()}END")
    log = managers.once(guests[0], "-R torus-2QoS -Q --torus_config /tmp/torus.conf")
    assert "torus-2QoS tables configured" in log, log[-3000:]
    wait_active(*guests)
    # torus-2QoS avoids deadlocks by service levels, which path records contain.
    managers.start(guests[0], "-R torus-2QoS -Q --torus_config /tmp/torus.conf")
    managers.wait_state(guests[0], "MASTER")
    for server, client in (guests, reversed(guests)):
        text = wait_until(lambda: sh(client, f"saquery -p --src-to-dst {lid(client)}:{lid(server)}",
                                     check=False)[1], "a path record")
        level = int(re.search(r"sl\.+(?:0x)?(\w+)", text)[1], 16)
        assert traffic(server, client, f"--sl {level}") > 0


# ---- two managers

def lids_under(master, guests, options, config=SOON):
    """Starts a manager, which becomes the master. Returns the LIDs of the guests, whose ports are Active."""
    managers.start(master, options, config)
    managers.wait_state(master, "MASTER")
    wait_active(*guests)
    return [lid(guest) for guest in guests]


def takes_over(newcomer, master, options):
    """Starts a manager to which the master hands over."""
    managers.start(newcomer, options, SOON)
    managers.wait_state(newcomer, "MASTER")
    managers.wait_state(master, "STANDBY")


def wait_sm_lid(guests, number):
    wait_until(lambda: [managers.sm_lid(guest) for guest in guests] == [number] * 2, f"{number} to be the SM's LID")


def test_handover_and_failover_lose_no_traffic(guests, no_manager):
    low, high = guests
    lids = lids_under(low, guests, "-p 3")
    line = f"ib_write_bw -d {DEVICE} -F -D 45 -u 18"
    serving = low.start([f"exec timeout {PATIENCE_S} {line}"], stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    sending = high.start([f"until {line} {low.name}; do sleep 0.3; done"], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # A manager with a higher priority starts, and the master hands over.
    takes_over(high, low, "-p 9")
    wait_sm_lid(guests, lids[1])
    # The master is killed: the standby takes over.
    sh(high, "pkill -9 -x opensm")
    managers.wait_state(low, "MASTER")
    wait_sm_lid(guests, lids[0])
    said, heard = sending.communicate(timeout=PATIENCE_S)[0], serving.communicate(timeout=PATIENCE_S)[0]
    assert serving.returncode == 0, said + heard
    assert perftest_rows(said)[-1][1] > 0 and "Completion with error" not in said, said
    assert [lid(guest) for guest in guests] == lids
    # The killed manager returns as master.
    takes_over(high, low, "-p 9")


def port_guid(guest):
    text = sh(guest, f"cat /sys/class/infiniband/{DEVICE}/ports/1/gids/0")
    return int(text.replace(":", "")[16:], 16)


def test_of_equal_priorities_the_lower_guid_is_master(guests, no_manager):
    first, second = sorted(guests, key=port_guid, reverse=True)
    lids = lids_under(first, guests, "-p 5")
    takes_over(second, first, "-p 5")
    assert [lid(guest) for guest in guests] == lids


def test_the_master_hands_over_to_no_manager_with_another_sm_key(guests, no_manager):
    """The new manager has the higher priority, but not the SM_Key. It becomes a standby, and the master ignores it."""
    master, newcomer = guests
    lids = lids_under(master, guests, "-p 3", SOON + "sm_key 0x1122334455667788\nforce_log_flush TRUE\n")
    managers.start(newcomer, "-p 9", SOON + "sm_key 0x0\n")
    managers.wait_state(newcomer, "STANDBY")
    wait_until(lambda: int(sh(master, f"grep -c 'ERR 2F18' {managers.LOG}", check=False)[1]) >= 3,
               "the master to look at the newcomer")
    assert (managers.state(master), managers.state(newcomer)) == ("MASTER", "STANDBY")
    assert [lid(guest) for guest in guests] == lids
    managers.stop(newcomer)
    managers.take_log(newcomer)             # the newcomer logs that the master ignores it
    no_manager.append("ERR 2F18")


# SMState of the requester, and AttributeModifier: invalid modifiers, and requests that only a master may send (14.4.1).
BAD_ORDERS = [(3, 6), (3, 255), (2, 1), (2, 3), (1, 4), (0, 5)]


def test_forbidden_sminfo_requests_change_nothing(guests, no_manager):
    master, other = guests
    lids = lids_under(master, guests, "-p 3")
    for state, modifier in BAD_ORDERS:
        code, out, err = sh(other, f"sminfo -C {DEVICE} -s {state} {lids[0]} {modifier}", check=False)
        assert code != 0, f"{state} {modifier}: {out}{err}"
        assert managers.state(master) == "MASTER"
    assert [lid(guest) for guest in guests] == lids
    no_manager.append("ERR 2F04")


def test_a_subnet_recovers_after_its_manager_is_killed_in_a_sweep(guests, no_manager):
    low, high = guests
    lids = lids_under(low, guests, "-p 3")
    for delay_s in (0, 0.1, 0.3, 1, 2):
        managers.start(high, "-p 9", SOON)
        sh(high, f"sleep {delay_s}; pkill -9 -x opensm; while pidof opensm >/dev/null; do sleep 0.1; done")
        managers.wait_state(low, "MASTER")
        wait_sm_lid(guests, lids[0])
        assert [lid(guest) for guest in guests] == lids
    wait_active(*guests)


# ---- lost SMPs

PORT_INFO = 0x15            # AttributeID


def lost(torus, ports):
    return sum(int(number) for port in ports
               for number in re.findall(r"dropped\D*(\d+)", torus.switch().ctl("fault", port)))


@pytest.mark.nightly
def test_a_manager_that_loses_smps_brings_the_subnet_up(torus, guests, no_manager):
    """A fifth of the SMPs with PortInfo is lost on each way of the guests' links. The ports are in Initialize again,
    because their switch is a new one."""
    torus.stop_switch(signal.SIGTERM)
    torus.start_switch()
    subnet.wait_connected(torus)
    ports = [ctl.port_of(torus.switch().control, guest.name) for guest in guests]
    try:
        for port in ports:
            torus.switch().ctl("fault", port, "--direction", "both", "--drop", "0.2", "--vl15",
                               "--attribute", str(PORT_INFO))
        managers.start(guests[0], "", "transaction_retries 20\n")
        managers.wait_state(guests[0], "MASTER")
        wait_active(*guests)
        assert traffic(*guests) > 0
        assert lost(torus, ports) > 0
    finally:
        for port in ports:
            torus.switch().ctl("fault", port, "--clear")


# ---- partitions

def pkeys(guest):
    """Index by P_Key with its membership bit."""
    text = sh(guest, f"cd /sys/class/infiniband/{DEVICE}/ports/1/pkeys; grep . *")
    return {int(key, 16): int(index) for index, key in re.findall(r"^(\d+):(0x\w+)", text, re.M)}


def set_partition(guests, *members):
    """Sets up partition 0x0001 with a membership for each guest. All are full members of the default partition."""
    guid = [port_guid(guest) for guest in guests]
    blue = ", ".join(f"{number:#x}={member}" for number, member in zip(guid, members))
    managers.stop(*guests)
    sh(guests[0], f"cat >/tmp/partitions.conf <<'END'\nDefault=0x7fff, ipoib : ALL=full ;\n"
                  f"Blue=0x0001, ipoib : {blue} ;\nEND")
    managers.start(guests[0], "-P /tmp/partitions.conf")
    for guest, member in zip(guests, members):
        wanted = 0x8001 if member == "full" else 0x0001
        wait_until(lambda: wanted in pkeys(guest) and wanted ^ 0x8000 not in pkeys(guest),
                   f"P_Key {wanted:#x} in {guest.name}")
    wait_active(*guests)


def blue_index(guest):
    return next(index for key, index in pkeys(guest).items() if key & 0x7FFF == 1)


def test_a_partition_joins_full_and_limited_members_but_no_two_limited_ones(guests, no_manager):
    server, client = guests

    def lines():
        """Command lines in the partition: the server's, the client's."""
        mine, other = (f"ib_write_bw -d {DEVICE} -F -n 500 -u 16 --pkey_index {blue_index(guest)}"
                       for guest in (server, client))
        return mine, f"{other} {server.name}"

    set_partition(guests, "full", "limited")
    assert perftest_rows(pair(server, client, *lines())[0])[-1][1] == 500
    # A child interface in the partition carries IP between the two guests.
    for number, guest in enumerate(guests, 1):
        sh(guest, "ip link set ib0 up; ip link add link ib0 name blue type ipoib pkey 0x8001 2>/dev/null"
                  " || ip link add link ib0 name blue type ipoib pkey 0x0001;"
                  f" ip addr add 10.78.0.{number}/24 dev blue; ip link set blue up")
    sh(client, f"timeout {PATIENCE_S} sh -c 'until ping -c 1 -W 1 10.78.0.1; do sleep 0.5; done'")
    for guest in guests:
        sh(guest, "ip link del blue")
    set_partition(guests, "limited", "limited")
    code, out, err, _, _ = run_pair(server, client, *lines())
    assert code != 0 and "Failed status 12" in out + err, out + err       # transport retries exceeded: never answered
    assert traffic(server, client) > 0          # the default partition still carries data


# ---- several LIDs of a port

def test_datagrams_leave_with_the_lid_of_their_address_handle(guests, no_manager):
    managers.start(guests[0], config="lmc 1\n")
    wait_until(lambda: all(sh(guest, f"cat /sys/class/infiniband/{DEVICE}/ports/1/lid_mask_count").strip() == "1"
                           for guest in guests), "the ports to have two LIDs each")
    wait_active(*guests)
    assert sh(guests[1], f"provider-checks {DEVICE} datagram_completions") == "ok datagram_completions\n"


# ---- quality of service

LEVELS = "0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7"
QOS = ("qos TRUE\nqos_max_vls 8\nqos_high_limit 2\nqos_vlarb_high 0:64,1:32,5:16\n"
       f"qos_vlarb_low 0:4,1:8,2:12,3:16,4:20,5:24,6:28,7:32\nqos_sl2vl {LEVELS}\nsm_sl 2\n")


def levels_of(text):
    """VLs by SL, of the first table that smpquery sl2vl shows."""
    line = next(line for line in text.splitlines() if re.match(r"ports?: in", line))
    return ",".join(str(int(word)) for word in re.findall(r"\|\s*(\d+)", line))


def test_qos_tables_arrive_and_service_levels_have_their_vls(torus, guests, no_manager, tmp_path):
    capture = tmp_path / "fabric.pcap"
    torus.stop_switch(signal.SIGTERM)
    torus.start_switch("--pcap", str(capture))
    managers.start(guests[0], "-Q", QOS)
    wait_active(*guests)
    managers.wait_state(guests[0], "MASTER")
    for guest in guests:
        assert levels_of(sh(guest, "smpquery sl2vl -D 0")) == LEVELS
        tables = sh(guest, "smpquery vlarb -D 0")
        assert re.search(r"VL\s+: \|0x0 \|0x1 \|0x5 ", tables) and "|0x40|0x20|0x10|" in tables, tables
        assert levels_of(sh(guest, "smpquery sl2vl -D 0,1 1")) == LEVELS
        assert sh(guest, f"cat /sys/class/infiniband/{DEVICE}/ports/1/sm_sl").strip() == "2"
    for level in (3, 13):
        assert traffic(*guests, f"--sl {level} -s 4096") > 0
    torus.stop_switch(signal.SIGTERM)
    torus.start_switch()
    seen = vls_in(capture)
    assert seen[3] == {3} and seen[13] == {5}, seen


def vls_in(path):
    """VLs on which data of each SL was seen: LRH after a pcap's headers (link type 247)."""
    seen = {}
    with open(path, "rb") as file:
        magic = file.read(24)[:4]
        order = "little" if magic in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else "big"
        while len(header := file.read(16)) == 16:
            packet = file.read(int.from_bytes(header[8:12], order))
            if packet[0] >> 4 != 15:
                seen.setdefault(packet[1] >> 4, set()).add(packet[0] >> 4)
    return seen


# ---- osmtest

@pytest.mark.parametrize("flow", ["c", "q", "e", "m -M 2"])
def test_osmtest(guests, flow):
    text = sh(guests[1], f"cd /tmp && osmtest -f {flow} -l /tmp/osmtest.log")
    assert "OSMTEST: TEST \"" in text and "PASS" in text, text
