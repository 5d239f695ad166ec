# SPDX-License-Identifier: GPL-2.0-or-later
"""Clears the fabric's error counters with infiniband-diags."""

import subprocess

from lab.base import ui, waiting
from lab.guests.guest import Guest

QUIET_S = 3                     # a guest's kernel sends its first packets to multicast groups within a second or two
LIMIT_S = 120                   # for all tries
NODE_S = 0.1                    # additional time for each node of the fabric
POLL_S = 0.2
CLEAR = "ibqueryerrors --clear-errors"
TRIES = 3                       # after clearing, packets of a new multicast group may be dropped and counted
NONE_LEFT = "ibqueryerrors | grep -q ' 0 bad nodes found'"      # ibqueryerrors exits with 0 even without an SM


def clear_errors(node: Guest, nodes: int, quiet_s: int = 0) -> bool:
    """Sets the error counters of all ports to zero, so that a user finds no errors of the lab's own: a guest's boot
    takes its link down, and the measurement makes ports wait for credits. Returns whether they are zero, and prints a
    failure. nodes: the size of the fabric; quiet_s: clears again if a port counts errors in this time."""
    try:
        cleared = _clear(node, nodes, quiet_s)
    except (waiting.TooLate, subprocess.TimeoutExpired):
        cleared = False
    if not cleared:
        ui.say("not every error counter is zero yet, because the fabric is large or busy:  "
               f"./pib exec {node.name} -- {CLEAR}")
    return cleared


def _clear(node: Guest, nodes: int, quiet_s: int) -> bool:
    tries = " || ".join([f"{{ {CLEAR}; sleep {quiet_s}; {NONE_LEFT}; }}"] * TRIES)
    clearing = node.start([tries], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        waiting.poll("clearing error counters", lambda: clearing.poll() is not None, LIMIT_S + NODE_S * nodes,
                     doing=lambda: f"of {nodes:,} nodes" if nodes else "", every_s=POLL_S)
        return clearing.returncode == 0
    finally:
        clearing.end()
