# SPDX-License-Identifier: GPL-2.0-or-later
"""Headers that compile alone.

A source file includes its own header first, so compiling it proves that header. All other headers are
compiled one by one. A header that has passed is not compiled again until it, or one that it includes, changes.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
FLAGS = ("-std=c++23", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++")
FOLDERS = ("hw-interface", "ib", "link-memory", "qemu-hw/core", "qemu-hw/replay", "fabric-switch")


def include_dirs(root: pathlib.Path) -> list[pathlib.Path]:
    return [root, *(root / folder for folder in FOLDERS if folder != "ib")]


def resolve(root: pathlib.Path, header: pathlib.Path, name: str) -> pathlib.Path | None:
    found = (folder / name for folder in (header.parent, *include_dirs(root)))
    return next((path for path in found if path.is_file()), None)


def own_header_first(source: pathlib.Path) -> bool:
    """True also for a source without a header of its own."""
    first = INCLUDE.search(source.read_text())
    named = first is not None and pathlib.PurePath(first.group(1)).name == source.with_suffix(".h").name
    return named or not source.with_suffix(".h").exists()


def closure(root: pathlib.Path, header: pathlib.Path) -> set[pathlib.Path]:
    """The header and all headers of the tree that it includes."""
    seen, left = set(), [header]
    while left:
        path = left.pop()
        if path not in seen:
            seen.add(path)
            left += filter(None, (resolve(root, path, name) for name in INCLUDE.findall(path.read_text())))
    return seen


def digest(root: pathlib.Path, header: pathlib.Path, compiler: str) -> str:
    result = hashlib.sha256(" ".join((compiler, *FLAGS)).encode())
    for path in sorted(closure(root, header)):
        result.update(str(path).encode() + path.read_bytes())
    return result.hexdigest()


def compile_alone(root: pathlib.Path, header: pathlib.Path, compiler: str) -> str:
    """The compiler's complaints; empty if there are none."""
    paths = [f"-I{folder}" for folder in include_dirs(root)]
    done = subprocess.run([compiler, *FLAGS, *paths, "-include", header, "/dev/null"], cwd=root, capture_output=True,
                          text=True, check=False)
    return done.stderr if done.returncode else ""


def faults(root: pathlib.Path, headers: list[pathlib.Path], compiler: str, cache: pathlib.Path) -> dict[str, str]:
    """Complaints by header. `cache`: a file with the digests of headers that have passed."""
    passed = set(json.loads(cache.read_text())) if cache.exists() else set()
    digests = {header: digest(root, header, compiler) for header in headers}
    left = [header for header in headers if digests[header] not in passed]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(left, pool.map(lambda header: compile_alone(root, header, compiler), left)))
    good = {digests[header] for header in headers if not results.get(header)}
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(json.dumps(sorted(good)))
    return {str(header.relative_to(root)): said for header, said in results.items() if said}
