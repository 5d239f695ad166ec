# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows of the switches' answer to "traffic": the figures of a port that traffic changes."""

from lab.fabric import control

# Columns. From LANES on three numbers follow for each VL with data: the VL, words sent, words received.
PORT, STATE, CONDITIONS, XMIT_DATA, RCV_DATA, XMIT_PACKETS, RCV_PACKETS, XMIT_WAIT, DISCARDS, ERRORS, LANES = range(11)
PLUGGED, FAULTS, COPIES = 1, 2, 4       # bits of CONDITIONS
STATES = ("", "Down", "Initialize", "Armed", "Active")
Row = list[int]
Rows = dict[str, dict[int, Row]]        # by the switch's GUID and the port
NO_ROW: Row = [0] * LANES

Lanes = tuple[dict[int, int], dict[int, int]]       # octets by VL, out and in; only those that are not 0
NO_LANES: Lanes = ({}, {})


def lanes(row: Row) -> Lanes:
    out, back = ({lane: words * control.BYTES_PER_UNIT
                  for lane, words in zip(row[LANES::3], row[LANES + way::3]) if words} for way in (1, 2))
    return out, back
