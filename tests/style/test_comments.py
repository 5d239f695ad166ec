#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Comments and test titles open with a thing of the code: CONTRIBUTING.md, "Words"."""

import pathlib
import unittest

import comments
import tree

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Comments(unittest.TestCase):
    def test_no_comment_opens_with_a_riddle(self):
        found = [f"{path.relative_to(ROOT)}:{line}: {comment.splitlines()[0][:80]}"
                 for path in tree.files(ROOT)
                 if path.suffix in (".c", ".cc", ".h", ".js", ".py")
                 for line, comment in comments.riddles(path)]
        self.assertEqual(found, [], "name the thing that does something: \"The caller\", \"A QP that\"")


class Parser(unittest.TestCase):
    def openings(self, comments_of, text):
        return [line for line, comment in comments_of(text) if comments.OPENINGS.match(comment)]

    def test_riddles_are_noticed(self):
        text = ('// Who asks.\n// Goes on.\nint a;  // Of it all.\n/*\n * Whatever comes.\n */\n'
                'TEST_CASE("what is sent") {}\n')
        self.assertEqual(self.openings(comments.in_c, text), [1, 3, 4, 7])
        text = '"""Nobody knows."""\n# By whom.\nx = 1  # nothing\n# of a region\n# goes on\n'
        self.assertEqual(self.openings(comments.in_python, text), [1, 2, 3, 4])

    def test_other_comments_are_accepted(self):
        text = '// The caller, who asks.\n// What follows in a block is not an opening.\nconst char* t = "// Who";\n'
        self.assertEqual(self.openings(comments.in_c, text), [])
        self.assertEqual(self.openings(comments.in_python, 'x = "# Who"  # often\n'), [])


if __name__ == "__main__":
    unittest.main()
