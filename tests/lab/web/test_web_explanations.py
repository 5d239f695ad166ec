# SPDX-License-Identifier: GPL-2.0-or-later
"""Sections of docs/troubleshooting.md for the page."""

import pytest

from lab.base import ui
from lab.fabric import causes
from lab.web import explanations


def test_a_section_is_its_title_and_paragraphs():
    text = ("# Page\n## 1. First things\nOne\ntwo [three](four.md#five).\n\n| a | b |\n|---|---|\n"
            "| `c` | d \\| e |\n### IBV_X\n* Causes: one\n  two.\n* Look: `three`.\n")
    assert explanations.sections(text) == {
        "1-first-things": {"title": "1. First things", "lines": ["One two three.", "a: b", "c: d | e"]},
        "ibv_x": {"title": "IBV_X", "lines": ["Causes: one two.", "Look: three."]}}


@pytest.mark.parametrize("name", [*causes.LOCAL, *causes.REFUSED, *causes.EVENTS])
def test_each_status_and_event_with_a_cause_has_a_section(name):
    found = explanations.find(name.lower())
    if name == "IBV_WC_GENERAL_ERR":            # the device never reports it
        assert found is None
    else:
        assert found["title"] == name and found["lines"]


def test_a_missing_page_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(explanations, "PLACES", (tmp_path / "nothing",))
    with pytest.raises(ui.LabError, match="pib-hca-doc"):
        explanations.find("ibv_wc_retry_exc_err")
