#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks or writes the tables of docs/conformance.md, whose rows are those of the program.

document.py PROGRAM FILE           the file has the tables that the program lists, or the test fails
document.py --write PROGRAM FILE   writes them"""

import pathlib
import subprocess
import sys
import textwrap

MARK = "<!-- The rest of this page is written by tests/conformance/document.py. -->\n"
WIDTHS = {"sentence": 50, "seen": 40}


def cells(row: list[str]) -> list[str]:
    """The Markdown rows of one check. A row with an empty first cell continues the row above."""
    number, clause, sentence, seen = row
    sentences = textwrap.wrap(sentence, WIDTHS["sentence"])
    outcomes = textwrap.wrap(seen, WIDTHS["seen"])
    out = []
    for i in range(max(len(sentences), len(outcomes))):
        said = sentences[i] if i < len(sentences) else ""
        shown = outcomes[i] if i < len(outcomes) else ""
        first = (number, clause) if i == 0 else ("", "")
        out.append(f"| {first[0]} | {first[1]} | {said} | {shown} |")
    return out


def tables(listed: str) -> str:
    """All tables, from the program's rows."""
    out: list[str] = []
    differences: list[tuple[str, str]] = []
    count = 0
    for line in listed.splitlines():
        fields = line.split("\t")
        if fields[0] == "#":
            out += ["", f"## {fields[1]}", "", "| number | IBA | rule | seen |", "|---|---|---|---|"]
            continue
        count += 1
        out += cells(fields[:4])
        if fields[4]:
            differences.append((fields[0], fields[4]))
    return "\n".join(summary(count, differences) + out) + "\n"


def summary(count: int, differences: list[tuple[str, str]]) -> list[str]:
    out = ["", "## What differs from IBA", "",
           f"There are {count} checks; {len(differences)} of them see something else than IBA asks for:", "",
           "| check | difference and reason |", "|---|---|"]
    for number, reason in differences:
        for i, part in enumerate(textwrap.wrap(reason, 100)):
            out.append(f"| {number if i == 0 else ''} | {part} |")
    return out


def main() -> int:
    write = sys.argv[1] == "--write"
    program, name = sys.argv[-2:]
    file = pathlib.Path(name)
    listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout
    text = file.read_text()
    wanted = text.split(MARK)[0] + MARK + tables(listed)
    if write:
        file.write_text(wanted)
    elif text != wanted:
        print(f"{name} has other tables than the checks: run\n  tests/conformance/document.py --write {program} {name}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
