# SPDX-License-Identifier: GPL-2.0-or-later
"""Packages for each Debian release, built once in a clean tree of it. `./pib test packages` runs these tests."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lab"))

from lab.base import environment  # noqa: E402  pylint: disable=wrong-import-position
from lab.build import deps  # noqa: E402  pylint: disable=wrong-import-position
import own_disk as own_disk_image  # noqa: E402  pylint: disable=wrong-import-position
import package_trees  # noqa: E402  pylint: disable=wrong-import-position


def pytest_configure():
    environment.settle()


@pytest.fixture(scope="session", params=deps.RELEASES)
def built(request):
    """The packages of a release."""
    return package_trees.built(request.param)


@pytest.fixture(scope="session")
def built_for_trixie():
    return package_trees.built("trixie")


@pytest.fixture(scope="session")
def own_disk(built_for_trixie, tmp_path_factory):
    """A disk image of a user's own. Tests do not write it."""
    return own_disk_image.make(built_for_trixie, tmp_path_factory.mktemp("own"))
