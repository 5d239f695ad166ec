# SPDX-License-Identifier: GPL-2.0-or-later
"""Clears the fabric's error counters with infiniband-diags."""

import subprocess

from lab import ui
from lab.guests.guest import Guest

QUIET_S = 3                     # a guest's kernel sends its first packets to multicast groups within a second or two
LIMIT_S = 120                   # limit for a try; fabrics of thousands of nodes take longer and keep their counters
CLEAR = "ibqueryerrors --clear-errors"
TRIES = 3                       # between clearing and checking, a new multicast group may drop packets and count that
NONE_LEFT = "ibqueryerrors | grep -q ' 0 bad nodes found'"      # its own status is 0 even without a subnet manager


def clear_errors(node: Guest, quiet_s: int = 0) -> None:
    """Sets the error counters of all ports to zero, so that a user finds no errors of the lab's own: a guest's boot
    takes its link down, and the measurement makes ports wait for credits. Prints a failure. quiet_s: clears again if
    a port counts errors in this time."""
    tries = " || ".join([f"{{ {CLEAR}; sleep {quiet_s}; {NONE_LEFT}; }}"] * TRIES)
    try:
        done = node.run([f'timeout {LIMIT_S} sh -c "{tries}"'], timeout_s=2 * LIMIT_S)
        failed = done.returncode != 0
    except subprocess.TimeoutExpired:
        failed = True
    if failed:
        ui.say("not every error counter is zero yet, for the fabric is large or busy:  "
               f"./pib exec {node.name} -- {CLEAR}")
