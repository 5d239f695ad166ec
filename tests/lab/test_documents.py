# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands in documents: ./pib accepts each of them, and each block of the README and the user guide is run by a test
or has a reason."""

import contextlib
import functools
import io
import pathlib
import re
import shlex
import subprocess
import xml.etree.ElementTree as xml

import pytest

from lab import __main__ as command_line
from lab import settings
from lab.base import paths
from lab.build import qemu_headers
from lab.guests import libvirt_xml, vm

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`]+)`")
COMMAND = re.compile(r"\./pib(?=[ \n]|$)(?:\\\n|[^\n])*")
# Placeholders in commands, with a value for each.
STAND_IN = {"N": "2", "MIB": "2", "SECONDS": "2", "DAYS": "2", "FORMAT": "raw", "PART": "unit", "COMMAND": "up"}
PLACE = re.compile(rf"\b(?:{'|'.join(STAND_IN)})\b")
# Errors that are not faults: a sentence may name a command or an option without its arguments.
MENTIONED = ("the following arguments are required", "expected one argument", "expected at least one argument")
ENDS = re.compile(r"[|&;<>()]+")
GUIDE = paths.ROOT / "docs" / "user-guide.md"
README = paths.ROOT / "README.md"
OUTPUT = "output"
# Code blocks by their first line, with the test that runs each: a file in tests/ and a name in it. If no test runs a
# block unchanged, the reason follows the most similar test. OUTPUT: the block has no commands.
BLOCKS = {README: {
    "./pib up  ": "guest/test_readme.py test_up_prints_what_the_readme_shows",
    "node  HCA": OUTPUT,
    "podman build": "packages/test_container.py test_without_arguments_it_shows_the_table_without_a_network; by "
                    "buildah, because podman run needs control groups, which the test's machine may lack",
    "./pib up -n 4": "guest/test_readme.py test_the_first_steps",
    "./pib exec vm0 -- ib_write_bw": "guest/test_readme.py test_programs_in_two_terminals",
    "./pib exec vm0 -- rping": "guest/test_readme.py test_programs_in_two_terminals",
}, GUIDE: {
    "python3 -I -B": "lab/test_documents.py test_the_device_is_configured_as_the_guide_says; ninja compiles what "
                     "./pib build compiles",
    "build/fabric-switch/pib-switch": "qemu/test_guide.py test_a_machine_joins_a_switch_without_the_lab",
    "make -C guest-driver": "packages/test_guest_packages.py test_a_guest_of_packages_alone_works; DKMS runs this "
                            "Makefile there, natively, as an emulated processor compiles for too long",
    "sudo apt-get build-dep": "packages/test_packages.py test_a_user_brings_a_subnet_up_without_a_compiler; without "
                              "sudo, in a clean tree",
    "echo 'deb ": "packages/test_packages.py test_a_user_brings_a_subnet_up_without_a_compiler; with the mirror of the "
                  "test's machine",
    "podman build": "packages/test_container.py test_without_arguments_it_shows_the_table_without_a_network; as that "
                    "of the README",
    "./pib exec vm0 -- 'mpirun": "guest/test_own_work.py test_mpi_runs_over_the_fabric; with another program",
    "./pib exec vm0 -- 'UCX": "guest/test_own_work.py test_ucx_in_two_terminals",
    "nodes = 4": "lab/test_documents.py test_the_project_file_of_the_guide_is_read",
    "RIP: 0010": OUTPUT,
    "./pib gdb vm1": "debug/test_debuggers.py test_gdb_stops_in_the_drivers_post_send_and_prints_the_wqe; the same "
                     "commands of gdb, and others between them",
    "0000:01:00.0": OUTPUT,
    "./pib wireshark": "guest/test_capture.py test_tshark_captures_a_qp_at_a_port_of_the_running_lab; with a number of "
                       "packets, after which tshark ends",
    "mmdebstrap": "packages/test_own_image.py test_guests_are_a_subnet_with_the_drivers_of_the_packages",
    "./pib libvirt-xml": "packages/test_libvirt.py test_a_domain_lives_on_the_fabric; in a libvirtd of the test's own, "
                         "with a kernel, as the disk has no boot loader",
    "virsh qemu-monitor-command": "lab/test_documents.py test_the_domains_device_is_found_as_the_guide_says; "
                                  "packages/test_libvirt.py gives the commands to virsh",
    "./pib up --connect": "packages/test_hosts.py test_the_guests_are_one_subnet; with the URIs of the test's hosts",
    "apt install libvirt": "packages/test_hosts.py test_each_host_runs_its_guest_and_a_switch; the test puts the "
                           "packages' files there, because its hosts are namespaces without systemd",
}}


def documents() -> list[pathlib.Path]:
    return sorted([*paths.ROOT.glob("*.md"), *(paths.ROOT / "docs").glob("*.md"),
                   *(paths.ROOT / "examples").glob("*/README.md")])


def commands(code: list[str]) -> set[str]:
    return {found.replace("\\\n", " ").strip() for part in code for found in COMMAND.findall(part)}


def in_blocks(text: str) -> set[str]:
    return commands([body for _, body in FENCE.findall(text)])


def in_sentences(text: str) -> set[str]:
    return commands([" ".join(code.split()) for code in INLINE.findall(FENCE.sub("", text.replace("\\|", "|")))])


def words(command: str) -> list[str]:
    """Words of pib's command line, with those in brackets."""
    if not re.search(r"[\"']", command):
        command = PLACE.sub(lambda found: STAND_IN[found[0]], re.sub(r"[\[\]…]", "", command))
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, "#"
    found = []
    for word in lexer:
        if ENDS.fullmatch(word):
            break
        found.append(word)
    return found[1:]


@functools.cache
def parser():
    return command_line.parser()


def refusal(command: str) -> str:
    """The error message of argparse; "" if it accepts the command."""
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
        try:
            parser().parse_args(words(command))
        except SystemExit as ended:
            return said.getvalue() if ended.code else ""
    return ""


def refused(text: str) -> list[str]:
    """Commands of a document that pib refuses, with the error messages."""
    whole = [(command, refusal(command)) for command in sorted(in_blocks(text))]
    named = [(command, said) for command in sorted(in_sentences(text))
             if not any(reason in (said := refusal(command)) for reason in MENTIONED)]
    return [f"{command}: {said}" for command, said in (*whole, *named) if said]


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(paths.ROOT)))
def test_pib_accepts_each_command_of_a_document(path):
    assert not refused(path.read_text())


@pytest.mark.parametrize("text", ["`./pib upp`", "```sh\n./pib up --no-such-option\n```", "a `./pib map x` b",
                                  "```\n./pib exec\nx=$(./pib shell)\n```", "`./pib test no-such-part`",
                                  "```\n./pib cp FILE… vm0:/tmp\n./pib clean --unused x\n```"])
def test_a_wrong_command_is_noticed(text):
    assert len(refused(text)) == 1


def test_commands_are_found():
    text = ("```sh\ncd x; ./pib exec vm0 -- 'a; b' | less   # c\nPIB=1 ./pib up \\\n  -n 2\n```\n"
            "`./pib top [--interval\nSECONDS]`, `./pib why [NODE\\|PORT]`")
    assert [words(command) for command in sorted(in_blocks(text))] == [["exec", "vm0", "--", "a; b"], ["up", "-n", "2"]]
    assert [words(command) for command in sorted(in_sentences(text))] == [["top", "--interval", "2"], ["why", "NODE"]]
    assert refused("`./pib`, `./pib cp`, `./pib up --image`, `./pib COMMAND --help`") == []


def unknown_to_the_switch(text: str) -> list[str]:
    """Commands of ./pib ctl in a document that pib-switch does not know, by the names in its source. The parser of pib
    passes them on unread."""
    source = (paths.ROOT / "fabric-switch" / "options.cc").read_text()
    verbs = {"up", *re.findall(r'add_command\(\*?ctl, options, "(\w+)"', source)}       # "up" stands for COMMAND
    options = {*re.findall(r'"(--[\w-]+)"', source), *(f"--{name}" for name in re.findall(r'^ +\{"([\w-]+)", "',
                                                                                        source, re.MULTILINE))}
    found = []
    for command in sorted(in_blocks(text) | in_sentences(text)):
        given = words(command)
        if given[:1] == ["ctl"] and given[1:] and not refusal(command):
            passed = parser().parse_args(given).words
            found += [command for word in passed[:1] if word not in verbs]
            found += [command for word in passed[1:] if word.startswith("--") and word not in options]
    return found


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(paths.ROOT)))
def test_the_switch_knows_each_command_of_ctl_in_a_document(path):
    assert not unknown_to_the_switch(path.read_text())


@pytest.mark.parametrize("command, wrong", [("link vm1 down", False), ("retrain vm1", True), ("journal", False),
                                            ("fault vm1 --drop 0.1", False), ("fault vm1 --lose 0.1", True)])
def test_a_wrong_command_of_ctl_is_noticed(command, wrong):
    assert unknown_to_the_switch(f"`./pib ctl {command}`") == ([f"./pib ctl {command}"] if wrong else [])


def blocks(path: pathlib.Path) -> list[str]:
    return [body for _, body in FENCE.findall(path.read_text())]


@pytest.mark.parametrize("path", BLOCKS, ids=lambda path: path.name)
def test_each_block_is_run_or_has_a_reason(path):
    listed = BLOCKS[path]
    for body in blocks(path):
        assert sum(body.startswith(begin) for begin in listed) == 1, f"{path.name}: not in BLOCKS, or twice:\n{body}"
    for begin, ran in listed.items():
        assert any(body.startswith(begin) for body in blocks(path)), f"{path.name}: no block begins with {begin}"
        if ran != OUTPUT:
            file, test = ran.split(";")[0].split()
            assert f"\ndef {test}(" in (paths.ROOT / "tests" / file).read_text(), ran


def block(begin: str) -> str:
    return next(body for body in blocks(GUIDE) if body.startswith(begin))


def test_the_project_file_of_the_guide_is_read(tmp_path):
    """All settings are there, with values that are accepted. Some exclude each other, as the guide says."""
    file = tmp_path / "pib.toml"
    file.write_text(block("nodes = 4").replace("../linux", "linux"))
    for name in ("fabric.topo", "disk.qcow2"):
        (tmp_path / name).touch()
    for name in ("programs", "my-driver"):
        (tmp_path / name).mkdir()
    project = settings.read(file)
    told = re.findall(r"# .*or: ([\w-]+) =", file.read_text())
    assert {*project.values, *told} == set(settings.SETTINGS) and project.hca == "ports=2,link-speed=hdr"


def test_the_tutorial_names_the_engines_that_tests_run():
    tests = (paths.ROOT / "tests" / "guest" / "test_topology.py").read_text()
    (engines,) = re.findall(r'parametrize\("engine", (.*?)\)\)\]\)', tests, re.DOTALL)
    run = set(re.findall(r'"([\w-]+)"', engines))
    text = (paths.ROOT / "docs" / "tutorial-subnet.md").read_text()
    assert "nue" in run and run <= set(INLINE.findall(FENCE.sub("", text)))


def test_the_guide_has_the_examples_of_the_package():
    file = paths.ROOT / "debian" / "pib-hca-doc.examples"
    packaged = re.findall(r"^examples/(\S+)", file.read_text(), re.MULTILINE)
    row = re.search(r"^\| `pib-hca-doc` \| (.*)$", GUIDE.read_text(), re.MULTILINE)
    assert packaged and set(packaged) == set(INLINE.findall(row[1]))


def test_the_device_is_configured_as_the_guide_says(tmp_path):
    first, second = block("python3 -I -B").splitlines()
    subprocess.run(["sh", "-ec", first], cwd=paths.ROOT, check=True)
    assert second == "meson setup build && ninja -C build" and qemu_headers.ensure().is_dir()
    subprocess.run(["meson", "setup", tmp_path / "build"], cwd=paths.ROOT, check=True)
    said = subprocess.run(["meson", "introspect", "--targets", tmp_path / "build"], check=True, text=True,
                          capture_output=True).stdout
    assert "libpib-hca.so" in said


def test_the_domains_device_is_found_as_the_guide_says(tmp_path):
    hca = vm.default_hca(32, "unix:/run/pib-switch/lab/fabric")
    top = xml.Element("domain")
    libvirt_xml.add_hca(top, hca, vm.MODULE)
    xml.indent(top)
    (tmp_path / "domain.xml").write_text(xml.tostring(top, encoding="unicode"))
    script = block("virsh qemu-monitor-command").replace("virsh ", "printf '%s\\n' ")
    said = subprocess.run(["sh", "-ec", script], cwd=tmp_path, check=True, text=True, capture_output=True).stdout
    lines = said.splitlines()
    assert f"device_del hca{libvirt_xml.SLOT}" in lines and f"device_add {hca.argv(libvirt_xml.SLOT)[3]}" in lines


def test_the_guide_has_all_environment_variables():
    """Strings of lab/ that consist of a name, or set a variable, are its variables. tests/guest/conftest.py reads one
    more."""
    named = re.compile(r"""["'](PIB_(?!HCA)[A-Z_]*[A-Z])["']|\b(PIB_(?!HCA)[A-Z_]*[A-Z])=""")
    sources = "".join(file.read_text() for file in sorted((paths.ROOT / "lab").rglob("*.py")))
    found = {name for pair in named.findall(sources) for name in pair if name} | {"PIB_TEST_KEEP"}
    rows = re.findall(r"^\| (`[A-Z_`, ]+) \|", GUIDE.read_text(), re.MULTILINE)
    listed = set(re.findall(r"PIB_[A-Z_]+", "".join(rows)))
    assert "PIB_GUEST" in found and found == listed
