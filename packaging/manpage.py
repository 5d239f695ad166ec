# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a manual page, on standard output:

    manpage.py lowdown PROGRAM PAGE "SHORT DESCRIPTION" DOCUMENT.md    of a document, by lowdown
    manpage.py argparse PROGRAM PAGE "SHORT DESCRIPTION"               of the parser of pib, by argparse-manpage

PAGE is such as pib-switch.8. The list of the device's properties comes from the glue's source.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROPERTIES = "<!-- properties -->"
GLUE = ROOT / "qemu-hw" / "glue" / "pib_hca_props.c"
DESCRIPTION = re.compile(r'\{"([\w-]+)",\s*((?:"[^"]*"\s*)+)\}')
# A property that QEMU prints with its default, and the words of QEMU's command line for defaults in C.
DEFAULT = re.compile(r'DEFINE_PROP_(?:BOOL|UINT32|SIZE)\("([\w-]+)",\s*PibHca,\s*[\w.]+,\s*(\w+)\)')
WORDS = {"false": "off", "true": "on", "DEVICE_MEMORY_DEFAULT": "1M"}
LINK = re.compile(r"\[([^\]]*)\]\([^)\s]+\)")
COMMAND = re.compile(r"(?<!\S)(`?)\./pib(?=[ `])")
RULE = re.compile(r"\|(---\|)+")


def properties() -> dict[str, str]:
    """Description of each property of the device, by its name. QEMU adds the default to some of them."""
    source = GLUE.read_text()
    table = source.split("pib_hca_descriptions[] = {", 1)[1].split("\n};", 1)[0]
    found = {name: "".join(re.findall(r'"([^"]*)"', text)) for name, text in DESCRIPTION.findall(table)}
    for name, default in DEFAULT.findall(source):
        if "default" not in found[name]:
            found[name] += f" (default: {WORDS.get(default, default)})"
    return found


def cells(line: str) -> list[str]:
    """The two cells of a row. A | in a cell is written as \\|."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:3]]


def definitions(rows: list[str]) -> str:
    """The rows of a table as a list of terms and their definitions. A row without a first cell continues the last."""
    terms: list[list[str]] = []
    for term, text in map(cells, rows):
        if term:
            terms.append([term, text])
        else:
            terms[-1][1] += f" {text}"
    return "".join(f"{term}\n\n: {text or '(none)'}\n\n" for term, text in terms)


def tables(text: str) -> str:
    """The text with a list in place of each table, for which a page of 80 columns has no room. The list has no row for
    the table's header."""
    done, lines = [], iter(text.splitlines())
    for line in lines:
        rows = []
        while line.startswith("|"):
            rows.append(line)
            line = next(lines, "")
        if len(rows) > 2 and RULE.fullmatch(rows[1]):
            done.append(definitions(rows[2:]))
        done.append(line)
    return "\n".join(done)


def document(text: str, description: str) -> str:
    """A document as the body of a page: its title becomes the name, its sections keep their headings."""
    listed = "".join(f"`{name}`\n\n: {said}\n\n" for name, said in properties().items())
    text = re.sub(r"^<!-- SPDX.*-->\n", "", text).replace(PROPERTIES, listed)
    text = COMMAND.sub(r"\1pib", LINK.sub(r"\1", tables(text)))
    title, body = re.fullmatch(r"# ([\w-]+)\n(.*)", text, re.DOTALL).groups()
    body = re.sub("^##+ (.*)", lambda found: f"# {found[1].upper()}", body, flags=re.MULTILINE)
    return f"# NAME\n\n{title} - {description}\n\n# DESCRIPTION\n{body}"


def from_document(program: str, page: str, description: str, source: str) -> str:
    name, section = page.rsplit(".", 1)
    head = f"title: {name}\nsection: {section}\nsource: pib-hca\n\n"
    text = head + document(pathlib.Path(source).read_text(), description)
    return subprocess.run([program, "-s", "-Tman", "-"], input=text, capture_output=True, text=True, check=True).stdout


def from_parser(program: str, page: str, description: str) -> str:
    """COLUMNS: argparse breaks its lines by the width of the terminal. The parser is that of a checkout, in which the
    command has another name; a line that begins with it would be a macro."""
    made = subprocess.run([program, "--module", "lab.__main__", "--function", "installed_parser"], cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80"},
                          capture_output=True, text=True, check=True).stdout
    made = re.sub(r"(\\&)?\./pib(?=\s)", "pib", made)
    name = page.rsplit(".", 1)[0]
    return re.sub(r"(?<=^\.SH NAME\n)\S+$", f"{name} \\\\- {description}", made, count=1, flags=re.MULTILINE)


def main() -> None:
    kind, *arguments = sys.argv[1:]
    sys.stdout.write({"lowdown": from_document, "argparse": from_parser}[kind](*arguments))


if __name__ == "__main__":
    main()
