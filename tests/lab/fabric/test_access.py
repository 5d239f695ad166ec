# SPDX-License-Identifier: GPL-2.0-or-later
"""Peers that join a running switch over TCP: docs/threat-model.md, "Access to the fabric". The test acts as the
device."""

import contextlib
import ctypes
import ctypes.util
import socket
import ssl
import subprocess
import time

import pytest

from lab.base import paths, process, waiting
from lab.fabric import switch_process
from link_frames import WELCOME, WELCOME_BYTES, features_of, hello

PATIENCE_S = 60
DAY_S = 24 * 60 * 60
PEM, SHA256 = 1, 6              # gnutls_x509_crt_fmt_t, gnutls_digest_algorithm_t


def free_port() -> int:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        return server.getsockname()[1]


@contextlib.contextmanager
def running(directory, *options):
    """A switch with these options."""
    switch = switch_process.Switch(directory, options)
    started = process.start(switch.argv(), directory / "log", directory=directory, name="switch")
    try:
        process.wait_for("pib-switch", switch.answers, started, directory / "log", PATIENCE_S)
        yield
    finally:
        started.stop()
        switch.remove_sockets()


def answer(connection: socket.socket, guid: int) -> bytes:
    """The switch's answer to a HELLO; empty if it closes the connection without one."""
    connection.settimeout(PATIENCE_S)
    connection.sendall(hello(guid))
    try:
        return connection.recv(WELCOME_BYTES)
    except (ConnectionError, ssl.SSLError):     # an alert
        return b""


# -- plain TCP ------------------------------------------------------------------

def join(port: int, guid: int, source: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S, (source, 0)) as connection:
        return answer(connection, guid)


@pytest.fixture(name="plain")
def switch_with_plain_tcp(tmp_path):
    port = free_port()
    with running(tmp_path, "--listen", f"tcp:127.0.0.1:{port}"):
        yield port


def test_peers_over_plain_tcp_count_as_one(plain):
    """The port of an absent device is given to another host that says the device's GUIDs."""
    first = join(plain, 0x100, "127.0.0.1")
    assert first[:1] == bytes([WELCOME])

    def admitted():     # refused until the switch has seen the end of the first connection
        second = join(plain, 0x100, "127.0.0.2")
        return second if second[:1] == bytes([WELCOME]) else None

    assert waiting.poll("the port of the first device", admitted, PATIENCE_S) == first


# -- certificates ---------------------------------------------------------------

class Datum(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_uint)]


class Authority:
    """The CA of `pib-switch cert`, which by GnuTLS can do what that command cannot."""

    def __init__(self, directory):
        self.directory = directory
        self.cert("ca")
        self.cert("switch", "one", "--guid", "any", "--host", "127.0.0.1")
        self.gnutls = ctypes.CDLL(ctypes.util.find_library("gnutls"))
        self.certificate = self.loaded("x509_crt", directory / "ca-cert.pem")
        self.key = self.loaded("x509_privkey", directory / "ca-key.pem")

    def cert(self, command, *words):
        subprocess.run([paths.SWITCH, "cert", command, self.directory, *words], check=True)

    def host(self, name):
        """Makes a certificate of a host; returns the context of a client that has it."""
        self.cert("host", name, "--guid", "any")
        return self.client(name)

    def client(self, name):
        files = self.directory / name
        context = ssl.create_default_context(cafile=files / "ca-cert.pem")
        # Python 3.13 requires key identifiers by default, which certificates of pib-switch lack.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.load_cert_chain(files / "client-cert.pem", files / "client-key.pem")
        return context

    def call(self, function, *arguments):
        assert getattr(self.gnutls, f"gnutls_{function}")(*arguments) >= 0, function

    def made(self, kind):
        handle = ctypes.c_void_p()
        self.call(f"{kind}_init", ctypes.byref(handle))
        return handle

    def loaded(self, kind, path):
        text = path.read_bytes()
        handle, buffer = self.made(kind), ctypes.create_string_buffer(text, len(text))
        datum = Datum(ctypes.cast(buffer, ctypes.c_void_p), len(text))
        self.call(f"{kind}_import", handle, ctypes.byref(datum), PEM)
        return handle

    def signed(self, kind, handle, path):
        """Signs the object and writes it to a file."""
        out = Datum()
        self.call(f"{kind}_sign2", handle, self.certificate, self.key, SHA256, 0)
        self.call(f"{kind}_export2", handle, PEM, ctypes.byref(out))
        path.write_bytes(ctypes.string_at(out.data, out.size))

    def revoke(self, name):
        now = int(time.time())
        crl = self.made("x509_crl")
        self.call("x509_crl_set_version", crl, 2)
        self.call("x509_crl_set_this_update", crl, ctypes.c_long(now - 1))
        self.call("x509_crl_set_next_update", crl, ctypes.c_long(now + DAY_S))
        self.call("x509_crl_set_crt", crl, self.loaded("x509_crt", self.directory / name / "client-cert.pem"),
                  ctypes.c_long(now - 1))
        self.signed("x509_crl", crl, self.directory / "one" / "ca-crl.pem")

    def end(self, name):
        """Signs a certificate again as one that was valid until yesterday."""
        path, now = self.directory / name / "client-cert.pem", int(time.time())
        certificate = self.loaded("x509_crt", path)
        self.call("x509_crt_set_activation_time", certificate, ctypes.c_long(now - 2 * DAY_S))
        self.call("x509_crt_set_expiration_time", certificate, ctypes.c_long(now - DAY_S))
        self.signed("x509_crt", certificate, path)


@pytest.fixture(name="authority")
def certificate_authority(tmp_path):
    return Authority(tmp_path / "ca")


def secure_switch(tmp_path, authority, port):
    return running(tmp_path, "--tls", str(authority.directory / "one"), "--listen", f"tls:127.0.0.1:{port}")


def join_by_tls(context, port: int, guid: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                return answer(secure, guid)
        except (ConnectionError, ssl.SSLError):
            return b""


def joins(context, port: int, guid: int) -> bool:
    return join_by_tls(context, port, guid)[:1] == bytes([WELCOME])


def test_a_link_over_tcp_shares_no_memory(tmp_path, plain, authority):
    """The device offers shared memory, which a switch accepts only over a Unix socket."""
    assert features_of(join(plain, 0x100, "127.0.0.1")) == 0
    directory, port = tmp_path / "secure", free_port()
    directory.mkdir()
    with secure_switch(directory, authority, port):
        assert features_of(join_by_tls(authority.host("vm"), port, 0x100)) == 0


def test_a_revoked_certificate_is_refused_after_a_restart(tmp_path, authority):
    revoked, other, port = authority.host("revoked"), authority.host("other"), free_port()
    with secure_switch(tmp_path, authority, port):
        assert joins(revoked, port, 0x1000)
        authority.revoke("revoked")
        assert joins(revoked, port, 0x2000)
    with secure_switch(tmp_path, authority, port):
        assert not joins(revoked, port, 0x1000)
        assert joins(other, port, 0x1000)
    assert "revoked" in (tmp_path / "log").read_text()


def test_a_certificate_is_refused_after_its_end(tmp_path, authority):
    port = free_port()
    for name in ("ended", "valid"):
        authority.host(name)
    authority.end("ended")
    with secure_switch(tmp_path, authority, port):
        assert not joins(authority.client("ended"), port, 0x1000)
        assert joins(authority.client("valid"), port, 0x1000)
    assert "expired" in (tmp_path / "log").read_text()
