#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages of the commits since BASE, and the check itself."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import commits

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The last commit before the check.
BASE = os.environ.get("PIB_STYLE_BASE", "4a5c41e1aadf")
GOOD = "ib: wake senders blocked on a full ring\n\nThey slept for ever.\n\nSigned-off-by: A B <a@b.example>\n"


def git(*argv: str) -> subprocess.CompletedProcess:
    return subprocess.run(["git", "-C", ROOT, *argv], capture_output=True, text=True, check=False)


class Commits(unittest.TestCase):
    def test_messages_since_the_base_are_good(self):
        if git("merge-base", "--is-ancestor", BASE, "HEAD").returncode:
            self.skipTest(f"this is not a clone with commit {BASE}")
        messages = git("log", "--no-merges", "--format=%h%x01%B%x00", f"{BASE}..HEAD").stdout.split("\0")
        split = [message.strip("\n").split("\x01") for message in messages if message.strip()]
        self.assertEqual([f"{commit}: {fault}" for commit, text in split for fault in commits.faults(text)], [])


class Check(unittest.TestCase):
    def test_a_good_message_passes(self):
        self.assertEqual(commits.faults(GOOD), [])
        self.assertEqual(commits.faults("core, glue: take the lock once\n\nSigned-off-by: A <a@b>\n# comment\n"), [])

    def test_imperatives_with_other_endings_pass(self):
        for verb in ("bring", "heed", "need", "pass", "discuss", "focus", "speed up"):
            self.assertEqual(commits.faults(GOOD.replace("wake", verb, 1)), [], verb)

    def test_each_fault_is_noticed(self):
        for old, new in (("ib: ", ""), ("ib", "fabric"), ("ring\n", "ring.\n"), ("ring\n", "ring" * 20 + "\n"),
                         ("ring\n", "ring; test it\n"), ("wake senders", "who waits is"), ("wake", "wakes"),
                         ("wake", "waking"), ("wake", "stopped"), ("\n\nThey", "\nThey"),
                         ("ever.", "ever " * 25), ("Signed-off-by", "Cc")):
            self.assertEqual(len(commits.faults(GOOD.replace(old, new, 1))), 1, new)

    def test_the_hook_refuses_a_bad_message(self):
        """The hook works without a repository, which an unpacked archive lacks."""
        with tempfile.TemporaryDirectory() as folder:
            message = pathlib.Path(folder) / "message"
            for text, status in ((GOOD, 0), ("no component\n", 1)):
                message.write_text(text)
                done = subprocess.run([ROOT / ".githooks" / "commit-msg", message], cwd=folder, capture_output=True,
                                      check=False)
                self.assertEqual(done.returncode, status, done.stderr)


if __name__ == "__main__":
    unittest.main()
