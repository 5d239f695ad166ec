# SPDX-License-Identifier: GPL-2.0-or-later
"""The patches of tests/guest/develop/misuse apply to driver or provider, and each breaks a rule of the manual."""

import tomllib

import pytest

from lab.base import paths, ui
from lab.build import guest_build, kernel_module
from lab.testing import misuse, patches

RULES = paths.ROOT / "hw-interface" / "pib_hca_rules.toml"
# A patch may break rules that only a strict device names, rules of ignored accesses and of keys in packets. A rule of
# work requests has no status but a vendor_error.
NAMED = ("named", "ignored", "REM_ACCESS_ERR")


def test_each_applies_to_driver_or_provider():
    for one in misuse.load():
        patches.apply(paths.ROOT, [one], "--check")
        assert one.part in (kernel_module.DRIVER, guest_build.PROVIDER), one.name
        assert {name.split("/")[0] for name in one.files()} == {one.part}, one.name


def numbers(wanted):
    return {rule["number"] for rule in tomllib.loads(RULES.read_text())["rules"] if wanted(rule)}


def test_each_breaks_a_rule_that_the_device_names_without_a_command():
    rules = {one.rule for one in misuse.load()}
    assert rules
    assert rules - numbers(lambda rule: rule.get("status") in NAMED or "vendor_error" in rule) == set()


def test_no_two_make_the_same_change():
    changes = [one.path.read_text().partition("\n\n")[2] for one in misuse.load()]
    assert len(changes) == len(set(changes))


def test_each_rule_that_only_a_strict_device_names_has_a_patch():
    assert numbers(lambda rule: rule.get("status") == "named") - {one.rule for one in misuse.load()} == set()


@pytest.mark.parametrize("text", ["", "The driver is wrong.\nRule: 3.1.1\n", f"{patches.LICENCE}\nRule: 3.1.1\n",
                                  f"{patches.LICENCE}\nThe driver is wrong.\nRule: three\n",
                                  f"{patches.LICENCE}\nThe driver is wrong.\nRule: 3.1.1\nRuns: a program\n"])
def test_an_incomplete_header_is_noticed(tmp_path, text):
    path = tmp_path / "x.patch"
    path.write_text(text + "\n--- a/guest-driver/x\n+++ b/guest-driver/x\n")
    with pytest.raises(ui.LabError, match="x.patch.*README.md"):
        misuse.parse(path)


def test_each_applies_to_a_copy_of_driver_and_provider(tmp_path):
    copy = misuse.copy(tmp_path)
    for one in misuse.load():
        with patches.applied(copy, one):
            file = one.files()[0]
            assert (copy / file).read_text() != (paths.ROOT / file).read_text()
        assert (copy / file).read_text() == (paths.ROOT / file).read_text()
