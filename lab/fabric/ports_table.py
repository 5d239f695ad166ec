# SPDX-License-Identifier: GPL-2.0-or-later
"""The ports of a subnet as a table."""

import re

from lab.base import table
from lab.fabric import measure, subnet


def width_and_speed(rate: str) -> str:
    """100 Gb/sec (4X EDR) -> 4X EDR"""
    found = re.search(r"\((.+)\)", rate)
    return found.group(1) if found else rate


def text(ports: list[subnet.Port], measured: dict[str, measure.Result]) -> str:
    """The table of ports. measured: results, shown at the first port of each node."""
    rows = []
    for port in ports:
        result = measured.get(port.node) if port.number == 1 else None
        rows.append([port.node, port.device, str(port.number), port.guid, str(port.lid),
                     str(port.sm_lid), port.state, width_and_speed(port.rate),
                     f"{result.bandwidth_mib_s:.1f} MiB/s" if result else "-",
                     f"{result.latency_us:.1f} us" if result else "-"])
    return table.table(["node", "HCA", "port", "GUID", "LID", "SM LID", "state", "width/speed",
                        "bandwidth", "latency"], rows)
