# SPDX-License-Identifier: GPL-2.0-or-later
"""Format of the rows in the switches' answer to "traffic": the values of a port that traffic changes."""

from collections.abc import Sequence

from lab.fabric import control

# Columns of a row. From VLS on it has three numbers for each VL with data: the VL, words sent, words received.
PORT, STATE, CONDITIONS, XMIT_DATA, RCV_DATA, XMIT_PACKETS, RCV_PACKETS, XMIT_WAIT, DISCARDS, ERRORS, VLS = range(11)
PLUGGED, FAULTS, COPIES = 1, 2, 4       # bits of CONDITIONS
STATES = ("", "Down", "Initialize", "Armed", "Active")
Row = list[int]
Rows = dict[str, dict[int, Row]]        # by GUID of the switch, then by port
NO_ROW: Row = [0] * VLS

ByVl = tuple[dict[int, int], dict[int, int]]        # octets by VL, sent and received, without zeros


def by_vl(numbers: Sequence[int]) -> ByVl:
    """numbers: those of a row from VLS on."""
    out, back = ({vl: words * control.BYTES_PER_UNIT
                  for vl, words in zip(numbers[::3], numbers[way::3]) if words} for way in (1, 2))
    return out, back
