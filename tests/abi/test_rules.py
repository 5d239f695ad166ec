#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The rules of docs/device-spec.md against those of the device, both ways: number, status and field; and the table of
faults in docs/observability.md. tests/unit/core/rules checks that each rule has a command that breaks it."""

import pathlib
import re
import sys
import unittest

import manual

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORE = ROOT / "qemu-hw" / "core"
MANUAL = ROOT / "docs" / "device-spec.md"
STRICT = ROOT / "docs" / "observability.md"
FAULT = re.compile(r"^\| (\w+) \| .* \| ([^|]*) \|$", re.MULTILINE)
NUMBERS = re.compile(r"(\d+\.\d+)\.(\d+)(?: to \1\.(\d+))?")
NOTICED = {"named": "strict", "ignored": "ignored", "FATAL": "fatal", "REM_ACCESS_ERR": "packet"}
VALUE = re.compile(r"\b(k\w+) = rule_value\((\d+), (\d+), (\d+), (CmdStatus|Effect|VendorError)::k(\w+)\)")
VENDOR_ERRORS = re.compile(r"^enum class VendorError .*?^};", re.MULTILINE | re.DOTALL)
ENUMERATOR = re.compile(r"^    (k\w+) = (?!0,)", re.MULTILINE)
ROW = re.compile(r"\{Rule::(k\w+),\s*(NOTHING|NO_FIELD|STORED|SEND_WQE|RECV_WQE|\w+\((?:\w+,\s*)?([\w.]+)\))")
USE = re.compile(r"\bRule::(k\w+)")
HEADING = re.compile(r"^###+ (\d+\.\d+) ", re.MULTILINE)


def status_name(enumerator: str) -> str:
    """The manual's answer to a broken rule: BAD_PARAM for BadParam. A store or load may be ignored, or have the answer
    BAD_ENABLE or FATAL; named: only a strict device names the rule."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", enumerator).upper().replace("IGNORED", "ignored").replace("NAMED", "named")


def vendor_errors() -> dict[str, str]:
    """The number of each vendor error."""
    found = VENDOR_ERRORS.search((CORE / "base" / "status.h").read_text(encoding="utf-8"))
    return dict(re.findall(r"\bk(\w+) = (\d+),", found.group()))


def rules_of_code() -> dict[str, tuple[str, str]]:
    """By enumerator: number and status of each rule; for rules of work requests the vendor_error as status."""
    text, errors = (CORE / "base" / "rule.h").read_text(encoding="utf-8"), vendor_errors()
    return {name: (".".join(parts), errors[status] if kind == "VendorError" else status_name(status))
            for name, *parts, kind, status in VALUE.findall(text)}


def rules_of_manual() -> list[tuple[str, str, str, str]]:
    """Section, number, status and sentence of each rule."""
    found, section = [], ""
    for before, header, rows in manual.tables(MANUAL.read_text(encoding="utf-8")):
        section = ([section] + HEADING.findall(before))[-1]
        if header[0] == "rule":
            found += [(section, row[0], row[1].strip("`"), row[-1]) for row in rows]
    return found


def fields() -> list[tuple[str, str]]:
    """Enumerator and field of each rule; "": the rule has no field."""
    tables = "".join(path.read_text("utf-8") for path in (CORE / "rules").glob("*rule_table.*"))
    return [(name, field) for name, _, field in ROW.findall(tables)]


def faults() -> list[tuple[str, str]]:
    """Number of each rule in the table of faults, and how a device notices that it is broken."""
    text = STRICT.read_text(encoding="utf-8").partition("\n## 7. Strict\n")[2]
    return [(f"{section}.{place}", noticed) for noticed, rules in FAULT.findall(text)
            for section, first, last in NUMBERS.findall(rules) for place in range(int(first), int(last or first) + 1)]


class Rules(unittest.TestCase):
    def test_code_and_manual_have_the_same_rules(self):
        of_manual = [(number, status) for _, number, status, _ in rules_of_manual()]
        of_code = list(rules_of_code().values())
        self.assertGreater(len(of_code), 200)
        self.assertEqual(sorted(of_manual), sorted(of_code))
        self.assertEqual(len({number for number, _ in of_code}), len(of_code), "a number is used twice")

    def test_every_enumerator_of_a_rule_is_parsed(self):
        text = (CORE / "base" / "rule.h").read_text(encoding="utf-8").partition("enum class Rule ")[2]
        self.assertEqual(ENUMERATOR.findall(text), list(rules_of_code()))

    def test_a_rule_is_in_the_section_of_its_number(self):
        for section, number, _, _ in rules_of_manual():
            self.assertEqual(section, number.rpartition(".")[0], f"rule {number}")

    def test_each_rule_has_its_field(self):
        self.assertEqual(sorted(name for name, _ in fields()), sorted(rules_of_code()))

    def test_the_manual_names_the_field(self):
        sentences = {number: sentence for _, number, _, sentence in rules_of_manual()}
        numbers = {name: number for name, (number, _) in rules_of_code().items()}
        for name, field in fields():
            if field:
                self.assertIn(f"`{field}`", sentences[numbers[name]], f"rule {numbers[name]}")

    def test_the_table_of_faults_has_each_rule_whose_breach_has_no_status(self):
        statuses = dict(rules_of_code().values())
        table = faults()
        for noticed in ("strict", "ignored"):
            self.assertEqual(sorted(number for number, how in table if how == noticed),
                             sorted(number for number, status in statuses.items() if NOTICED.get(status) == noticed))
        for number, how in table:
            self.assertIn(number, statuses)
            self.assertEqual(NOTICED.get(statuses[number], "command"), how, f"rule {number}")

    def test_each_rule_is_used(self):
        used = {name for path in CORE.rglob("*.cc") if path.name != "rule_table.cc"
                for name in USE.findall(path.read_text(encoding="utf-8"))}
        used |= {name for path in CORE.rglob("*.h") if path.name not in ("rule.h", "request_rule_table.h")
                 for name in USE.findall(path.read_text(encoding="utf-8"))}
        self.assertEqual(used - {"kNone"}, set(rules_of_code()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
