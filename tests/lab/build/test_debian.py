# SPDX-License-Identifier: GPL-2.0-or-later
"""Sources come from Debian's archives alone, whatever else this machine's apt has and prefers."""

import os
import pathlib

import pytest

from lab.base import ui
from lab.build import debian, qemu_headers

SUITES = [debian.Suite("cdrom://[Debian 13]/", "trixie", "Debian"),
          debian.Suite("http://mirror/debian", "trixie", "Debian"),
          debian.Suite("http://mirror/debian", "trixie-backports", "Debian Backports"),
          debian.Suite("http://security/debian", "trixie-security", "Debian-Security"),
          debian.Suite("https://download.example/linux/debian", "trixie", "Docker CE")]


def test_qemus_source_comes_from_debians_archives_alone(monkeypatch, tmp_path):
    asked = []

    def archive(_directory, suites):
        asked.extend(suites)
        raise ui.LabError("enough")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(debian, "suites", lambda: SUITES)
    monkeypatch.setattr(debian, "Archive", archive)
    with pytest.raises(ui.LabError, match="enough"):
        qemu_headers.ensure("1:10.0.2+ds-2")
    assert asked == SUITES[1:4]


INDEX_TARGETS = """#!/bin/sh
case "$*" in
*REPO_URI*RELEASE*LABEL*CODENAME*)
    echo "http://archive.debian.org/debian|buster|Debian|buster"
    echo "http://mirror/debian|{name}|Debian|trixie" ;;
esac
"""


@pytest.mark.parametrize("name", ["trixie", "stable"])
def test_the_mirror_is_that_of_the_machines_own_release(monkeypatch, tmp_path, name):
    """apt lists the archive of old releases first, and this archive has no release for guests."""
    (tmp_path / "apt-get").write_text(INDEX_TARGETS.format(name=name))
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(debian, "codename", lambda: "trixie")
    assert debian.mirror() == "http://mirror/debian"


def _setting(env, name):
    """A setting of apt, as apt-config prints it."""
    return debian.output("apt-config", "dump", "--format", "%v%n", name, env=env).strip()


@pytest.mark.parametrize("main", [True, False])
def test_an_archive_ignores_the_machines_default_release(monkeypatch, tmp_path, main):
    """apt refuses a default release that its lists lack. Other settings, such as a proxy, stay."""
    own, parts = tmp_path / "apt.conf", tmp_path / "parts"
    parts.mkdir()
    (parts / "proxy").write_text('Acquire::http::Proxy "http://proxy:1";\nAPT::Default-Release "bookworm";\n')
    if main:
        own.write_text('Acquire::https::Proxy "http://proxy:2";\nAPT::Default-Release "bookworm";\n')
    monkeypatch.setattr(debian, "MAIN", str(own), raising=False)
    archive = debian.Archive(tmp_path / "archive", SUITES[1:2])
    machine = tmp_path / "machine"
    machine.write_text(f'Dir::Etc::parts "{parts}";\nDir::Etc::main "{own}";\n'
                       f'#include "{archive.env["APT_CONFIG"]}";\n')
    env = {**archive.env, "APT_CONFIG": str(machine)}
    assert _setting(env, "APT::Default-Release") == ""
    assert _setting(env, "Acquire::http::Proxy") == "http://proxy:1"
    assert _setting(env, "Acquire::https::Proxy") == ("http://proxy:2" if main else "")


@pytest.fixture(name="etc")
def _etc(monkeypatch, tmp_path):
    """The directory of a machine's apt."""
    monkeypatch.setattr(debian, "ETC", tmp_path / "etc", raising=False)
    (tmp_path / "etc" / "sources.list.d").mkdir(parents=True)
    return tmp_path / "etc"


COMPANY = "/etc/apt/keyrings/company.asc"
STANZAS = """# the company's
Types: deb
URIs: http://mirror/debian/ http://security/debian
Suites: trixie
Components: main
Signed-By: {}

Types: deb
URIs: http://other/debian
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 /WbH2oDCh2gBxsRkA0E8bhQvUSyEr2bQMHkUVDdBhtZjZ5hkDJYNk1JsJQ==
"""


@pytest.mark.parametrize("name, text", [
    ("sources.list", "deb [arch=amd64 signed-by={}] http://mirror/debian trixie main\n"),
    ("sources.list.d/company.list", "deb-src [ signed-by={} ] http://mirror/debian/ trixie main\n"),
    ("sources.list.d/company.sources", STANZAS)])
def test_a_mirror_is_checked_with_the_keyring_of_the_machines_sources(etc, tmp_path, name, text):
    (etc / name).write_text(text.format(COMPANY))
    archive = debian.Archive(tmp_path / "archive", SUITES[1:2], ("deb",))
    assert archive.sources == [f"deb [signed-by={COMPANY}] http://mirror/debian trixie main"]
    assert archive.keyrings == [COMPANY]
    assert debian.keyring("http://other/debian") == debian.KEYRING


@pytest.mark.parametrize("text", [
    "deb http://mirror/debian trixie main\n", "# deb [signed-by=/a.gpg] http://mirror/debian trixie main\n",
    "deb [signed-by=/usr/share/keyrings/debian-archive-trixie-stable.gpg] http://mirror/debian trixie main\n"])
def test_debians_own_keyring_is_the_one_that_each_release_has(etc, text):
    (etc / "sources.list").write_text(text)
    assert debian.keyring("http://mirror/debian/") == debian.KEYRING


def test_a_keyring_of_two_files_is_one_word(etc):
    stanza = "Types: deb\nURIs: http://mirror/debian\nSigned-By: /a.gpg, /b.gpg\n"
    (etc / "sources.list.d" / "a.sources").write_text(stanza)
    assert debian.keyring("http://mirror/debian") == "/a.gpg,/b.gpg"


@pytest.mark.parametrize("name, text", [
    ("sources.list", "deb http://mirror/debian trixie main\n"
                     "deb [signed-by={}] http://mirror/debian company main\n"),
    ("sources.list.d/a.sources", "Types: deb\nURIs: http://mirror/debian\nSuites: trixie\n\n"
                                 "Types: deb\nURIs: http://mirror/debian\nSuites: company\nSigned-By: {}\n")])
def test_suites_of_a_company_on_a_mirror_leave_debians_keyring_for_the_others(etc, name, text):
    (etc / name).write_text(text.format(COMPANY))
    assert debian.keyring("http://mirror/debian") == f"{COMPANY},{debian.KEYRING}"


def test_values_of_several_lines_are_read(etc):
    stanza = f"Types: deb\nURIs:\n http://a/debian\n http://mirror/debian\nSigned-By:\n {COMPANY}\n"
    (etc / "sources.list.d" / "a.sources").write_text(stanza)
    assert debian.keyring("http://mirror/debian") == COMPANY


def test_a_source_that_is_disabled_names_no_keyring(etc):
    stanza = f"Types: deb\nEnabled: no\nURIs: http://mirror/debian\nSigned-By: {COMPANY}\n"
    (etc / "sources.list.d" / "a.sources").write_text(stanza)
    assert debian.keyring("http://mirror/debian") == debian.KEYRING


def test_fingerprints_are_no_keyrings(etc):
    (etc / "sources.list").write_text(f"deb [signed-by={COMPANY},0123456789ABCDEF!] http://mirror/debian trixie main\n")
    assert debian.keyring("http://mirror/debian") == COMPANY


def _deny(monkeypatch, denied, method):
    """Lets a method of a path fail as for a user who must not read it: root may read everything."""
    real = getattr(pathlib.Path, method)

    def refuse(path, *words, **options):
        if path == denied:
            raise PermissionError(path)
        return real(path, *words, **options)
    monkeypatch.setattr(pathlib.Path, method, refuse)
    monkeypatch.setattr(os, "access", lambda path, _mode: path != denied)


def test_sources_that_the_user_must_not_read_are_left_out(etc, monkeypatch):
    file = etc / "sources.list.d" / "secret.list"
    file.write_text("deb [signed-by=/a.gpg] http://user:password@mirror/debian trixie main\n")
    (etc / "sources.list").write_text(f"deb [signed-by={COMPANY}] http://mirror/debian trixie main\n")
    _deny(monkeypatch, file, "read_text")
    assert debian.keyring("http://mirror/debian") == COMPANY


def test_a_folder_of_passwords_that_the_user_must_not_read_is_left_out(etc, monkeypatch):
    """apt also ignores the folder when this user runs it."""
    parts = etc / "auth.conf.d"
    parts.mkdir()
    (parts / "root.conf").touch()
    _deny(monkeypatch, parts, "iterdir")
    assert not debian.passwords()


def test_passwords_of_the_machines_apt_are_named_for_new_trees(etc):
    assert not debian.passwords()
    (etc / "auth.conf.d").mkdir()
    assert not debian.passwords()
    (etc / "auth.conf").write_text("machine http://mirror login a password b\n")
    (etc / "auth.conf.d" / "more.conf").touch()
    assert debian.passwords() == [f'Dir::Etc::netrc "{etc}/auth.conf"', f'Dir::Etc::netrcparts "{etc}/auth.conf.d"']
