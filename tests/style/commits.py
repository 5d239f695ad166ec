#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks commit messages against CONTRIBUTING.md, "Commits". Argument: a file with one message."""

import pathlib
import re
import sys

import comments

MOST_SUBJECT_COLUMNS = 72
MOST_BODY_COLUMNS = 100
COMPONENTS = ("hw-interface", "ib", "core", "glue", "driver", "provider", "switch", "lab", "tests", "docs", "build")
SUBJECT = re.compile(r"(?P<components>[a-z-]+(?:, [a-z-]+)*): (?P<change>\S.*)")
SIGNED_OFF = re.compile(r"^Signed-off-by: .+ <\S+@\S+>$", re.MULTILINE)
# Other forms of a verb than the imperative, as the first word: "adds", "added", "adding".
IMPERATIVES = "alias|bias|bring|embed|exceed|feed|focus|heed|need|ping|proceed|ring|seed|speed|string|swing"
OTHER_FORM = re.compile(rf"(?!(?:{IMPERATIVES})\b)[a-z]+(?:[^su]s|ed|ing)\b")
# "git commit --verbose" shows the change below this line.
SCISSORS = "# ------------------------ >8 ------------------------"


def subject_faults(subject: str) -> list[str]:
    faults = []
    if len(subject) > MOST_SUBJECT_COLUMNS:
        faults.append(f"the subject has {len(subject)} columns: shorten it to {MOST_SUBJECT_COLUMNS}")
    form = SUBJECT.fullmatch(subject)
    if not form:
        return faults + ["the subject is not \"component: change\""]
    unknown = [name for name in form["components"].split(", ") if name not in COMPONENTS]
    if unknown:
        faults.append(f"unknown component {', '.join(unknown)}: expected one of {', '.join(COMPONENTS)}")
    if OTHER_FORM.match(form["change"]):
        faults.append("the change does not open with an imperative: say what the commit does, \"wake senders\"")
    if form["change"].endswith("."):
        faults.append("the subject ends with a full stop: remove it")
    if ";" in form["change"]:
        faults.append("the subject joins several changes by \";\": make one commit of each")
    if comments.OPENINGS.match(form["change"]):
        faults.append("the change opens with a word that names no thing: say what the commit does, \"wake senders\"")
    return faults


def faults(message: str) -> list[str]:
    """The faults of a commit message, one line for each."""
    lines = [line for line in message.split(SCISSORS)[0].splitlines() if not line.startswith("#")]
    subject, body = lines[0] if lines else "", lines[1:]
    found = subject_faults(subject)
    if body and body[0]:
        found.append("the second line is not empty")
    found += [f"a line has {len(line)} columns: wrap it at {MOST_BODY_COLUMNS}: {line[:40]}..."
              for line in body if len(line) > MOST_BODY_COLUMNS and not line.startswith((" ", "\t"))]
    if not SIGNED_OFF.search("\n".join(body)):
        found.append("the message is not signed off: git commit -s")
    return found


def main() -> int:
    found = faults(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    print("".join(f"commit message: {fault}\n" for fault in found), end="", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
