# SPDX-License-Identifier: GPL-2.0-or-later
"""opensm in guests: starts it with options and configuration, stops it, waits for it."""
import re

from rdma import DEVICE, sh, wait_until

LAB_LOG = "/var/log/opensm.log"         # the lab's own manager writes it
LOG = "/var/log/opensm-of-tests.log"


def stop(*guests):
    for guest in guests:
        sh(guest, "pkill -x opensm; while pidof opensm >/dev/null; do sleep 0.1; done", check=False)


def take_log(guest):
    """Removes LOG and returns its text; the next manager starts a new log."""
    return sh(guest, f"cat {LOG} 2>/dev/null; rm -f {LOG}", check=False)[1]


def start(guest, options="", config=""):
    """Starts a daemon with an empty log; the log of the former one must have no error. config: lines of opensm.conf."""
    log = take_log(guest)
    check(log)
    sh(guest, f"cat >/tmp/opensm.conf <<'END'\n{config}\nEND\n"
              f"opensm -B -F /tmp/opensm.conf -f {LOG} {options} >/var/log/opensm.out 2>&1")


def once(guest, options="", config=""):
    """Runs one sweep, after which opensm ends; returns its log, which must have no error."""
    log = take_log(guest)
    check(log)
    sh(guest, f"cat >/tmp/opensm.conf <<'END'\n{config}\nEND\n"
              f"opensm -o -F /tmp/opensm.conf -f {LOG} {options}")
    log = take_log(guest)
    life, up, end = log.partition("SUBNET UP")
    assert up, log[-3000:]
    assert not errors(life) + errors(end, [LEAVES]), log[-3000:]
    return log


# Lines of an opensm that works, by their cause:
# - A manager that starts on a port sets IsSM there; the SMA reports that by trap 144 to the manager itself, before the
#   manager has discovered the port (7504, 3809).
# - A standby with the higher priority reports itself by trap 144; the master hands over before it represses the trap
#   (5410 for Method 0x5, Attr 0x2: the attribute is on the line after the message).
# - A client that asks for a table and does not take it leaves the SA a response that times out (5412, 3113).
EXPECTED = ("osm_get_port_by_mad_addr: ERR 7504", "trap_rcv_process_request: ERR 3809",
            "ERR 5412: Failed to obtain request madw for timed out MAD (class=0x3 method=0x92",
            "sm_mad_ctrl_send_err_cb: ERR 3113: MAD completed in error (IB_TIMEOUT): SubnTrap(Notice)")
# - After a master was killed the kernel of its guest answers SMInfo with "attribute not supported" (3111).
# - A requester repeats its request while the manager is slow: a peer its SubnGet(SMInfo) after 200 ms,
#   by LID or by a directed route, the SMA its SubnTrap(Notice), the kernel of each guest its SubnAdmGet(ClassPortInfo).
#   ib_umad refuses the second response (EINVAL, is_duplicate()) while the first one is still being sent. Responses are
#   the methods with bit 7 and SubnTrapRepress (7), as in ib_response_mad(). The manager then logs the failed send a
#   second time, for the caller (3E03 for the VL15 classes, 4C04 for the SA).
# - A standby polls the master by SubnGet(SMInfo), attribute 0x20, and repeats that for 0.8 s. On a slow host a master
#   in its first sweep, or one that was killed and whose process has not yet ended, answers later (5411, 3113, 3120).
KNOWN = re.compile(r".*log_send_error: ERR 5410.*\n\s*Class 0x1, Method 0x5, Attr 0x2,.*|"
                   r".*ERR 5411: DR SMP Send completed with error \(IB_TIMEOUT\).*\n\s*Method 0x1, Attr 0x20, .*|"
                   r".*ERR 3113: MAD completed in error \(IB_TIMEOUT\): SubnGet\(SMInfo\),.*|"
                   r".*ERR 3120: Timeout while getting attribute 0x20 \(SMInfo\);.*|"
                   r".*log_rcv_cb_error: ERR 3111: Received MAD with error status = 0xC\b.*\n"
                   r"\s*SubnGetResp\(SMInfo\),.*|"
                   r".*ERR 5430: Send p_madw.*, Method 0x(?:[89a-f][0-9a-f]|7), .* failed -5 \(Invalid argument\).*"
                   r"(?:\n.*(?:vl15_send_mad: ERR 3E03: MAD |osm_sa_send: ERR 4C04: osm_vendor_)send failed.*)?")


# A manager that ends after one sweep accepts requests until it has ended, but sends no more MADs. On a slow host guests
# still join multicast groups at that time (0A1B, 0A02).
LEAVES = "failed (IB_INSUFFICIENT_RESOURCES)"
# A manager that is ended during a sweep logs an error for each MAD without a response.
ENDS, EVICTED = "OpenSM: Got signal", "clear_madw: ERR 5401: evicting entry"


def errors(log, more=()):
    """Lines of a log that a healthy manager does not write. more: parts of further expected lines."""
    life, ends, death = KNOWN.sub("", log).partition(ENDS)
    wrong = [line for line in life.splitlines()
             if " ERR " in line and not any(known in line for known in (*EXPECTED, *more))]
    return wrong + ([line for line in errors(death, more) if EVICTED not in line] if ends else [])


def check(log, more=()):
    """Fails if errors() finds lines, and prints them with the part of the log around the first one."""
    wrong = errors(log, more)
    around = log.find(wrong[0]) if wrong else 0
    assert not wrong, "\n".join([*wrong, "", "around the first:", log[max(around - 2000, 0):around + 2000]])


def state(guest):
    """State of the SM in this guest, from the guest itself: MASTER, STANDBY, DISCOVER or ""."""
    code, out, _ = sh(guest, f"sminfo -C {DEVICE} -D 0", check=False)
    return out.split("SMINFO_", 1)[1].split()[0] if code == 0 and "SMINFO_" in out else ""


def wait_state(guest, wanted):
    wait_until(lambda: state(guest) == wanted, f"the SM in {guest.name} to be {wanted}")


def sm_lid(guest):
    return int(sh(guest, f"cat /sys/class/infiniband/{DEVICE}/ports/1/sm_lid"), 16)
