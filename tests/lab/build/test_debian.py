# SPDX-License-Identifier: GPL-2.0-or-later
"""Sources come from Debian's archives alone, whatever else this machine's apt has."""

import pytest

from lab import ui
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
