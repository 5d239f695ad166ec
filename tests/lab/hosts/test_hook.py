# SPDX-License-Identifier: GPL-2.0-or-later
"""The hook of libvirt, with a systemctl that notes its words."""

import os
import subprocess

import pytest

from lab.base import paths

MINE = '<domain>\n  <metadata>\n    <pib:switch xmlns:pib="urn:pib-hca:libvirt">pib-0a1b</pib:switch>\n' \
       "  </metadata>\n</domain>\n"


@pytest.fixture(name="call")
def _call(tmp_path):
    """Calls the hook as libvirt does; returns its exit status and the words of the hook's calls of systemctl."""
    hook, told, program = tmp_path / "hook", tmp_path / "told", tmp_path / "systemctl"
    hook.write_text((paths.ROOT / "packaging/libvirt/pib-switch").read_text().replace("/run/", f"{tmp_path}/"))
    program.write_text(f'#!/bin/sh\necho "$*" >>{told}\ntest ! -e {tmp_path}/fail\n')
    program.chmod(0o755)

    def call(domain, operation, text=MINE):
        told.write_text("")
        done = subprocess.run(["sh", hook, domain, operation, "begin", "-"], input=text, text=True, check=False,
                              env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
        return done.returncode, told.read_text()
    return call


def test_the_switch_runs_from_the_first_domain_to_the_last(call):
    started, stopped = "start pib-switch@pib-0a1b.service\n", "stop pib-switch@pib-0a1b.service\n"
    assert call("pib-0a1b-vm0", "prepare") == (0, started)
    assert call("pib-0a1b-vm1", "prepare") == (0, started)
    assert call("pib-0a1b-vm0", "started") == (0, "")
    assert call("pib-0a1b-vm0", "release") == (0, "")
    assert call("pib-0a1b-vm0", "release") == (0, "")
    assert call("pib-0a1b-vm1", "release") == (0, stopped)


def test_other_domains_are_left_alone(call):
    for text in ("<domain/>", "", MINE.replace("pib-0a1b", "pib-../../x"), MINE.replace("urn:pib-hca", "urn:other")):
        assert call("other", "prepare", text) == (0, "")
        assert call("other", "release", text) == (0, "")


def test_a_domain_whose_switch_does_not_start_is_refused(call, tmp_path):
    (tmp_path / "fail").touch()
    assert call("pib-0a1b-vm0", "prepare")[0] != 0
