#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the documents against the tree: links, anchors, names of tests, names of code."""

import pathlib
import re
import runpy
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
TEST = re.compile(r"`([\w/]+\.(?:cc|py))`")


FOLDERS = ("docs", "examples", "fabric-switch", "hw-interface", "ib", "lab", "packaging", "qemu-hw", "tests")


def documents() -> list[pathlib.Path]:
    return sorted([*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))])


def anchors(text: str) -> set[str]:
    """Anchors of the headings, as usual renderers make them: lower case, hyphens, no punctuation."""
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in kept}


def broken_link(document: pathlib.Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return False
    name, _, anchor = link.partition("#")
    target = document.parent / name if name else document
    if not target.exists():
        return True
    return bool(anchor) and anchor not in anchors(FENCE.sub("", target.read_text()))


def coverage_rows(text: str) -> list[list[str]]:
    """The cells of every feature's row."""
    rows = []
    for line in filter(lambda line: line.startswith("|"), text.splitlines()):
        row = [cell.strip() for cell in line.strip("|").split("|")]
        if row[1] or not rows:
            rows.append(row)
        else:                       # an empty second cell: the row above continues
            rows[-1] = [" ".join(filter(None, pair)) for pair in zip(rows[-1], row)]
    return [row for row in rows if row[0] != "feature" and not row[0].startswith("---")]


def coverage_faults(text: str) -> list[str]:
    """Faults of the coverage table; one line each."""
    faults = []
    for row in coverage_rows(text):
        if len(row) != 3 or row[1] not in ("yes", "part", "no") or not row[2]:
            faults.append(f"not a row of feature, yes/part/no and text: {row}")
            continue
        tests = TEST.findall(row[2])
        faults += [f"{row[0]}: no such test: {name}" for name in tests
                   if not (ROOT / "tests" / name).is_file()]
        if row[1] == "yes" and not tests:
            faults.append(f"{row[0]}: there, but no test is named")
    return faults


NAMED = re.compile(r'`([\w/]+\.(?:cc|py))`((?:,? ?"[^"]+")*)')


TITLES = ('TEST_CASE("{}"', 'SECTION("{}"', "def {}(")


def fault_cases(text: str) -> dict[str, str]:
    """Heading of each case, "T01: Register accesses", and the lines below it."""
    sections = re.split(r"^### (T\d\d: .+)$", re.sub(r"^## .*$", "", text, flags=re.MULTILINE), flags=re.MULTILINE)
    return dict(zip(sections[1::2], sections[2::2]))


def is_test(file: str, title: str) -> bool:
    path = ROOT / "tests" / file
    body = " ".join(path.read_text().split()) if path.is_file() else ""
    body = body.replace('" "', "")  # a title may go over two lines
    return any(form.format(title) in body for form in TITLES)


def fault_case_faults(text: str) -> list[str]:
    """Cases that lack a line "Case:", "Result:" or "Tests:", and tests that do not exist; one line each."""
    faults = []
    for heading, body in fault_cases(text).items():
        faults += [f"{heading}: no line \"* {label}:\"" for label in ("Case", "Result", "Tests")
                   if f"\n* {label}:" not in body]
        named = NAMED.findall(" ".join(body.split()))
        if not named:
            faults.append(f"{heading}: no test")
        faults += [f"{heading}: no such test: {file} {title}" for file, titles in named
                   for title in re.findall(r'"([^"]+)"', titles) or ["?"] if not is_test(file, title)]
    return faults


# Sections of the threat model that consist of promises. A promise is a sentence with a list of tests.
PROMISED = ("Rules at every boundary", "Peer copy", "Access to the fabric", "What no switch can do")


def promises(text: str) -> list[tuple[str, str]]:
    """(sentence, list of tests) of each promise."""
    found = []
    for title in PROMISED:
        body = text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
        for words in re.split(r"^\* ", body, flags=re.MULTILINE):
            sentence, _, tests = " ".join(words.split("\n")).partition("  * ")
            if sentence.strip():
                found.append((" ".join(sentence.split()), " ".join(tests.split())))
    return found


def is_fuzz_target(file: str) -> bool:
    return file.startswith("fuzz/") and (ROOT / "tests" / file).is_file()


def promise_faults(text: str) -> list[str]:
    """Promises that are not sentences or have no test, and tests that do not exist; one line each."""
    faults = []
    for sentence, tests in promises(text):
        if not sentence.endswith(".") or ". " in sentence:
            faults.append(f"not one sentence: {sentence}")
        named = NAMED.findall(tests)
        if not named:
            faults.append(f"no test: {sentence}")
        faults += [f"no such test: {file} {title}" for file, titles in named if titles or not is_fuzz_target(file)
                   for title in re.findall(r'"([^"]+)"', titles) or ["?"] if not is_test(file, title)]
    return faults


# Folders whose README has a line for each source file.
LISTED = ("ib", "qemu-hw/core", "fabric-switch", "lab")
LISTED_SUFFIXES = (".h", ".cc", ".py", ".js")
FILE = re.compile(r"`([\w.]+)`")


def listed_files(text: str) -> set[str]:
    """Files of the tables of a README: under `## NAME/` those of this subfolder, under another heading the folder's
    own."""
    room, files = "", set()
    for line in text.splitlines():
        if heading := re.match(r"## (.*)", line):
            room = heading.group(1) if heading.group(1).endswith("/") else ""
        elif line.startswith("| `"):
            files |= {room + name for name in FILE.findall(line.split("|")[1])}
    return files


class Pictures(unittest.TestCase):
    def test_a_picture_is_what_its_source_draws(self):
        sources = sorted((ROOT / "docs" / "images").glob("*.py"))
        self.assertTrue(sources)
        for source in sources:
            drawn = runpy.run_path(str(source))["picture"]()
            self.assertEqual(drawn, source.with_suffix(".svg").read_text(), f"draw it anew:  python3 {source}")


class Readmes(unittest.TestCase):
    def test_a_readme_lists_the_sources_of_its_folder(self):
        for folder in LISTED:
            sources = {str(path.relative_to(ROOT / folder)) for path in (ROOT / folder).rglob("*")
                       if path.suffix in LISTED_SUFFIXES and path.name != "__init__.py"}
            self.assertGreater(len(sources), 20)
            self.assertEqual(listed_files((ROOT / folder / "README.md").read_text()), sources)

    def test_files_are_found(self):
        text = "# A\n## Here\n| `a.h`, `a.cc` | x `y` |\n## room/\n| `b.h` | z |\n"
        self.assertEqual(listed_files(text), {"a.h", "a.cc", "room/b.h"})


class Documents(unittest.TestCase):
    def test_each_link_has_a_target(self):
        names = {str(document.relative_to(ROOT)) for document in documents()}
        self.assertLessEqual({"README.md", "docs/index.md", "examples/userspace-driver/README.md"}, names)
        for document in documents():
            for link in LINK.findall(FENCE.sub("", document.read_text())):
                self.assertFalse(broken_link(document, link), f"{document.name}: {link}")

    def test_a_broken_link_is_noticed(self):
        manual = ROOT / "docs" / "device-spec.md"
        self.assertTrue(broken_link(manual, "nowhere.md"))
        self.assertTrue(broken_link(manual, "#99-nothing"))
        self.assertFalse(broken_link(manual, "#1-notation"))


CODE_LINE = re.compile(r"^Code: (.*?)(?:Former names?:.*)?$", re.MULTILINE)
SOURCES = {".h", ".c", ".cc", ".py"}


def unknown_names(glossary: str) -> list[str]:
    """Names on "Code:" lines of the glossary that no source file contains, and that name no folder."""
    text = "\n".join(path.name + "\n" + path.read_text() for folder in
                     ("hw-interface", "ib", "link-memory", "qemu-hw", "fabric-switch", "lab")
                     for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SOURCES)
    names = {name for line in CODE_LINE.findall(glossary) for name in re.findall("`([^`]+)`", line)}
    return sorted(name for name in names
                  if not (ROOT / name).is_dir() and not re.search(rf"\b{re.escape(name)}\b", text))


class Glossary(unittest.TestCase):
    def test_names_of_the_code_exist(self):
        text = (ROOT / "docs" / "glossary.md").read_text()
        self.assertGreater(len(CODE_LINE.findall(text)), 30)
        self.assertEqual(unknown_names(text), [], "rename it in docs/glossary.md as well")

    def test_an_unknown_name_is_noticed(self):
        self.assertEqual(unknown_names("Code: `NoSuchName`, `Mpt`, `lab`. Former name: `Gone`."), ["NoSuchName"])


class FaultCases(unittest.TestCase):
    def test_every_case_has_its_tests(self):
        text = (ROOT / "docs" / "fault-cases.md").read_text()
        cases = {heading.split(":")[0] for heading in fault_cases(text)}
        self.assertLessEqual({f"T{number:02}" for number in range(1, 61)}, cases)
        self.assertEqual(fault_case_faults(text), [])

    def test_a_case_without_a_valid_test_is_reported(self):
        case = "### T99: Something\n\n* Case: it fails\n* Result: nothing\n* Tests:\n  * {}\n"
        existing = "`unit/core/device_registers_test.cc`"
        for tests in ("", "`core/nothing.cc` \"x\"", f"{existing} \"x\"", existing):
            self.assertNotEqual(fault_case_faults(case.format(tests)), [], tests)
        self.assertNotEqual(fault_case_faults("### T99: Something\n"), [])


class ThreatModel(unittest.TestCase):
    def test_every_promise_has_its_tests(self):
        text = (ROOT / "docs" / "threat-model.md").read_text()
        self.assertGreater(len(promises(text)), 50)
        self.assertEqual(promise_faults(text), [])

    def test_a_promise_without_a_valid_test_is_reported(self):
        text = "".join(f"\n## {title}\n{{}}" for title in PROMISED) + "\n## Limits\n"
        test = "`unit/core/device_registers_test.cc` \"registers identify the device\""
        good = f"* It holds,\n  so far.\n  * {test}\n  * `fuzz/cmd_fuzz.cc`, `fuzz/wqe_fuzz.cc`\n"
        self.assertEqual(len(promises(text.format(good, good, good, good))), len(PROMISED))
        self.assertEqual(promise_faults(text.format(good, good, good, good)), [])
        for bad in ("It holds.\n", "* It holds.\n", f"* It holds. So it does.\n  * {test}\n",
                    f"* It holds\n  * {test}\n", f"* It holds.\n  * {test}, \"no such title\"\n",
                    "* It holds.\n  * `fuzz/nothing_fuzz.cc`\n",
                    "* It holds.\n  * `unit/core/device_registers_test.cc`\n"):
            self.assertEqual(len(promise_faults(text.format(good, bad, good, good))), 1, bad)


class Coverage(unittest.TestCase):
    def test_each_row_has_a_known_state_and_tests_that_exist(self):
        text = (ROOT / "docs" / "ib-coverage.md").read_text()
        self.assertGreater(len(coverage_rows(text)), 100)
        self.assertEqual(coverage_faults(text), [])

    def test_an_invalid_row_is_reported(self):
        for row in ("| RC | yes | `pair/no_such_test.cc` |", "| RC | yes | somewhere |",
                    "| RC | maybe | `pair/datagram_test.cc` |", "| RC | no | |"):
            self.assertEqual(len(coverage_faults(row)), 1, row)


REPORTED = re.compile(r"^\| `PIB_HCA_WC_(\w+)` \| \d+ \| (?!never)(?=\S)", re.MULTILINE)


def reported_statuses(text: str) -> set[str]:
    """Names in verbs of the completion statuses that the device reports, by the manual's table."""
    return {f"IBV_WC_{name}" for name in REPORTED.findall(text)} - {"IBV_WC_SUCCESS"}


def raised_events() -> set[str]:
    """Names in verbs of the asynchronous events that the driver passes on."""
    text = "".join(path.read_text() for path in (ROOT / "guest-driver").glob("*.c"))
    return {f"IBV_EVENT_{name}" for name in re.findall(r"\bIB_EVENT_(\w+)", text)}


# enum ibv_wc_status and enum ibv_event_type of infiniband/verbs.h in rdma-core 65.
STATUSES = """LOC_LEN_ERR LOC_QP_OP_ERR LOC_EEC_OP_ERR LOC_PROT_ERR WR_FLUSH_ERR MW_BIND_ERR BAD_RESP_ERR LOC_ACCESS_ERR
REM_INV_REQ_ERR REM_ACCESS_ERR REM_OP_ERR RETRY_EXC_ERR RNR_RETRY_EXC_ERR LOC_RDD_VIOL_ERR REM_INV_RD_REQ_ERR
REM_ABORT_ERR INV_EECN_ERR INV_EEC_STATE_ERR FATAL_ERR RESP_TIMEOUT_ERR GENERAL_ERR TM_ERR TM_RNDV_INCOMPLETE""".split()
EVENTS = """CQ_ERR QP_FATAL QP_REQ_ERR QP_ACCESS_ERR COMM_EST SQ_DRAINED PATH_MIG PATH_MIG_ERR DEVICE_FATAL PORT_ACTIVE
PORT_ERR LID_CHANGE PKEY_CHANGE SM_CHANGE SRQ_ERR SRQ_LIMIT_REACHED QP_LAST_WQE_REACHED CLIENT_REREGISTER GID_CHANGE
WQ_FATAL DEVICE_SPEED_CHANGE""".split()


class FirstDriver(unittest.TestCase):
    def test_the_guide_shows_the_version_of_the_interface(self):
        reset = re.search(r'"PIB_HCA_REG_VERSION".* reset = "(\w+)"',
                          (ROOT / "hw-interface" / "pib_hca_regs.toml").read_text())
        shown = re.findall(r"interface (0x[0-9a-f]+),", (ROOT / "docs" / "first-driver.md").read_text())
        self.assertEqual([int(reset[1], 16)], [int(version, 16) for version in shown])


class Troubleshooting(unittest.TestCase):
    def test_every_status_and_event_of_verbs_is_named(self):
        """The document also names statuses and events that the device never reports, below the others."""
        text = (ROOT / "docs" / "troubleshooting.md").read_text()
        for kind, names in (("IBV_WC_", STATUSES), ("IBV_EVENT_", EVENTS)):
            self.assertEqual([], [name for name in names if not re.search(rf"\b{kind}{name}\b", text)])

    def test_every_error_and_event_is_explained(self):
        statuses = reported_statuses((ROOT / "docs" / "device-spec.md").read_text())
        events = raised_events()
        self.assertGreater(len(statuses), 8)
        self.assertGreater(len(events), 15)
        explained = HEADING.findall((ROOT / "docs" / "troubleshooting.md").read_text())
        self.assertEqual(statuses | events, {heading for heading in explained if heading.startswith("IBV_")})

    def test_a_status_that_is_never_reported_is_left_out(self):
        row = "| `PIB_HCA_WC_{}` | 1 | {} |\n"
        self.assertEqual(reported_statuses(row.format("A", "never") + row.format("B", "when x")), {"IBV_WC_B"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
