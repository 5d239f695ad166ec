# SPDX-License-Identifier: GPL-2.0-or-later
"""Settings of ./pib up: the command line wins over pib.toml, and each mistake is named with its place."""

import argparse
import os
import pathlib
import re
import stat
import sys

import pytest

from checkouts import pib
from lab import settings
from lab.base import paths, ui
from lab.build import cache, image
from lab.fabric import topology_kinds
from lab.guests import guest_kernel, hca_properties, vm

sys.path.insert(0, str(paths.ROOT / "packaging"))
import manpage  # noqa: E402  pylint: disable=wrong-import-position

WHOLE = """# the fabric of our tests
nodes = 4
topology = "fabric.topo"
split = 2
packages = [
  "fio",
  "openmpi-bin",
]
share = "programs"
kernel = "debian"
guest = "bookworm"
memory = 2048
cpus = 2
iommu = true
peer-copy = true
record = "run.rec"

[hca]
ports = 2
link-speed = "hdr"
shared-memory = false
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """An empty working directory, and an environment that is restored."""
    monkeypatch.chdir(tmp_path)
    for variable in (image.VARIABLE, guest_kernel.VARIABLE):
        monkeypatch.setenv(variable, "x")
        monkeypatch.delenv(variable)


def write(text, name="pib.toml"):
    pathlib.Path(name).write_text(text)


def short(value):
    """A short name for a test, because pytest puts it into the environment."""
    return str(value)[:60]


def settled(*words):
    parser = argparse.ArgumentParser()
    settings.add_options(parser)
    return settings.settle(parser.parse_args(words))


def test_without_a_file_there_are_defaults():
    wanted = settled()
    assert wanted.count == 2 and wanted.size == vm.Size() and not wanted.packages and not wanted.share
    assert wanted.fabric_file is None and wanted.switch_processes == 1 and wanted.hca_options == ""
    assert image.release() == "trixie" and guest_kernel.chosen() == "debian"


def test_the_environment_chooses_the_guests_release(monkeypatch):
    monkeypatch.setenv(image.VARIABLE, "bookworm")
    settled()
    assert image.release() == "bookworm"


def test_every_setting_of_a_file_is_read(tmp_path):
    (tmp_path / "sub" / "programs").mkdir(parents=True)
    (tmp_path / "sub" / "fabric.topo").write_text(topology_kinds.make("star", ["leaves=2"], "4xEDR"))
    write(WHOLE, "sub/pib.toml")
    wanted = settled("--project", "sub/pib.toml")
    assert wanted.count == 4 and wanted.size == vm.Size(2048, 2, True) and wanted.packages == ("fio", "openmpi-bin")
    assert wanted.share == tmp_path / "sub" / "programs" and wanted.fabric_file.samefile("sub/fabric.topo")
    assert wanted.switch_processes == 2 and image.release() == "bookworm"
    assert wanted.record == tmp_path / "sub" / "run.rec"
    assert wanted.hca_options == "ports=2,link-speed=hdr,shared-memory=off," + vm.PEER_COPY


@pytest.mark.parametrize("words, where", [([], "pib.toml:2: packages: "), (["--package", "no-such"], "")])
def test_a_package_that_debian_does_not_have_is_named_with_its_line(tmp_path, monkeypatch, words, where):
    write("nodes = 1\npackages = ['fio', 'no-such']\n")
    wanted = settled(*words)

    def fails(*_):
        raise ui.LabError("…\nE: Unable to locate package no-such\n…")
    monkeypatch.setattr(image, "identity", lambda _base: "")
    monkeypatch.setattr(cache, "entry", lambda _name, make: make(tmp_path))
    monkeypatch.setattr(image, "package_lists", lambda _made: None)
    monkeypatch.setattr(image, "bootstrap", fails)
    with pytest.raises(ui.LabError, match=f"^{where}Debian's component main of trixie has no package no-such. Search"):
        wanted.disk(tmp_path)


def test_the_file_of_the_working_directory_is_read(capfd):
    write("nodes = 3\n")
    assert settled().count == 3
    assert "settings of pib.toml" in capfd.readouterr().err


@pytest.mark.parametrize("owner, sudo, refused", [(12345, "0", True), (12345, "12345", False), (0, "0", False),
                                                  (12345, "", True), (12345, "someone", True), (0, "", False)])
def test_a_file_of_another_user_is_read_only_if_it_is_named(monkeypatch, owner, sudo, refused):
    """The file's owner is root, or an ordinary user who is or is not the user of sudo."""
    write("nodes = 3\n")
    monkeypatch.setenv("SUDO_UID", sudo)
    for name in ("stat", "lstat"):
        monkeypatch.setattr(pathlib.Path, name, _owned_by(owner, getattr(pathlib.Path, name)))
    monkeypatch.setattr(os, "fstat", _owned_by(owner, os.fstat))
    if refused:
        with pytest.raises(ui.LabError, match="another user's.*--project pib.toml"):
            settled()
    assert settled(*(["--project", "pib.toml"] if refused else [])).count == 3


def test_the_owner_is_that_of_the_file_which_is_read(monkeypatch):
    """A user who may write in the directory can exchange the file at any time."""
    write("nodes = 3\n")
    monkeypatch.setattr(os, "fstat", _owned_by(4711, os.fstat))
    with pytest.raises(ui.LabError, match="another user's.*--project pib.toml"):
        settled()


def _owned_by(owner, looked):
    def look(path, **options):
        found = list(looked(path, **options))
        found[stat.ST_UID] = owner
        return os.stat_result(found)
    return look


def test_options_win_over_the_file():
    write('nodes = 3\ncpus = 2\npackages = ["fio"]\n[hca]\nports = 2\n')
    wanted = settled("-n", "5", "--hca-options", "ports=1", "--package", "strace,gdb", "--package", "gcc")
    assert wanted.count == 5 and wanted.size.cpus == 2 and wanted.hca_options == "ports=1"
    assert wanted.packages == ("gcc", "gdb", "strace")


@pytest.mark.parametrize("text, said", [
    ("nodes = 2\nnodes", "pib.toml:2: this is not TOML: Expected '='"),
    ("nodes = 2\n\nmemory = 1 1\n", "pib.toml:3: this is not TOML: Expected newline"),
    ("nodes = 2\n\nnodse = 3", "pib.toml:3: nodse: there is no such setting. Settings: nodes, "),
    ("# why\nnodes = 99", "pib.toml:2: nodes: 99: expected 1 to 32"),
    ('nodes = "2"', "pib.toml:1: nodes: expected a number"), ("nodes = true", "pib.toml:1: nodes: expected a number"),
    ("memory = 5", "pib.toml:1: memory: 5: expected at least 256"), ("cpus = 0", "cpus: 0: expected 1 to 64"),
    ("peer-copy = 1", "peer-copy: expected true or false"), ("kernel = 'best'", "kernel: best: expected one of debian"),
    ("guest = 'woody'", "pib.toml:1: guest: woody: expected one of trixie"),
    ("topology = 'none'", "pib.toml:1: topology: none: no such file"),
    ("record = 'none/run.rec'", "pib.toml:1: record: none/run.rec: no file can be made there"),
    ("share = 'none'", "pib.toml:1: share: none: no such directory"),
    ("packages = ['a', 1]", "packages: expected a list of texts"), ("packages = 'a'", "packages: expected a list"),
    ("packages = ['--help']", "pib.toml:1: packages: .*'--help' is not the name of a package"),
    ("packages = ['a,b']", "'a,b' is not the name of a package"), ("split = 2", "split is a number of processes"),
    ("hca = 3", "pib.toml:1: hca: expected a table"), ("[hca]\n\nports = [1]", "pib.toml:3: ports: expected a number"),
    ("[hca]\nlink-speed = 'a,b'", "pib.toml:2: link-speed: expected a number"),
    ("[hca]\n'Ports' = 1", "pib.toml:2: Ports: -device pib-hca has no such property. Properties: ports, "),
    ("[nodes]\na = 1", "toml:1: nodes: expected a"),
    ("[hca]\nmtu = 4096\nlink-sped = 'hdr'", "pib.toml:3: link-sped: -device pib-hca has no such property"),
    ("[hca]\nlink-speed = 'xdr'", "pib.toml:2: link-speed: xdr: expected one of sdr, ddr, "),
    ("[hca]\nports = 5", "pib.toml:2: ports: 5: expected 1 to 4"), ("[hca]\nports = true", "ports: on: expected 1"),
    ("[hca]\ninject = 2", "pib.toml:2: inject: expected true or false"),
    ("[hca]\nfabric = 'unix:/x'", "pib.toml:2: fabric: the lab sets it for each guest"),
    ("nodes = 2\nhca = { mtu = 4096, ports = 9 }", "pib.toml:2: ports: 9: expected 1 to 4"),
    ("nodes = 2\n\nhca.ports = 9", "pib.toml:3: ports: 9: expected 1 to 4"),
    ("nodes = 2\nsplit = 2", "pib.toml:2: split is a number of processes"),
    ("nodes = 2\nbare = true\n\ndriver = '.'", "pib.toml:4: bare guests have no driver"),
    ("kernel = 'debian'\nkernel-dir = '.'", "pib.toml:2: guests have one kernel"),
    ("nodes = 2\nkernel-dir = '.'", "pib.toml:2: .*not a kernel tree that has been built"),
    ("nodes = 2\nimage = 'pib.toml'\npackages = ['fio']", "pib.toml:3: an image of your own has .*leave out packages"),
    ("connect = ['qemu:///system']\niommu = true", "pib.toml:2: guests on other hosts cannot have iommu"),
    ("nodes = 1\nconnect = ['qemu+ssh://a/system', 'qemu+ssh://b/system']", "pib.toml:2: 2 hosts need as many guests"),
    (f"nodes = 2\nshare = '{'a' * 5000}'", "pib.toml:2: share: a{100}…: "),
    ('nodes = 2\nrecord = "a\\u0000"', "pib.toml:2: record: .*: expected a path"),
    (f"cpus = 1\nnodes = {'9' * 5000}\nx", "pib.toml:2: a number has too many digits"),
    (f"cpus = 1\nnodes = 0x{'f' * 5000}", "pib.toml:2: nodes: expected a number"),
    (f"[hca]\nmtu = 0x{'f' * 5000}", "pib.toml:2: mtu: expected a number"),
    (f"cpus = [\n]\na = {'[' * 20000}\n", "pib.toml:3: lists or tables are nested too deeply"),
    ("nodes = 2\n'a b' = 1", "pib.toml:2: a b: there is no such setting"),
    ('nodes = 2\n"cp\\u0075s" = 99', "pib.toml:2: cpus: 99: expected 1 to 64"),
    ("nodes = 2\n[[hca]]\nports = 1", "pib.toml:2: hca: expected a table"),
    ("nodes = 2\n[hca.x]\nports = 1", "pib.toml:2: x: expected a number"),
    ("nodes = 2\nhca.x.y = 1", "pib.toml:2: x: expected a number"),
    ("# '''\nrecord = '''a\nsplit = 1\n'''\nsplit = 2", "pib.toml:5: split is a number of processes"),
    ("nodes.a = 1", "pib.toml:1: nodes: expected a number"),
    ("x = '" + "x" * (1 << 20), "not a project file")], ids=short)
def test_a_mistake_in_the_file_is_refused_with_line_and_reason(text, said):
    write(text)
    with pytest.raises(ui.LabError, match=said):
        settled()


def test_an_option_that_excludes_a_setting_of_the_file_is_refused(tmp_path):
    (tmp_path / "disk").touch()
    write("nodes = 2\npackages = ['fio']\n")
    with pytest.raises(ui.LabError, match="^pib.toml:2: an image of your own has .*leave out packages"):
        settled("--image", "disk")


@pytest.mark.parametrize("query", ["command=/tmp/x", "keyfile=k&Command=x", "keyfile=k;command=x", "%63ommand=x"])
def test_only_the_command_line_may_name_a_program_in_connect(query):
    """libvirt runs the program on this machine; the file may come with a stranger's sources."""
    uri = f"qemu+ssh://a/system?{query}"
    write(f"nodes = 2\nconnect = ['{uri}']")
    with pytest.raises(ui.LabError, match="^pib.toml:2: connect: .*--connect"):
        settled()
    write("")
    assert [host.uri for host in settled("--connect", uri).hosts] == [uri]


def test_a_mistake_on_the_command_line_is_not_blamed_on_the_file():
    write("bare = true\n")
    with pytest.raises(ui.LabError, match="^pib.toml:1: bare guests have no driver"):
        settled("--driver", ".")
    write("nodes = 2\n")
    with pytest.raises(ui.LabError, match="^split is a number of processes"):
        settled("--split", "2")


def test_properties_are_those_of_the_device():
    """Names, words and limits agree with the source of the device."""
    source = manpage.GLUE.read_text()
    assert {*hca_properties.NAMES, *hca_properties.OF_THE_LAB} == set(manpage.properties())
    switches = re.findall(r'PROP_BOOL\("([\w-]+)"|"([\w-]+)", PibHca, [\w.]+,\s*pib_hca_prop_trace_switch', source)
    assert set(hca_properties.SWITCHES) == {name for pair in switches for name in pair if name} - {"plain-tcp"}
    tables = {name: tuple(re.findall(r'\{"(\w+)"', body)) for name, body in re.findall(
        r"PibHcaChoice (pib_hca_\w+_choices)\[\] = \{(.*?)\n\};", source, re.DOTALL)}
    used = dict(re.findall(r'pib_hca_choose(?:_number)?\(\s*(pib_hca_\w+), "([\w-]+)"', source))
    assert hca_properties.CHOICES == {used[table]: words for table, words in tables.items()}
    limits = "".join((paths.ROOT / file).read_text() for file in ("qemu-hw/glue/pib_hca_glue.h",
                                                                  "hw-interface/pib_hca_regs.h"))
    for name, constant in (("ports", "PIB_HCA_GLUE_PORTS"), ("vectors", "PIB_HCA_MAX_VECTORS")):
        assert hca_properties.RANGES[name] == (1, int(re.search(rf"#define {constant} (\d+)", limits)[1]))
    assert f'"trace-entries=%u: expected 0 to {hca_properties.RANGES["trace-entries"][1]}"' in source


@pytest.mark.parametrize("text, made", [("strict = true", "strict=on"), ("mtu = 256", "mtu=256"),
                                        ("link-speed = 'HDR'", "link-speed=HDR"), ("inject = 'on'", "inject=on"),
                                        ("device-memory = '2M'", "device-memory=2M"), ("poll-us = 0", "poll-us=0")])
def test_values_of_properties_are_checked(text, made):
    write(f"[hca]\n{text}\n")
    assert settled().hca_options == made


@pytest.mark.parametrize("word, option", [("package", "fio"), ("kernel", "debian"), ("guest", "bookworm"),
                                          ("driver", ".")])
def test_an_image_of_the_users_own_excludes_settings_of_the_labs_image(tmp_path, word, option):
    (tmp_path / "disk").touch()
    assert settled("--image", "disk").image_file == tmp_path / "disk"
    with pytest.raises(ui.LabError, match=f"its own kernel, driver and packages: leave out {word}"):
        settled("--image", "disk", f"--{word}", option)
    with pytest.raises(ui.LabError, match="--image none: no such file"):
        settled("--image", "none")


@pytest.mark.parametrize("data, said", [(b"\xff\x00", "pib.toml:1: expected text in UTF-8"),
                                        (b"nodes = 2\n\n# \xc3\n", "pib.toml:3: expected text in UTF-8"),
                                        ("é".encode() * (1 << 20), "not a project file")], ids=short)
def test_a_file_that_is_not_text_or_too_large_is_refused(tmp_path, data, said):
    (tmp_path / "pib.toml").write_bytes(data)
    with pytest.raises(ui.LabError, match=said):
        settled()


@pytest.mark.parametrize("words, said", [
    (["-n", "0"], "--nodes 0: expected 1 to 32"), (["--memory", "1"], "--memory 1: expected at least"),
    (["--package", "A B"], "'A B' is not the name of a package"), (["--share", "none"], "--share none: no such"),
    (["--share", "a" * 5000], "--share a{100}…: "),
    (["--topology", "none"], "--topology none: no such file"), (["--kernel", "x"], "--kernel x: expected one of"),
    (["--split", "2"], "needs a topology"),
    (["--hca-options", "link-sped=hdr"], "--hca-options: link-sped: -device pib-hca has no such property. Propert"),
    (["--hca-options", "mtu=4096,ports=9"], "--hca-options: ports: 9: expected 1 to 4"),
    (["--hca-options", "ports=two"], "ports: two: expected 1 to 4"),
    (["--hca-options", "ports"], "ports: expected NAME=VALUE"),
    (["--hca-options", "a=1,,"], "a: -device pib-hca has no such"),
    (["--hca-options", "inject=2"], "inject: expected true or false"), (["--hca-options", "inject=on,"], "NAME=VALUE"),
    (["--hca-options", "fabric=unix:/x"], "fabric: the lab sets it for each guest")])
def test_a_mistake_in_an_option_is_refused(words, said):
    with pytest.raises(ui.LabError, match=said):
        settled(*words)


@pytest.mark.parametrize("given", ["", "inject=yes,strict=fatal", "node-description=a,,b,ports=0x2", "adversary=7",
                                   "link-speed=HDR,vls=15", "device-memory=2M"])
def test_properties_as_qemu_takes_them_are_passed_on(given):
    assert settled("--hca-options", given).hca_options == given


def test_a_named_file_that_is_missing_is_an_error(checkout, tmp_path):
    done = pib(checkout, "up", "--project", "none.toml", cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.endswith("pib: none.toml: No such file or directory\n")


def test_up_reads_the_file(checkout, tmp_path):
    write("nodes = 0\n")
    done = pib(checkout, "up", cwd=tmp_path)
    assert done.returncode == 1 and "pib.toml:1: nodes: 0: expected 1 to 32" in done.stderr


def test_a_kernel_tree_is_checked_and_replaces_a_kind_of_kernel(tmp_path):
    tree = tmp_path / "linux"
    tree.mkdir()
    with pytest.raises(ui.LabError, match="not a kernel tree that has been built"):
        settled("--kernel-dir", str(tree))
    with pytest.raises(ui.LabError, match="leave out kernel or kernel-dir"):
        settled("--kernel-dir", str(tree), "--kernel", "lockdep")
    with pytest.raises(ui.LabError, match="--kernel-dir .*no such directory"):
        settled("--kernel-dir", str(tree / "absent"))


@pytest.mark.parametrize("text, words, where", [
    ("", ["--kernel", "kasan", "--guest", "bookworm"], ""),
    ("nodes = 1\nguest = 'bookworm'\n", ["--kernel", "kasan"], "pib.toml:2: "),
    ("kernel = 'lockdep'\n", ["--guest", "trixie-backports"], "pib.toml:1: ")])
def test_a_kernel_that_the_release_cannot_have_is_refused_with_its_line(text, words, where):
    write(text)
    with pytest.raises(ui.LabError, match=f"^{where}the (kasan|lockdep) kernel is made for guests of trixie only"):
        settled(*words)


@pytest.mark.parametrize("text, words, said", [
    ("", ["--kernel", "kasan", "--iommu"], "the kasan kernel has no driver for an IOMMU: leave out"),
    ("iommu = true\ncpus = 2\n", ["--kernel", "lockdep"], "pib.toml:1: the lockdep kernel has no driver"),
    ("kernel = 'lockdep'\n", ["--cpus", "9"], "pib.toml:1: the lockdep kernel uses 8 processors at most")])
def test_guests_that_a_kernel_with_checks_does_not_serve_are_refused(text, words, said):
    write(text)
    with pytest.raises(ui.LabError, match=f"^{said}"):
        settled(*words)


def test_the_limits_of_kernels_with_checks_are_not_those_of_others(monkeypatch, tmp_path):
    assert settled("--kernel", "lockdep", "--cpus", "8").size.cpus == 8
    (tmp_path / "disk").touch()
    monkeypatch.setenv(guest_kernel.VARIABLE, "lockdep")
    assert settled("--image", "disk", "--iommu", "--cpus", "9").size == vm.Size(cpus=9, iommu=True)
