# SPDX-License-Identifier: GPL-2.0-or-later
"""The sections of docs/troubleshooting.md, which explain the lines of ./pib why on the page."""

import pathlib
import re
from typing import Any

from lab.base import paths, ui

PLACES = (paths.ROOT / "docs" / "troubleshooting.md",
          pathlib.Path("/usr/share/doc/pib-hca-doc/docs/troubleshooting.md"),
          pathlib.Path("/usr/share/doc/pib-hca-doc/troubleshooting.md"))
HEADING = re.compile(r"#{2,3} (.*)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
RULE = re.compile(r"\|[-| ]+")          # the line between the header and the rows of a table


def anchor(heading: str) -> str:
    """The anchor of a heading, as usual Markdown renderers make it: lower case, hyphens, no punctuation."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def _plain(text: str) -> str:
    return LINK.sub(r"\1", text).replace("`", "")


def _cells(line: str) -> str:
    return ": ".join(cell.strip().replace("\\", "") for cell in re.split(r"(?<!\\)\|", line.strip("|")) if cell.strip())


def sections(text: str) -> dict[str, dict[str, Any]]:
    """Title and paragraphs of each section by its anchor, without Markdown's marks. An entry of a list or a row of a
    table counts as a paragraph."""
    found: dict[str, dict[str, Any]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if heading := HEADING.fullmatch(line):
            lines = []
            found[anchor(heading[1])] = {"title": _plain(heading[1]), "lines": lines}
        elif line.startswith("|"):
            lines += [] if RULE.fullmatch(line) else [_cells(line), ""]
        elif line.startswith("* ") or not line:
            lines.append(line.removeprefix("* "))
        elif lines and lines[-1]:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line.strip())
    for section in found.values():
        section["lines"] = [_plain(line) for line in section["lines"] if line]
    return found


def find(name: str) -> dict[str, Any] | None:
    """The section with this anchor; None if there is none."""
    page = next((path for path in PLACES if path.exists()), None)
    if not page:
        raise ui.LabError("the documentation is not installed here. Install it:  apt-get install pib-hca-doc")
    return sections(page.read_text()).get(name)
