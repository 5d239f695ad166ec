# SPDX-License-Identifier: GPL-2.0-or-later
"""Error counters of the fabric, which infiniband-diags read and clear."""

import subprocess

from lab import ui
from lab.guests.guest import Guest

LIMIT_S = 120                   # thousands of nodes take longer
CLEAR = "ibqueryerrors --clear-errors"
TRIES = 3                       # a first packet to a new multicast group may be dropped, and counted, at any time
NONE_LEFT = "ibqueryerrors | grep -q ' 0 bad nodes found'"      # its status is 0 without a subnet manager as well


def clear_errors(node: Guest) -> None:
    """Sets the error counters of all ports to zero. A guest's boot takes its link down, and a measurement makes ports
    wait for credits: a user who looks for errors has caused none of these. A failure is told."""
    tries = " || ".join([f"{{ {CLEAR}; {NONE_LEFT}; }}"] * TRIES)
    try:
        done = node.run([f'timeout {LIMIT_S} sh -c "{tries}"'], timeout_s=2 * LIMIT_S)
        failed = done.returncode != 0
    except subprocess.TimeoutExpired:
        failed = True
    if failed:
        ui.say("not every error counter is zero yet, for the fabric is large or busy:  "
               f"./pib exec {node.name} -- {CLEAR}")
