# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions of a source file and their lines: C and C++ by their braces, Python by its own parser.

For C and C++ it uses a simple grammar: comments, literals and preprocessor lines are blanked, a
brace after a head with parentheses begins a function unless it is inside of one, and braces that
initialize members in a constructor's list are part of the head.
"""

import ast
import dataclasses
import re

BLANKED = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | R"(\w*)\(.*?\)\1" | "(?:\\.|[^"\\\n])*" |
        (?<!\w)'(?:\\.|[^'\\\n])+' | ^[ \t]*\#(?:\\\n|[^\n])*""",
    re.VERBOSE | re.DOTALL | re.MULTILINE)
ACCESS = re.compile(r"^\s*(?:public|protected|private)\s*:")
CONTAINER = re.compile(r"^\s*(?:inline\s+)?(?:namespace|extern)\b")
MEMBER_LIST = re.compile(r"\)[\w\s]*:(?!:)[^;]*[\w>]\s*$", re.DOTALL)


@dataclasses.dataclass
class Function:
    name: str
    line: int
    lines: int


def blank(text: str) -> str:
    """The text with spaces in place of comments, literals and directives. Lines keep their numbers."""
    return BLANKED.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def _is_function(head: str) -> bool:
    if CONTAINER.match(head) or "(" not in head:
        return False
    return "=" not in head.split("(")[0].replace("operator", "")


def _name(head: str) -> str:
    found = re.search(r"([\w:~]+|operator\s*\S+)\s*\(", head)
    return found.group(1) if found else "lambda"


def in_c(text: str) -> list[Function]:
    """Functions of a C or C++ file; lambdas and local classes count to the function they are in."""
    code = blank(text)
    found: list[Function] = []
    inside = 0              # open braces within the current function
    braces: list[bool] = [] # open braces around it; True: the text before the brace stays the head
    start = 0               # start of the head
    for place in re.finditer(r"[{};]", code):
        char, head = place.group(), code[start:place.start()]
        if inside:
            inside += (char == "{") - (char == "}")
            if not inside:
                found[-1].lines = code.count("\n", 0, place.start()) + 2 - found[-1].line
                start = place.end()
        elif char == "{" and MEMBER_LIST.search(head):
            braces.append(True)
        elif char == "{" and _is_function(head):
            named = ACCESS.sub("", head).lstrip()
            first = place.start() - len(named)
            found.append(Function(_name(head), code.count("\n", 0, first) + 1, 0))
            inside = 1
        else:
            stays = char == "}" and braces and braces.pop()
            if char == "{":
                braces.append(False)
            start = start if stays else place.end()
    return found


def in_python(text: str) -> list[Function]:
    return [Function(node.name, node.lineno, node.end_lineno - node.lineno + 1)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
