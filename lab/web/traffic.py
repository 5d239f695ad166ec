# SPDX-License-Identifier: GPL-2.0-or-later
"""Format of the rows in the switches' answer to "traffic": the values of a port that traffic changes."""

from lab.fabric import control

# Columns of a row. From VLS on it has three numbers for each VL with data: the VL, words sent, words received.
PORT, STATE, CONDITIONS, XMIT_DATA, RCV_DATA, XMIT_PACKETS, RCV_PACKETS, XMIT_WAIT, DISCARDS, ERRORS, VLS = range(11)
PLUGGED, FAULTS, COPIES = 1, 2, 4       # bits of CONDITIONS
STATES = ("", "Down", "Initialize", "Armed", "Active")
Row = list[int]
Rows = dict[str, dict[int, Row]]        # by GUID of the switch, then by port
NO_ROW: Row = [0] * VLS

ByVl = tuple[dict[int, int], dict[int, int]]        # octets by VL, sent and received, without zeros
NO_OCTETS: ByVl = ({}, {})


def by_vl(row: Row) -> ByVl:
    out, back = ({vl: words * control.BYTES_PER_UNIT
                  for vl, words in zip(row[VLS::3], row[VLS + way::3]) if words} for way in (1, 2))
    return out, back
