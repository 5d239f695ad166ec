# SPDX-License-Identifier: GPL-2.0-or-later
"""Comments of C, C++, JavaScript and Python files, and those that open with a word that names no thing of the code."""

import ast
import io
import pathlib
import re
import tokenize

# "Who has moved on wakes the other" is "The side that has moved on wakes the other".
OPENINGS = re.compile(r"(?:(?:by|for|from|of|to|with) )?"
                      r"(?:who|whom|whose|whoever|whomever|what|whatever|of|nobody|nothing)\b(?!')", re.IGNORECASE)
C_TOKEN = re.compile(r"""(?P<comment>//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/)
                     | R"(?P<tag>\w*)\(.*?\)(?P=tag)" | "(?:\\.|[^"\\\n])*" | (?<!\w)'(?:\\.|[^'\\\n])+'""",
                     re.VERBOSE | re.DOTALL)
C_MARKS = re.compile(r"^[ \t]*(?://+|/\*+|\*+/|\*(?!/))[ \t]?|[ \t]*\*/$", re.MULTILINE)
TITLE = re.compile(r'\b(?:TEST_CASE|SECTION)\("((?:\\.|[^"\\])*)"')


def in_c(text: str) -> list[tuple[int, str]]:
    """Line and text of each comment, lines of // that follow each other as one, and of each test's title."""
    found = [(text.count("\n", 0, token.start()) + 1, C_MARKS.sub("", token.group("comment")).strip())
             for token in C_TOKEN.finditer(text) if token.group("comment")]
    return found + [(text.count("\n", 0, title.start()) + 1, title.group(1)) for title in TITLE.finditer(text)]


def in_python(text: str) -> list[tuple[int, str]]:
    """Docstrings, and lines of # that follow each other as one."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            documented = ast.get_docstring(node)
            if documented:
                found.append((node.body[0].lineno, documented))
    above = 0                   # the line of the comment before, if it stands alone
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            alone = token.line.lstrip().startswith("#")
            if not alone or token.start[0] != above + 1:
                found.append((token.start[0], token.string.lstrip("#! ")))
            above = token.start[0] if alone else 0
    return found


def riddles(path: pathlib.Path) -> list[tuple[int, str]]:
    """Line and text of the comments of a file that open with such a word."""
    text = path.read_text()
    return [(line, comment) for line, comment in (in_python if path.suffix == ".py" else in_c)(text)
            if OPENINGS.match(comment)]
