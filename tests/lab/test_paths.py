# SPDX-License-Identifier: GPL-2.0-or-later
"""The hashes in the names of the cache's entries."""

from lab import paths


def test_parts_of_a_recipe_are_separated():
    assert paths.recipe_hash("ab", "c") != paths.recipe_hash("a", "bc")
