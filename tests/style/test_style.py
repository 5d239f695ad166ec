#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Rules of CONTRIBUTING.md that a program can check: length of files and functions, files of a folder, licence lines,
white space. Argument: the source directory."""

import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import functions
import include_rules
import tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_LINES = 600
MOST_FUNCTION_LINES = 70
MOST_FILES = 45
# Folders with one file for each row of a list.
LISTS = {"tests/mutants"}
MOST_MARKDOWN_COLUMNS = 120
LICENCE = re.compile(r"SPDX-License-Identifier: (.+?)(?: -->| \*/)?$", re.MULTILINE)
# Folders with the licence of InfiniBand code in the kernel and rdma-core; all others have QEMU's licence.
DUAL = ("hw-interface", "guest-driver", "guest-provider")
DUAL_LICENCE = "GPL-2.0 OR Linux-OpenIB"
LICENCE_OF_THE_REST = "GPL-2.0-or-later"
# Debian 12 and 13 both have this version; another one lays out differently.
CLANG_FORMAT = "clang-format-19"
# Folders with C++, and exceptions in them: C for guests and the core's C interface have the layout of other projects.
FORMATTED = ("ib/", "link-memory/", "qemu-hw/core/", "qemu-hw/replay/", "fabric-switch/", "tests/")
UNFORMATTED = re.compile(r"tests/guest/|.*\.c$|qemu-hw/core/pib_hca_core\.h$")
# Integer types of <cstdint>, size_t and ptrdiff_t carry no std:: in any folder.
QUALIFIED_INTEGER = re.compile(r"\bstd::(?:u?int\w*|size|ptrdiff)_t\b")
# A declaration, in a header, of a function whose result says whether something was done or found.
TOLD = re.compile(r"^\s*(?:(?:static|constexpr|inline|virtual|friend) )*(?:bool|std::(?:optional|expected)<.*>) \w+\(")
RESULTS = ("ib/", "link-memory/", "qemu-hw/core/", "qemu-hw/replay/", "fabric-switch/")
DISCARDABLE = {"qemu-hw/core/pib_hca_core.h"}  # C
# Tests of single sources, and the folder whose sources they test.
MIRRORED = {"unit/ib": "ib", "unit/core": "qemu-hw/core", "unit/switch": "fabric-switch"}
# The tests of sources without a test of their own: "### FOLDER", then a row for each source.
TEST_MAP = "tests/README.md"
MAP_HEADING = re.compile(r"^### (\S+)$")
MAP_ROW = re.compile(r"^\| `([\w/.-]+\.cc)` \| (.+) \|$")
MAP_TEST = re.compile(r"`([\w/-]+_(?:test|fuzz|checks)\.cc)`")
UNTESTED = "none: "
# Formats without comments.
NO_COMMENTS = {".hex", ".json"}
# Formats that show lines of other files, empty ones with a blank.
WITH_CONTEXT = {".patch"}
WITHOUT_COMMENTS = {"debian/changelog", "debian/copyright", "debian/source/format", "packaging/installed.json.in"}


def licence_of(path: pathlib.Path) -> str:
    return DUAL_LICENCE if path.relative_to(ROOT).parts[0] in DUAL else LICENCE_OF_THE_REST


def long_functions(path: pathlib.Path) -> list[str]:
    text = path.read_text()
    found = functions.in_python(text) if path.suffix == ".py" else functions.in_c(text)
    return [f"{path.relative_to(ROOT)}:{function.line}: {function.name} has {function.lines} lines"
            for function in found if function.lines > MOST_FUNCTION_LINES]


class Files(unittest.TestCase):
    def setUp(self):
        self.files = tree.files(ROOT)
        self.assertGreater(len(self.files), 300)

    def test_no_file_is_too_long(self):
        found = {str(path.relative_to(ROOT)): len(path.read_text().splitlines())
                 for path in filter(tree.is_code, self.files)}
        self.assertEqual({name: n for name, n in found.items() if n > MOST_LINES}, {})

    def test_no_folder_has_too_many_files(self):
        found = collections.Counter(str(path.relative_to(ROOT).parent) for path in self.files)
        self.assertEqual({name: n for name, n in found.items() if n > MOST_FILES and name not in LISTS}, {})

    def test_no_function_is_too_long(self):
        code = [path for path in self.files if path.suffix in (".c", ".cc", ".h", ".py")]
        self.assertEqual([line for path in code for line in long_functions(path)], [])

    def test_no_line_of_markdown_is_too_wide(self):
        found = [f"{path.relative_to(ROOT)}:{number}: {len(line)} columns"
                 for path in self.files if path.suffix == ".md"
                 for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > MOST_MARKDOWN_COLUMNS]
        self.assertEqual(found, [])

    def test_every_file_has_its_licence(self):
        found = []
        for path in self.files:
            licence = LICENCE.search("\n".join(path.read_text().splitlines()[:3]))
            if path.suffix not in NO_COMMENTS and (
                    not licence or licence.group(1) != licence_of(path)):
                found.append(str(path.relative_to(ROOT)))
        self.assertEqual(sorted(set(found) - WITHOUT_COMMENTS), [])

    def test_white_space(self):
        found = []
        for path in self.files:
            if path.suffix in WITH_CONTEXT:
                continue
            text = path.read_text()
            for number, line in enumerate(text.split("\n"), 1):
                if line != line.rstrip():
                    found.append(f"{path.relative_to(ROOT)}:{number}: white space at its end")
            if text and (not text.endswith("\n") or text.endswith("\n\n")):
                found.append(f"{path.relative_to(ROOT)}: does not end with one newline")
        self.assertEqual(found, [])

    def test_integer_types_are_not_qualified(self):
        found = [f"{path.relative_to(ROOT)}:{number}: {match.group()}"
                 for path in self.files if path.suffix in (".cc", ".h")
                 for number, line in enumerate(path.read_text().splitlines(), 1)
                 for match in QUALIFIED_INTEGER.finditer(line)]
        self.assertEqual(found, [])

    def test_results_are_not_discarded(self):
        headers = [path for path in self.files if path.suffix == ".h"
                   and str(path.relative_to(ROOT)).startswith(RESULTS)
                   and str(path.relative_to(ROOT)) not in DISCARDABLE]
        self.assertGreater(len(headers), 200)
        found = []
        for path in headers:
            lines = path.read_text().splitlines()
            found += [f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
                      for number, (before, line) in enumerate(zip(["", *lines], lines), 1)
                      if TOLD.match(line) and not before.endswith("[[nodiscard]]")]
        self.assertEqual(found, [])

    def test_layout(self):
        self.assertTrue(shutil.which(CLANG_FORMAT), f"install {CLANG_FORMAT}, or run ./pib deps")
        names = [str(path.relative_to(ROOT)) for path in self.files if path.suffix in (".cc", ".h")]
        names = [name for name in names
                 if name.startswith(FORMATTED) and not UNFORMATTED.match(name)]
        done = subprocess.run([CLANG_FORMAT, "--dry-run", "-Werror", *names], cwd=ROOT,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[:4000])


CPLUSPLUS = '''
#include <x> // {
namespace a {
class B final : public C<int> {
  public:
    B(int x) : c_{x}, d_(x) {
        f();
    }
    int g() const noexcept override { return 1; }
    int table_[2] = {1, 2};
};
const char* kText = R"x(
int not_one() {
)x";
template <typename T>
auto f(T t) -> decltype(t + '{') {
    auto h = [](int i) {
        return i;
    };
    struct L { int m() { return 0; } };
    return h(t);
}
constexpr Row kRows[] = {
    {1, "}", [](int x) { return x; }},
};
}  // namespace a
struct s *k(void)
{
	return 0;
}
'''


def mirrors_a_source(test: str, sources: set[str]) -> bool:
    """X_test and X_aspect_test are tests of X; all as paths without their endings."""
    folder, _, name = test.rpartition("/")
    return any(source.rpartition("/")[0] == folder and name.startswith(source.rpartition("/")[2] + "_")
               for source in sources)


def own_tests(source: str, sources: set[str], tests: set[str]) -> list[str]:
    """The tests of a source by their names: those whose name begins with no longer name of a source."""
    folder, _, name = source.rpartition("/")
    longer = {other for other in sources if other.startswith(f"{source}_")}
    return [test for test in tests if test.rpartition("/")[0] == folder
            and test.rpartition("/")[2].startswith(f"{name}_") and not mirrors_a_source(test, longer)]


def without_own_test(root: pathlib.Path) -> set[str]:
    """C++ sources of the mirrored folders that no test is named after."""
    found = set()
    for tests, folder in MIRRORED.items():
        paths = [path for path in (root / folder).rglob("*") if path.suffix in (".h", ".cc")]
        sources = {str(path.relative_to(root / folder).with_suffix("")) for path in paths}
        named = {str(path.relative_to(root / "tests" / tests).with_suffix(""))
                 for path in (root / "tests" / tests).rglob("*_test.cc")}
        compiled = {str(path.relative_to(root / folder).with_suffix("")) for path in paths if path.suffix == ".cc"}
        found |= {f"{folder}/{name}.cc" for name in compiled if not own_tests(name, sources, named)}
    return found


def map_rows(text: str) -> list[tuple[str, str]]:
    """The rows of TEST_MAP: a source, and the cell with its tests."""
    rows, folder = [], ""
    for line in text.splitlines():
        if heading := MAP_HEADING.match(line):
            folder = heading[1]
        elif row := MAP_ROW.match(line):
            rows.append((f"{folder}/{row[1]}", row[2]))
    return rows


def map_faults(root: pathlib.Path, text: str) -> list[str]:
    wanted = without_own_test(root)
    rows = map_rows(text)
    named = [source for source, _ in rows]
    faults = [f"{source}: name a test after it, or add a row to {TEST_MAP}" for source in sorted(wanted - set(named))]
    faults += [f"{source}: remove its row from {TEST_MAP}: it has a test of its own, another row, or is gone"
               for number, source in enumerate(named) if source not in wanted or source in named[:number]]
    for source, cell in rows:
        tests = MAP_TEST.findall(cell)
        if not tests and not cell.startswith(UNTESTED) or MAP_TEST.sub("", cell).strip(", ") and tests:
            faults.append(f"{source}: name tests in its row of {TEST_MAP}, or say \"{UNTESTED}REASON\"")
        faults += [f"{source}: {test} does not exist" for test in tests if not (root / "tests" / test).is_file()]
    return faults


class Mirror(unittest.TestCase):
    def test_unit_tests_lie_where_their_sources_lie(self):
        for tests, folder in MIRRORED.items():
            sources = {str(path.relative_to(ROOT / folder).with_suffix("")) for path in (ROOT / folder).rglob("*")
                       if path.suffix in (".h", ".cc")}
            found = [str(path.relative_to(ROOT / "tests" / tests).with_suffix(""))
                     for path in (ROOT / "tests" / tests).rglob("*.cc")]
            self.assertGreater(len(found), 10)
            self.assertEqual([test for test in found if not mirrors_a_source(test, sources)], [])

    def test_a_stray_test_is_noticed(self):
        for test, expected in (("a/x_test", True), ("a/x_more_test", True), ("top_test", True), ("x_test", False),
                               ("a/xy_test", False), ("b/x_test", False)):
            self.assertEqual(mirrors_a_source(test, {"a/x", "top"}), expected, test)

    def test_a_source_has_a_test_of_its_name_or_a_row_in_the_map(self):
        self.assertGreater(len(map_rows((ROOT / TEST_MAP).read_text())), 50)
        self.assertEqual(map_faults(ROOT, (ROOT / TEST_MAP).read_text()), [])

    def test_each_fault_of_the_map_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in ("ib/a.cc", "ib/a_b.cc", "ib/a_b_c.h", "ib/x.cc", "tests/unit/ib/a_b_test.cc",
                         "tests/unit/ib/a_b_c_test.cc", "tests/unit/ib/x_more_test.cc", "tests/pair/y_test.cc"):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).touch()
            self.assertEqual(without_own_test(root), {"ib/a.cc"})
            right = "### ib\n| `a.cc` | `pair/y_test.cc` |\n"
            for text, faults in ((right, 0), (right.replace("`pair/y_test.cc`", "none: no code"), 0), ("", 1),
                                 (right + "| `a.cc` | `pair/y_test.cc` |\n", 1), (right.replace("y_", "z_"), 1),
                                 (right + "| `x.cc` | `pair/y_test.cc` |\n", 1), (right.replace("### ib", ""), 2),
                                 (right.replace("`pair/y_test.cc`", "the others"), 1),
                                 (right.replace("`pair/y_test.cc`", "`pair/y_test.cc`, others"), 1)):
                self.assertEqual(len(map_faults(root, text)), faults, (text, map_faults(root, text)))


class IncludeRules(unittest.TestCase):
    def faults(self, path: str, included: str) -> list[str]:
        """Faults of one file that includes one header, in a tree with some folders that have a header each."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in ("base/a.h", "memory/b.h", "memory/c.h", "transport/d.h", "commands/e.h", "device.h", path):
                file = root / "qemu-hw/core" / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f'#include "{included}"\n' if name == path else "\n")
            return list(include_rules.room_faults(root))

    def test_the_table_has_no_arrow_up(self):
        self.assertEqual(list(include_rules.table_faults()), [])

    def test_the_table_of_the_document_is_what_is_checked(self):
        text = (ROOT / "docs" / "architecture.md").read_text()
        self.assertLessEqual(set(include_rules.FOREIGN) - {"ib"}, set(include_rules.table(text)))
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, source in (("ib/wire/a.h", ""), ("ib/link/b.h", '#include "ib/wire/a.h"\n'),
                                 ("ib/mgmt/c.cc", '#include "ib/link/b.h"\n'), ("docs/architecture.md", text)):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(source)
            said = list(include_rules.faults(root))
            self.assertIn("ib/mgmt/c.cc: #include ib/link/b.h: ib/mgmt may not include ib/link", said)
            self.assertFalse([line for line in said if line.startswith("ib/link")])
            wider = text.replace("| `ib/wire` |\n", "| `ib/wire`, `ib/link` |\n")
            (root / "docs" / "architecture.md").write_text(wider)
            self.assertFalse([line for line in include_rules.faults(root) if line.startswith("ib/")])

    def test_folders_may_include_those_below(self):
        for path, included in (("memory/x.cc", "base/a.h"), ("memory/x.cc", "memory/b.h"), ("x.cc", "commands/e.h"),
                               ("transport/x.cc", "memory/b.h"), ("x.cc", "device.h")):
            self.assertEqual(self.faults(path, included), [], (path, included))

    def test_an_arrow_up_is_noticed(self):
        for path, included in (("base/x.cc", "memory/b.h"), ("memory/x.cc", "transport/d.h"),
                               ("transport/x.cc", "commands/e.h"), ("memory/x.cc", "device.h")):
            self.assertEqual(len(self.faults(path, included)), 1, (path, included))

    def test_a_use_of_the_register_interface_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (("hw-interface/pib_hca_hw.h", ""), ("qemu-hw/core/commands/c.cc", "pib_hca_cmd c;\n"),
                               ("qemu-hw/core/queues/q.h", '#include "pib_hca_hw.h"\n'),
                               ("qemu-hw/core/qp/x.cc", '#include "queues/q.h"\n'),
                               ("qemu-hw/core/port/y.cc", "int a = PIB_HCA_MAX_PORTS;\n")):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            self.assertEqual(len(list(include_rules.interface_faults(root))), 2)

    def test_modules_of_the_lab_that_import_each_other_are_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (("__init__", ""), ("ground", "import re\n"), ("room/__init__", ""),
                               ("room/a", "from lab import ground\nfrom lab.room import b\n"),
                               ("room/b", "def f():\n    from lab.room import a\n    return a\n")):
                (root / "lab" / name).parent.mkdir(parents=True, exist_ok=True)
                (root / "lab" / f"{name}.py").write_text(text)
            self.assertEqual(len(list(include_rules.circle_faults(root))), 2)
            (root / "lab/room/b.py").write_text("import lab.ground\n")
            self.assertEqual(list(include_rules.circle_faults(root)), [])

    def test_imports_of_the_lab_lead_down(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (("__init__", ""), ("ci", "from lab.base import ui\nfrom lab.fabric import up\n"),
                               ("base/__init__", ""), ("base/ui", "import re\n"), ("fabric/__init__", ""),
                               ("fabric/up", "from lab.base import ui\nfrom lab.build import cache\n"),
                               ("build/__init__", ""), ("build/cache", "from lab.base.ui import LabError\n")):
                (root / "lab" / name).parent.mkdir(parents=True, exist_ok=True)
                (root / "lab" / f"{name}.py").write_text(text)
            self.assertEqual(list(include_rules.lab_faults(root)), [])
            for name, text in (("base/ui", "from lab.build.cache import entry\n"), ("fabric/up", "import lab.ci\n"),
                               ("build/cache", "def f():\n    from lab import ci\n    return ci\n"),
                               ("attic/old", "from lab.base import ui\n")):
                file = root / "lab" / f"{name}.py"
                file.parent.mkdir(exist_ok=True)
                kept = file.read_text() if file.exists() else None
                file.write_text(text)
                self.assertEqual(len(list(include_rules.lab_faults(root))), 1, name)
                if kept is None:
                    file.unlink()
                else:
                    file.write_text(kept)

    def test_the_labs_readme_has_its_rooms_in_their_order(self):
        rooms = re.findall(r"^\| \[(\w+)\]\(#\1\) \|", (ROOT / "lab" / "README.md").read_text(), re.MULTILINE)
        self.assertEqual(rooms, [room for room in include_rules.LAB if room])

    def test_an_unknown_room_and_a_short_path_are_noticed(self):
        self.assertEqual(len(self.faults("attic/x.cc", "base/a.h")), 1)
        self.assertEqual(len(self.faults("memory/x.cc", "b.h")), 1)


class Parser(unittest.TestCase):
    def test_functions_are_found(self):
        found = [(function.name, function.lines) for function in functions.in_c(CPLUSPLUS)]
        self.assertEqual(found, [("B", 3), ("g", 1), ("f", 8), ("lambda", 1), ("k", 4)])

    def test_one_line_more_is_noticed(self):
        for extra, expected in ((67, []), (68, ["f"]), (69, ["f"])):
            text = "int f()\n{\n" + "    g();\n" * extra + "}\n"
            found = [function.name for function in functions.in_c(text)
                     if function.lines > MOST_FUNCTION_LINES]
            self.assertEqual(found, expected)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ROOT = pathlib.Path(sys.argv.pop())
    unittest.main(argv=sys.argv[:1])
