# SPDX-License-Identifier: GPL-2.0-or-later
"""Links of a device over TCP, with TLS and without, at a real switch."""
import contextlib
import select
import socket
import ssl
import subprocess

import pytest

import driver
from driver import Driver
from qtest import BUILD, Qtest
from support import eventually, switch

PROGRAM = BUILD / "fabric-switch" / "pib-switch"
SLOT = 4
GUIDS = "0x0650000000000100-0x065000000000010f"
NODE_GUID = 0x0650000000000100
PATIENCE_S = 60


def free_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        return server.getsockname()[1]


def cert(*words):
    subprocess.run([PROGRAM, "cert", *map(str, words)], check=True)


@pytest.fixture
def ca(tmp_path):
    """A CA with certificates for a switch and a host."""
    folder = tmp_path / "ca"
    cert("ca", folder)
    cert("switch", folder, "one", "--guid", "any", "--host", "127.0.0.1")
    cert("host", folder, "vm", "--guid", GUIDS)
    return folder


@pytest.fixture
def secure(tmp_path, ca):
    """TCP port of a switch that listens with TLS."""
    port = free_port()
    with switch(tmp_path, "--tls", str(ca / "one"), "--listen", f"tls:127.0.0.1:{port}"):
        assert eventually((tmp_path / "control").exists)
        yield port


def with_device(files, port, **properties):
    """A QEMU whose device connects to the port, with the certificates in `files` if there are any."""
    creds = ("-object", f"tls-creds-x509,id=tls0,endpoint=client,dir={files}") if files else ()
    words = {"fabric": f"tcp:127.0.0.1:{port}", "node-guid": hex(NODE_GUID), **properties}
    if files:
        words["tls-creds"] = "tls0"
    described = ",".join(f"{key}={value}" for key, value in words.items())
    return Qtest(*creds, "-device", f"pib-hca,addr={SLOT},{described}")


def enabled(qtest):
    return Driver(qtest.pci(SLOT).map_bars()).enable()


def said(qtest):
    """The first line of QEMU's errors."""
    assert select.select([qtest.process.stderr], [], [], PATIENCE_S)[0], "QEMU reports nothing"
    return qtest.process.stderr.readline()


def test_a_link_with_tls_comes_up(secure, ca):
    with with_device(ca / "vm", secure) as qtest:
        device = enabled(qtest)
        assert eventually(lambda: device.port_state() == driver.PORT_INIT)


def test_a_link_without_tls_comes_up_on_this_host(tmp_path):
    port = free_port()
    with switch(tmp_path, "--listen", f"tcp:127.0.0.1:{port}"), with_device(None, port) as qtest:
        device = enabled(qtest)
        assert eventually(lambda: device.port_state() == driver.PORT_INIT)


def strict(purpose, files, kind):
    context = ssl.SSLContext(purpose)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(files / "ca-cert.pem")
    context.load_cert_chain(files / f"{kind}-cert.pem", files / f"{kind}-key.pem")
    return context


def test_verifiers_that_are_strict_accept_the_certificates(ca):
    """Python does so by default since 3.13."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = strict(ssl.PROTOCOL_TLS_SERVER, ca / "one", "server").wrap_bio(to_server, to_client, server_side=True)
    client = strict(ssl.PROTOCOL_TLS_CLIENT, ca / "vm", "client").wrap_bio(to_client, to_server,
                                                                         server_hostname="127.0.0.1")
    for side in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert server.getpeercert()["subject"] == ((("commonName", "vm"),),)
    assert client.getpeercert()["subject"] == ((("commonName", "one"),),)


@pytest.mark.parametrize("stranger", ["of another CA", "of another name"])
def test_a_switch_that_is_a_stranger_gets_no_link(tmp_path, secure, ca, stranger):
    files, name = ca, {"tls-hostname": "other.example"}
    if stranger == "of another CA":
        files, name = tmp_path / "foreign", {}
        cert("ca", files)
        cert("host", files, "vm", "--guid", "any")
    with with_device(files / "vm", secure, **name) as qtest:
        device = enabled(qtest)
        assert "TLS" in said(qtest)
        assert device.port_state() == driver.PORT_DOWN


def test_a_guid_beyond_the_certificate_is_refused(secure, ca):
    with with_device(ca / "vm", secure, **{"node-guid": hex(NODE_GUID + 0x10)}) as qtest:
        device = enabled(qtest)
        assert "--guid" in said(qtest)
        assert device.port_state() == driver.PORT_DOWN
