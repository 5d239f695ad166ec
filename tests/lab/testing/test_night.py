# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest tests of the day and of the night."""

import functools
import os
import subprocess

import pytest

from lab.base import paths
from lab.testing import parts, qemus

# Test files that only run at night, because starting their own guests or fabrics takes a long time.
OF_THE_NIGHT = {"tests/guest/test_bounce_buffers.py", "tests/guest/test_own_work.py",
                "tests/guest/test_topology_huge.py", "tests/guest/test_topology_large.py",
                "tests/guest/develop/test_bench.py", "tests/guest/develop/test_examples.py",
                "tests/guest/develop/test_misuse.py", "tests/guest/develop/test_own_kernel.py",
                "tests/guest/develop/test_replay.py", "tests/guest/hostile/test_allocation_failures.py",
                "tests/guest/hostile/test_power.py", "tests/guest/hostile/test_uverbs_fuzz.py"}


@functools.cache
def collected(*options: str) -> frozenset[str]:
    """Names of the guest tests that these options select."""
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(["/usr/bin/python3", "-B", "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider",
                           f"--rootdir={paths.ROOT}", *options, "tests/guest"], cwd=paths.ROOT, check=True,
                          capture_output=True, text=True, env=env | {"PYTHONPATH": str(paths.ROOT)})
    return frozenset(line for line in done.stdout.splitlines() if "::" in line)


def test_the_night_runs_all_tests_of_the_day_and_more():
    assert collected() < collected("--nightly")


def test_each_test_runs_in_one_share():
    for options in ((), ("--nightly",)):
        shared, own = collected("--labs=shared", *options), collected("--labs=own", *options)
        assert shared | own == collected(*options) and not shared & own


def test_every_module_with_tests_of_the_night_is_in_contributing():
    modules = {test.split("::")[0].rsplit("/", 1)[-1] for test in collected("--nightly") - collected()}
    text = (paths.ROOT / "CONTRIBUTING.md").read_text()
    assert modules and [module for module in sorted(modules) if f"`{module}`" not in text] == []


def test_every_module_with_tests_of_the_night_has_tests_of_the_day():
    by_day = {test.split("::")[0] for test in collected()}
    assert {test.split("::")[0] for test in collected("--nightly")} == by_day | OF_THE_NIGHT
    assert not by_day & OF_THE_NIGHT


@pytest.mark.parametrize("chosen", [parts.KVM_TESTS, parts.KERNEL_TESTS, parts.ADVERSARY, qemus.GUESTS])
def test_the_tests_that_other_parts_choose_exist(chosen):
    """pytest -k passes over a name that no test has any more, and a part with other tests would still pass."""
    tests = collected("--nightly")
    assert [name for name in chosen.split(" or ") if not any(name in test for test in tests)] == []
