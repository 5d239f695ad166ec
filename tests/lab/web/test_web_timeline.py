# SPDX-License-Identifier: GPL-2.0-or-later
"""Entries of journals in the time line of ./pib web."""

from lab.web import model
from lab.web.timeline import Timeline


def test_a_repeated_change_is_told_again():
    """A switch adds no entry for it, but counts it."""
    leaf, line = model.Node("0x1", "leaf1", "switch"), Timeline()
    made = model.Fabric({leaf.id: leaf})
    errors = {"age_ns": 0, "port": 3, "change": "link error", "times": 1, "detail": ""}
    for entries in ([errors], [errors], [{**errors, "times": 4}], [{**errors, "times": 4}],
                    [{**errors, "times": 5}, {**errors, "change": "down"}], [{**errors, "change": "up"}]):
        line.read_switch(made, leaf, {"lost": 0, "entries": entries}, 1000.0)
    assert [event.text.removeprefix("leaf1[3]: ") for event in line.events] == [
        "link error", "link error (4 times)", "link error (5 times)", "went down", "went up"]
