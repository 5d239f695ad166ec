# SPDX-License-Identifier: GPL-2.0-or-later
"""Compiles small programs with the headers and returns their output."""

import pathlib
import subprocess
import tempfile

from header import HEADERS

INCLUDES = "".join(f'#include "{header}"\n' for header in HEADERS)


class Compiler:
    def __init__(self, command: list[str], folder: pathlib.Path):
        self.command = [*command, f"-I{folder}"]

    def check(self, language: list[str], source: str) -> str:
        """The compiler's complaints; empty if there are none."""
        done = subprocess.run([*self.command, *language, "-fsyntax-only", "-Wall", "-Wextra",
                               "-Wpedantic", "-Werror", "-"], input=source, text=True,
                              capture_output=True, check=False)
        return done.stderr if done.returncode else ""

    def run(self, body: str) -> list[str]:
        """The lines that a program with these statements in main() prints."""
        source = ("#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n" + INCLUDES +
                  "int main(void)\n{\n" + body + "return 0;\n}\n")
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "probe"
            done = subprocess.run([*self.command, "-std=c11", "-x", "c", "-", "-o", program],
                                  input=source, text=True, capture_output=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr)
            return subprocess.run([program], text=True, capture_output=True,
                                  check=True).stdout.splitlines()


def numbers(compiler: Compiler, expressions: list[str]) -> dict[str, int]:
    """The values of constant expressions."""
    body = "".join(f'printf("%lld\\n", (long long)({expression}));\n' for expression in expressions)
    return dict(zip(expressions, map(int, compiler.run(body)), strict=True))


def bytes_of(compiler: Compiler, structs: list[str], values: dict[str, str],
             fields: dict[str, list[str]]) -> bytes:
    """The bytes of structures one after the other. Fields without a value are zero. A field belongs to
    the first structure that has it, from that of the previous field on."""
    body, current = "", 0
    for i, name in enumerate(structs):
        body += f"struct {name} s{i};\nmemset(&s{i}, 0, sizeof(s{i}));\n"
    for field, value in values.items():
        while field.split(".")[0] not in fields[structs[current]]:
            current += 1
        body += f"s{current}.{field} = {value};\n"
    for i in range(len(structs)):
        body += (f"for (size_t i = 0; i < sizeof(s{i}); i++)\n"
                 f'printf("%d\\n", ((unsigned char *)&s{i})[i]);\n')
    return bytes(map(int, compiler.run(body)))
