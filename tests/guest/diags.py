# SPDX-License-Identifier: GPL-2.0-or-later
"""The programs of infiniband-diags, and the output that is expected on any fabric."""
import contextlib
import re
import subprocess

import managers
from rdma import DEVICE, lid, perftest, perftest_rows, sh, wait_until


def lids(guest, wanted):
    """LIDs by node id, as the programs report them."""
    text = sh(guest, "ibnetdiscover")
    found = {}
    for record in re.split(r"\n\s*\n", text):
        if switch := re.search(r'^Switch.*# "([^"]+)".* lid (\d+) lmc', record, re.M):
            found[switch[1]] = int(switch[2])
        elif adapter := re.search(r'^caguid=(0x\w+)', record, re.M):
            number = re.search(r"# lid (\d+) lmc", record)
            name = next(node.name for node in wanted.hosts() if node.guid == int(adapter[1], 16))
            found[name] = int(number[1])
    assert set(found) == set(wanted.nodes), text
    return found


def clear_errors(guest):
    sh(guest, "ibqueryerrors --clear-errors", check=False)     # its exit status depends on the counters that it clears


@contextlib.contextmanager
def quiet(guests):
    """Keeps the guests' kernels from sending by ib0 during the block. A group that a kernel has just joined is in no
    forwarding table for a moment: a switch drops the kernel's first packet to it and counts a
    PortRcvSwitchRelayError."""
    for guest in guests:
        sh(guest, "ip link set ib0 down")
    try:
        yield
    finally:
        for guest in guests:
            sh(guest, "ip link set ib0 up")


def no_errors(guest):
    log = sh(guest, f"cat {managers.LAB_LOG}")
    managers.check(log)


RECORDS = ["ClassPortInfo", "NodeRecord", "PortInfoRecord", "SL2VLTableRecord", "PKeyTableRecord",
           "VLArbitrationTableRecord", "InformInfoRecord", "LinkRecord", "ServiceRecord", "PathRecord",
           "MCMemberRecord", "LFTRecord", "MFTRecord", "GUIDInfoRecord", "SwitchInfoRecord", "SMInfoRecord"]
ATTRIBUTES = ["nodeinfo", "nodedesc", "guidinfo", "pkeys", "sl2vl", "vlarb", "portinfo", "switchinfo"]


def smpquery(guest, numbers, nodes, attribute):
    """Queries an attribute of all nodes that have it. numbers: LIDs by node name."""
    for node in nodes:
        if attribute != "switchinfo" or node.kind == "Switch":
            sh(guest, f"smpquery {attribute} {numbers[node.name]}" + " 1" * (attribute == "portinfo"))


PERFQUERY = {option: True for option in (
    "", "-x", "-l", "-a", "-D", "-E", "-c", "-T", "-X", "-S", "--vlxmitcounters",
    "--vlxmitflowctlerrors")} | {
        # counters that do not exist; see docs/ib-coverage.md
        option: False for option in (
            "--oprcvcounters", "--flowctlcounters", "--vloppackets", "--vlopdata", "--swportvlcong",
            "--rcvcc", "--slrcvfecn", "--slrcvbecn", "--xmitcc", "--vlxmittimecc")}


def perfquery(guest, option, number):
    """Queries port 1 of the node whose LID is `number`; fails unless perfquery ends as PERFQUERY says."""
    code, out, err = sh(guest, f"perfquery {option} {number} 1", check=False)
    assert (code == 0) == PERFQUERY[option], f"LID {number}: {out}{err}"


@contextlib.contextmanager
def serving(node, program):
    """Runs a server of ibping or ibsysstat during the block."""
    running = node.start([f"exec timeout 250 {program} -S"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        running.kill()
        sh(node, f"pkill -x {program}", check=False)


def ibping(client, server, count):
    """Once the server answers one ping, it must answer this many."""
    with serving(server, "ibping"):
        line = f"timeout 60 ibping -f {lid(server)} -c"
        wait_until(lambda: " 1 received" in sh(client, f"{line} 1", check=False)[1], "ibping's server")
        answer = sh(client, f"{line} {count}")
        assert f"{count} packets transmitted, {count} received, 0% packet loss" in answer, answer


def ibsysstat(client, server):
    with serving(server, "ibsysstat"):
        line = f"timeout 60 ibsysstat {lid(server)}"
        wait_until(lambda: "sysstat ping succeeded" in sh(client, line, check=False)[1], "ibsysstat's server")


def change_port(guest, port):
    """Disables, enables, slows down and restores a port; the SM makes it Active again each time. port: LID and number,
    of a 4X EDR cable."""
    def state():
        return sh(guest, f"ibportstate {port} query")

    sh(guest, f"ibportstate {port} disable")
    assert re.search(r"PhysLinkState:\.+Disabled", state())
    sh(guest, f"ibportstate {port} enable")
    wait_until(lambda: re.search(r"LinkState:\.+Active", state()), "the port to be Active again")
    sh(guest, f"ibportstate {port} width 1")
    sh(guest, f"ibportstate {port} reset")
    wait_until(lambda: re.search(r"LinkState:\.+Active", state()), "the port to be Active again")
    assert re.search(r"LinkWidthActive:\.+1X", state())
    sh(guest, f"ibportstate {port} width 3")
    sh(guest, f"ibportstate {port} reset")
    # Wait for Active too: before that opensm may set values of the port that it has read earlier, speeds included.
    wait_until(lambda: re.search(r"LinkWidthActive:\.+4X", state()) and re.search(r"LinkState:\.+Active", state()),
               "the port to be Active and 4X again")
    for speeds, active in ((1, "14.0625"), (3, "25.78125")):    # FDR only, then EDR, too
        sh(guest, f"ibportstate {port} espeed {speeds}")
        sh(guest, f"ibportstate {port} reset")
        wait_until(lambda: re.search(rf"LinkSpeedExtActive:\.+{re.escape(active)} ", state())
                   and re.search(r"LinkState:\.+Active", state()), f"the port to be Active at {active} Gbps")


def bandwidth(server, client, seconds=2, extra="", timeout=18):
    """Average bandwidth of ib_write_bw in MiB/s. timeout: the Local ACK Timeout."""
    line = f"ib_write_bw -d {DEVICE} -F -D {seconds} -u {timeout} {extra}"
    return perftest_rows(perftest(server, client, line))[-1][3]
