# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test kernels compiles for each release."""

from lab.base import ui
from lab.base.counts import Count
from lab.testing import all_kernels


class Silent:
    """Progress that is not shown."""
    def begin(self, _name):
        return self

    def count(self, _done, _total):
        pass

    def show(self, _stage):
        pass

    def end(self, _count):
        pass


def test_a_release_without_a_tree_does_not_stop_the_others(monkeypatch):
    def check(release):
        if release == "testing":
            raise ui.LabError("no mirror")
        return Count(passed=2)
    monkeypatch.setattr(all_kernels, "_check", check)
    assert all_kernels.check(Silent()) == Count(passed=4, failed=1)
