# SPDX-License-Identifier: GPL-2.0-or-later
"""Refusals and misuses, as the property `refusals` of a device has them."""

import re
from typing import Any

from lab.interface import description

QPN = "QPN"
# The text names the QPs of its subject and its reason, and the value of a doorbell that the device ignores.
NAMED = re.compile(r"\bQP (0x[0-9a-f]+|0)\b")
RUNG = re.compile(r"\bvalue (0x[0-9a-f]+|0)\b")
RULES_OF_DOORBELLS = ("8.2.2", "8.2.3")


def qpns(entry: dict[str, Any]) -> set[int]:
    """The QPs that a refusal names."""
    found = {int(number, 16) for number in NAMED.findall(entry["text"])}
    if entry["rule"] in RULES_OF_DOORBELLS:
        found |= {int(number, 16) for number in RUNG.findall(entry["text"])}
    if any(one.name == entry.get("command") and one.object == QPN for one in description.interface().commands):
        found.add(entry["object"])
    return found
