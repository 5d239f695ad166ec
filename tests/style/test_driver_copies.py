#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The driver checks what the device has written, and uses it afterwards. A device that lies may write again in between,
so functions that do both get a copy of the entry, and numbers that become an index are read once."""

import pathlib
import re
import unittest

DRIVER = pathlib.Path(__file__).resolve().parents[2] / "guest-driver"
POLL = re.compile(r"^static bool pib_hca_poll_eq\(.*?^}", re.MULTILINE | re.DOTALL)
REAP = re.compile(r"^static bool pib_hca_cmdq_reap_one\(.*?^}", re.MULTILINE | re.DOTALL)


def handed_over(function: str) -> list[str]:
    """The entries that a function passes to the handlers of events."""
    return re.findall(r"pib_hca_handle_event\([^,]+, ([^)]+)\)", function)


class DriverCopies(unittest.TestCase):
    def function(self, file: str, pattern: re.Pattern[str]) -> str:
        found = pattern.search((DRIVER / file).read_text(encoding="utf-8"))
        assert found, f"{file} has no such function"
        return found.group()

    def test_handlers_of_events_get_a_copy(self):
        function = self.function("eq.c", POLL)
        self.assertEqual(handed_over(function), ["&event"])
        self.assertRegex(function, r"struct pib_hca_eqe \*eqe, event;")
        self.assertIn("event = *eqe;", function)

    def test_the_index_of_a_command_is_read_once(self):
        reads = re.findall(r"[\w(]*cpl->id\b", self.function("cmd.c", REAP))
        self.assertEqual(reads, ["le16_to_cpu(READ_ONCE(cpl->id"])


if __name__ == "__main__":
    unittest.main()
