# SPDX-License-Identifier: GPL-2.0-or-later
"""The control socket of a switch."""

import pathlib
import socket
import threading

import pytest

from lab.base import ui
from lab.fabric import control


@pytest.mark.parametrize("path, said", [("/nowhere/control", "No such file"), ("/" + "x" * 200, "too long")])
def test_a_socket_without_a_switch_is_reported_with_the_reason(path, said):
    with pytest.raises(ui.LabError, match=f"no switch answers there .*{said}"):
        control.Control(pathlib.Path(path))


@pytest.mark.parametrize("answer, said", [
    (None, "the switch has not answered nodes within 0.2 s. Look whether it is stopped"),
    (b"", "the switch has ended"), (b"[]\n", "the answer is not an object"),
    (b'{"ok": false, "error": "no"}\n', "nodes: no")])
def test_a_switch_that_gives_no_good_answer_is_reported_with_the_reason(tmp_path, monkeypatch, answer, said):
    monkeypatch.setattr(control, "TIMEOUT_S", 0.2)
    done = threading.Event()

    def serve(listening):
        with listening.accept()[0] as client:
            client.recv(4096)
            if answer is None:
                done.wait(60)
            else:
                client.sendall(answer)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "control"))
        listening.listen()
        server = threading.Thread(target=serve, args=(listening,))
        server.start()
        try:
            with pytest.raises(ui.LabError, match=said), control.Control(tmp_path / "control") as asked:
                asked.ask("nodes")
        finally:
            done.set()
            server.join()


def test_a_switch_that_has_ended_between_two_requests_is_reported(tmp_path):
    """The request that cannot be sent stays in the buffer, and a BrokenPipeError would end the command silently."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "control"))
        listening.listen()
        with pytest.raises(ui.LabError, match="the switch has ended"), control.Control(tmp_path / "control") as asked:
            listening.accept()[0].close()
            asked.ask("nodes")
    assert asked.socket.fileno() == -1
