# SPDX-License-Identifier: GPL-2.0-or-later
"""The console of a guest on another host. The classes here replace libvirt's."""

import types

import pytest

from lab.hosts import guest

PATIENCE_S = 60
FORCE = 1


class Failure(Exception):
    pass


class Stream:
    """A stream of a console that ends after some text. end: the error of its end; None: none."""

    def __init__(self, text: list[bytes], end: Exception | None = None):
        self.unread, self._end = text, end

    def recv(self, _most):
        if self.unread:
            return self.unread.pop(0)
        if self._end:
            raise self._end
        return b""


class Domain:
    """A domain that lives until all its streams have ended. streams: one for each console that is opened; an error
    refuses the console."""

    def __init__(self, streams: list[Stream | Exception]):
        self._streams = streams
        self.flags: list[int] = []

    def lookupByName(self, _name):                          # pylint: disable=invalid-name
        return self

    def newStream(self, _flags):                            # pylint: disable=invalid-name
        return types.SimpleNamespace()

    def openConsole(self, _device, stream, flags):          # pylint: disable=invalid-name
        self.flags.append(flags)
        found = self._streams.pop(0)
        if isinstance(found, Exception):
            raise found
        stream.recv = found.recv

    def isActive(self):                                     # pylint: disable=invalid-name
        return bool(self._streams)


@pytest.fixture(name="copied")
def _copied(tmp_path, monkeypatch):
    """Copies the console of a domain; returns the file."""
    monkeypatch.setattr(guest.connection, "library", lambda: types.SimpleNamespace(
        libvirtError=Failure, VIR_DOMAIN_CONSOLE_FORCE=FORCE))
    monkeypatch.setattr(guest, "LOOK_S", 0.001)
    threads = []
    real = guest.threading.Thread
    monkeypatch.setattr(guest.threading, "Thread", lambda **how: threads.append(real(**how)) or threads[-1])

    def copy(domain: Domain, file=tmp_path / "vm0.console"):
        guest._copy_console(domain, "pib-x-vm0", file)      # pylint: disable=protected-access
        threads[-1].join(PATIENCE_S)
        assert not threads[-1].is_alive()
        return file
    return copy


def test_the_console_is_copied_again_after_the_user_had_it(copied):
    """Another session is refused while that of the user lasts."""
    taken = Failure("Active console session exists for this domain")
    domain = Domain([Stream([b"boot ", b"ready "], Failure("closed")), taken, taken, Stream([b"more"])])
    assert copied(domain).read_bytes() == b"boot ready more"
    assert domain.flags == [FORCE, 0, 0, 0]                 # the lab's second session does not end that of the user


def test_a_full_disk_loses_text_and_not_the_console(copied):
    stream = Stream([b"lost", b"lost"])
    copied(Domain([stream]), "/dev/full")
    assert not stream.unread


def test_a_console_that_cannot_be_opened_is_an_error(copied):
    with pytest.raises(Failure):
        copied(Domain([Failure("no console")]))
