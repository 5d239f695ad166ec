# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists of what tests leave out, with reasons: "* `NAME`: reason" for each entry; reasons may have several lines."""

import re

ENTRY = re.compile(r"^\* `([^`]+)`:\s+\S", re.MULTILINE)


def names(text: str) -> list[str]:
    """The names of the entries that have a reason."""
    return ENTRY.findall(text)
