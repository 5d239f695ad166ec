# SPDX-License-Identifier: GPL-2.0-or-later
"""Guest images: their trees, releases, and kernels with checks."""

import pytest

from lab.base import ui
from lab.build import debian, debug_kernel, image


def test_an_option_that_the_kernel_drops_is_an_error():
    wanted = "# why\nCONFIG_A=y\nCONFIG_B=\"x\"\n"
    assert debug_kernel.missing(wanted, "CONFIG_B=\"x\"\n# CONFIG_A is not set\n") == ["CONFIG_A=y"]
    assert not debug_kernel.missing(wanted, "CONFIG_A=y\nCONFIG_B=\"x\"\nCONFIG_C=y\n")


def test_a_new_tree_comes_through_the_proxy_of_this_machines_apt(monkeypatch, tmp_path):
    """Debian's installer writes a proxy into /etc/apt/apt.conf; mmdebstrap reads that file of the new tree only."""
    (tmp_path / "apt-config").write_text("""#!/bin/sh
cat <<'EOF'
Acquire "";
Acquire::http "";
Acquire::http::Proxy "http://proxy:3128/";
Acquire::http::proxy::mirror.lan "DIRECT";
Acquire::https::Proxy "";
Acquire::Languages "none";
EOF
""")
    (tmp_path / "apt-config").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    ran = []
    monkeypatch.setattr(ui, "run", lambda _title, argv, _log: ran.extend(argv))
    image.bootstrap("making a tree", ["a"], tmp_path / "tree", [], "trixie", debian.Archive(tmp_path / "apt", []))
    assert [word for word in ran if "::proxy" in str(word).lower()] == [
        '--aptopt=Acquire::http::Proxy "http://proxy:3128/"', '--aptopt=Acquire::http::proxy::mirror.lan "DIRECT"']


def test_a_new_tree_comes_from_a_mirror_with_a_password_and_a_key_of_its_own(monkeypatch, tmp_path):
    """mmdebstrap reads the passwords of the new tree only. Later, apt in the tree needs the key."""
    monkeypatch.setattr(debian, "keyring", lambda _uri: "/etc/apt/keyrings/own.gpg")
    monkeypatch.setattr(debian, "passwords", lambda: ['Dir::Etc::netrc "/etc/apt/auth.conf"'])
    ran = []
    monkeypatch.setattr(ui, "run", lambda _title, argv, _log: ran.extend(argv))
    lists = debian.Archive(tmp_path / "apt", [debian.Suite("http://mirror", "trixie", "Debian")], ("deb",))
    image.bootstrap("making a tree", ["a"], tmp_path / "tree", [], "trixie", lists)
    assert '--aptopt=Dir::Etc::netrc "/etc/apt/auth.conf"' in ran
    assert '--setup-hook=install -D -m 644 /etc/apt/keyrings/own.gpg "$1"/etc/apt/keyrings/own.gpg' in ran
    assert ran[-1] == "deb [signed-by=/etc/apt/keyrings/own.gpg] http://mirror trixie main"


def test_an_unknown_guest_release_is_refused(monkeypatch):
    monkeypatch.setenv(image.VARIABLE, "woody")
    with pytest.raises(ui.LabError, match="bookworm"):
        image.directory()


def test_each_release_has_an_image_of_its_own(monkeypatch):
    names = set()
    for release in image.RELEASES:
        monkeypatch.setenv(image.VARIABLE, release)
        names.add(image.directory())
    assert len(names) == len(image.RELEASES)
