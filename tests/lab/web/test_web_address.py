# SPDX-License-Identifier: GPL-2.0-or-later
"""The address of the page of ./pib web: where it is printed, and wrong addresses."""

import io
import socket
import subprocess
import sys
import types

import pytest

from lab.base import paths, ui
from lab.fabric import switch_process
from lab.web import server

PATIENCE_S = 60


@pytest.mark.parametrize("terminal", [True, False])
def test_the_address_goes_to_a_terminal_beside_its_file(tmp_path, monkeypatch, terminal):
    said = io.StringIO()
    said.isatty = lambda: terminal                  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", said)
    with server._told("http://here/token/", tmp_path / "page"):     # pylint: disable=protected-access
        assert (tmp_path / "page").read_text() == "http://here/token/\n"
    assert ("token" in said.getvalue()) == terminal and not (tmp_path / "page").exists()


def test_an_address_file_that_cannot_be_written_is_reported(tmp_path):
    done = subprocess.run([paths.ROOT / "pib", "web", "--port", "0", "--control", tmp_path / "none",
                           "--address-file", tmp_path / "nothing" / "file"], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 1 and "--address-file" in done.stderr and "http://" not in done.stderr


def test_an_address_file_that_cannot_be_written_leaves_no_token_behind(tmp_path):
    (tmp_path / "page").mkdir()
    with pytest.raises(ui.LabError, match="--address-file"):
        with server._told("http://here/token/", tmp_path / "page"):     # pylint: disable=protected-access
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


def test_an_address_at_which_it_cannot_listen_is_reported_with_advice():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(ui.LabError, match="Take another port:  ./pib web --port"):
            server.serve(types.SimpleNamespace(), "127.0.0.1", taken.getsockname()[1])
    for address in ("192.0.2.1", "fe80::1"):
        with pytest.raises(ui.LabError, match="Take an IP address of this machine:  ./pib web --address"):
            server.serve(types.SimpleNamespace(), address, 0)


@pytest.mark.parametrize("http_option, said", [
    (("--http", "127.0.0.1:70000"), "the port is 0 to 65535"), (("--http", "[::1"), "expected ADDRESS"),
    (("--http", ":80"), "expected ADDRESS"), (("--http", "[::1]80"), "expected ADDRESS")])
def test_a_wrong_address_of_the_page_is_refused(tmp_path, http_option, said):
    running = switch_process.Switch(tmp_path, http_option)
    done = subprocess.run(running.argv(), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1 and said in done.stderr
