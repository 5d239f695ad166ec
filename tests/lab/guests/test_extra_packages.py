# SPDX-License-Identifier: GPL-2.0-or-later
"""Packages of Debian that the guests have as well."""

import pytest

from lab.base import ui
from lab.guests import extra_packages

SAID = "Reading package lists...\nE: Unable to locate package no-such\nE: Unable to locate package x2\n"


def test_a_package_that_debian_does_not_have_is_named():
    with pytest.raises(ui.LabError, match="^a:1: Debian's .* main of trixie has no package no-such and no .* x2"):
        with extra_packages._unknown_named("a:1: "):
            raise ui.LabError(SAID)


def test_another_failure_stays():
    with pytest.raises(ui.LabError, match="^no space$"):
        with extra_packages._unknown_named("a:1: "):
            raise ui.LabError("no space")
