# SPDX-License-Identifier: GPL-2.0-or-later
"""Translates capture filters, such as `qp 0x40 or slid 4 and dlid 7`, into rules of the switch."""

import itertools

from lab.base import ui
from lab.fabric.capture import Rules

TERMS = {"lid": ("slid", "dlid"), "slid": ("slid",), "dlid": ("dlid",), "qp": ("qp",), "source_qp": ("source_qp",)}
MOST = {"lid": 0xFFFF, "slid": 0xFFFF, "dlid": 0xFFFF, "qp": 0xFFFFFF, "source_qp": 0xFFFFFF}
EXAMPLE = "An example:  qp 0x40 or slid 4 and dlid 7"


def _term(words: list[str]) -> Rules:
    if len(words) != 2 or words[0] not in TERMS:
        raise ui.LabError(f"capture filter: expected one of {', '.join(TERMS)} and a number, not "
                          f"{' '.join(words) or 'nothing'}. {EXAMPLE}")
    try:
        number = int(words[1], 0)
    except ValueError as error:
        raise ui.LabError(f"capture filter: {words[1]} is not a number. {EXAMPLE}") from error
    if not 0 <= number <= MOST[words[0]]:
        raise ui.LabError(f"capture filter: {words[0]} is 0 to {MOST[words[0]]}, not {words[1]}. {EXAMPLE}")
    return [{member: number} for member in TERMS[words[0]]]


def _split(words: list[str], at: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == at:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def both(one: Rules, other: Rules) -> Rules:
    """Rules for packets that match a rule of each of two lists. An empty list matches all packets."""
    if not one or not other:
        return one or other
    found = [{**a, **b} for a, b in itertools.product(one, other) if all(a.get(name, b[name]) == b[name] for name in b)]
    if not found:
        raise ui.LabError("capture filter: no packet can match it together with the chosen port and QP. Leave one of "
                          "them out")
    return found


def rules(text: str) -> Rules:
    """The rules of a filter; [] for an empty filter."""
    found: Rules = []
    words = text.split()
    for part in _split(words, "or") if words else []:
        terms = [_term(term) for term in _split(part, "and")]
        joined = terms[0]
        for term in terms[1:]:
            joined = both(joined, term)
        found += joined
    return found
