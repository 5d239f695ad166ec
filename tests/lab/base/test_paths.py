# SPDX-License-Identifier: GPL-2.0-or-later
"""The hashes in the names of the cache's entries."""

import os

from lab.base import paths


def test_parts_of_a_recipe_are_separated():
    assert paths.recipe_hash("ab", "c") != paths.recipe_hash("a", "bc")


def test_names_that_are_not_utf_8_have_a_hash():
    assert paths.recipe_hash(os.fsdecode(b"b\xfccher")) != paths.recipe_hash(os.fsdecode(b"b\xf6cher"))
    assert paths.recipe_hash("b\u00fccher") == paths.recipe_hash("b\u00fccher".encode())
