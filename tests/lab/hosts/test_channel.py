# SPDX-License-Identifier: GPL-2.0-or-later
"""The channel to a guest's ssh server copies both ways in one thread. The class Libvirt replaces libvirt; its streams
transfer few bytes at a time."""

import os
import select
import types

import pytest

from lab.hosts import channel

PART = 1000


class Libvirt(types.ModuleType):
    """libvirt's event loop with one watch of a file and one stream, which leads to two pipes."""
    VIR_EVENT_HANDLE_READABLE = VIR_STREAM_EVENT_READABLE = 1
    VIR_STREAM_EVENT_WRITABLE, VIR_STREAM_EVENT_ERROR, VIR_STREAM_EVENT_HANGUP = 2, 4, 8
    libvirtError = ValueError

    def __init__(self, to_guest: int, from_guest: int):
        super().__init__("libvirt")
        self.ends = {"to": to_guest, "from": from_guest}
        self.wanted = {"file": 0, "stream": 0}
        self.calls = {}
        self.sends = 0

    # -- event loop -----------------------------------------------------------

    def virEventAddHandle(self, file, events, call, _opaque):   # pylint: disable=invalid-name
        self.wanted["file"], self.calls["file"] = events, lambda: call(7, file, 1, None)
        self.ends["input"] = file
        return 7

    def virEventUpdateHandle(self, watch, events):              # pylint: disable=invalid-name
        assert watch == 7
        self.wanted["file"] = events

    def virEventRunDefaultImpl(self):                           # pylint: disable=invalid-name
        readers = [self.ends["input"]] * bool(self.wanted["file"]) + [self.ends["from"]]
        writers = [self.ends["to"]] * bool(self.wanted["stream"] & self.VIR_STREAM_EVENT_WRITABLE)
        read, write, _ = select.select(readers, writers, [], 20)
        assert read or write, "the channel waits for nothing"
        if self.ends["input"] in read:
            self.calls["file"]()
        if events := (self.ends["from"] in read) | 2 * bool(write):
            self.calls["stream"](events)

    # -- stream ---------------------------------------------------------------

    def eventAddCallback(self, events, call, _opaque):          # pylint: disable=invalid-name
        self.wanted["stream"], self.calls["stream"] = events, lambda found: call(self, found, None)

    def eventUpdateCallback(self, events):                      # pylint: disable=invalid-name
        self.wanted["stream"] = events

    def send(self, data: bytes) -> int:
        self.sends += 1
        return channel.NOT_NOW if self.sends % 2 else os.write(self.ends["to"], data[:PART])

    def recv(self, most: int):
        if not select.select([self.ends["from"]], [], [], 0)[0]:
            return channel.NOT_NOW
        return os.read(self.ends["from"], min(most, PART))


@pytest.fixture(name="pipes")
def _pipes(monkeypatch):
    """Pipes for standard input and output, to the guest and from it; each as its end to read and its end to write."""
    made = {name: os.pipe() for name in ("input", "output", "to", "from")}
    monkeypatch.setattr(channel, "INPUT", made["input"][0])
    monkeypatch.setattr(channel, "OUTPUT", made["output"][1])
    yield made
    for end in {end for ends in made.values() for end in ends}:
        try:
            os.close(end)
        except OSError:
            pass                    # a test has closed it


def _run(pipes) -> Libvirt:
    libvirt = Libvirt(pipes["to"][1], pipes["from"][0])
    channel.Copier(libvirt, libvirt).run()
    return libvirt


@pytest.mark.parametrize("begin, end", [("from", "output"), ("input", "to")])
def test_all_bytes_arrive_in_order_before_the_end(pipes, begin, end):
    """The stream takes and gives a part at a time."""
    sent = os.urandom(10 * PART)
    os.write(pipes[begin][1], sent)
    os.close(pipes[begin][1])
    _run(pipes)
    assert os.read(pipes[end][0], 1 << 16) == sent


def test_a_stream_with_nothing_to_send_is_not_asked_to_take_more(pipes):
    os.write(pipes["input"][1], b"SSH-2.0")
    os.close(pipes["input"][1])
    libvirt = _run(pipes)
    assert libvirt.wanted["stream"] == libvirt.VIR_STREAM_EVENT_READABLE | 4 | 8


def test_an_error_of_the_stream_ends_the_channel(pipes, monkeypatch):
    def refuse(_self, _data):
        raise ValueError("broken")
    monkeypatch.setattr(Libvirt, "send", refuse)
    os.write(pipes["input"][1], b"SSH-2.0")
    _run(pipes)
