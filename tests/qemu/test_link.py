# SPDX-License-Identifier: GPL-2.0-or-later
"""The device and a switch that misbehaves, stops or is missing: QEMU continues, and the port comes back."""
import fcntl
import os
import pathlib
import random
import signal
import socket
import struct
import threading

import pytest

import driver
from driver import Driver
from flood import Flood, empty_rings, link_threads_sleep
from loopback import Loopback
from qtest import Qtest
from support import (HOT_PLUG, SIZE, SLTCTL_POWER_OFF, TARGET, behind_root_port, eventually,
                     preloadable, start_transfer, switch)

HEADER = struct.Struct(">BBHI")  # docs/fabric-protocol.md
WELCOME, REFUSE, LINK, CREDIT, PACKET = 2, 3, 4, 5, 6
HELLO_BYTES = HEADER.size + 112
SHARED_MEMORY, BURSTS, PEER_COPY = 1, 2, 4      # features
SHARED_RAM = ("-object", "memory-backend-memfd,id=ram,share=on,size=256M", "-machine", "memory-backend=ram")


class FakeSwitch:
    """Accepts connections on the fabric's path and calls `behave` with each."""

    def __init__(self, folder, behave):
        self.path = pathlib.Path(folder) / "fabric"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen(16)
        self.connections = []
        self.behave = behave
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            try:
                self.behave(connection, len(self.connections))
            except OSError:
                pass  # the device has closed it first

    def close(self):
        """Closes the socket, so that a real switch can take the path."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(60)
        for connection in self.connections:
            connection.close()
        os.unlink(self.path)


def hang_up(connection, _):
    connection.close()


def say_nothing(connection, _):
    pass


def refuse_everybody(connection, _):
    text = "not today".encode()
    connection.sendall(HEADER.pack(REFUSE, 0, 0, 4 + len(text)) + struct.pack(">I", 99) + text)
    connection.close()


def talk_garbage(connection, number):
    connection.sendall(random.Random(number).randbytes(4096))


def half_a_frame(connection, _):
    connection.sendall(HEADER.pack(WELCOME, 0, 0, 32) + bytes(7))


def an_endless_frame(connection, _):
    connection.sendall(HEADER.pack(PACKET, 0, 0, 0xFFFFFFFF))
    while True:
        connection.sendall(bytes(65536))


def frames_without_welcome(connection, _):
    for kind in (LINK, CREDIT, PACKET):
        connection.sendall(HEADER.pack(kind, 0, 0, 12) + bytes(12))


@pytest.mark.parametrize("behave", [
    hang_up, say_nothing, refuse_everybody, talk_garbage, half_a_frame, an_endless_frame,
    frames_without_welcome], ids=lambda f: f.__name__)
def test_a_switch_that_misbehaves_loses_its_link_only(tmp_path, behave):
    fake = FakeSwitch(tmp_path, behave)
    with Qtest("-device", f"pib-hca,addr=4,fabric=unix:{tmp_path}/fabric") as qtest:
        device = Driver(qtest.pci(4).map_bars()).enable()
        assert eventually(lambda: fake.connections)
        if behave not in (say_nothing, half_a_frame):
            assert eventually(lambda: len(fake.connections) > 2), "the device does not try again"
        assert device.port_state() == driver.PORT_DOWN
        fake.close()
        with switch(tmp_path):
            assert eventually(lambda: device.port_state() == driver.PORT_INIT)
    assert qtest.stderr.count("not today") <= 1


def note_features(features):
    """A behaviour that notes the features of each HELLO."""
    def behave(connection, _):
        connection.settimeout(60)
        hello = connection.recv(HELLO_BYTES, socket.MSG_WAITALL)
        features.append(struct.unpack_from(">I", hello, HEADER.size + 8)[0])
    return behave


@pytest.mark.parametrize("properties, features", [
    ("", {SHARED_MEMORY, BURSTS}), ("bursts=off", {SHARED_MEMORY}), ("shared-memory=off", set()),
    ("peer-copy=on", {SHARED_MEMORY, BURSTS, PEER_COPY})])
def test_a_device_offers_the_features_of_its_properties(tmp_path, properties, features):
    offered = []
    fake = FakeSwitch(tmp_path, note_features(offered))
    with Qtest(*SHARED_RAM, "-device", ",".join(
            filter(None, ("pib-hca,addr=4", f"fabric=unix:{tmp_path}/fabric", properties)))):
        assert eventually(lambda: offered)
    fake.close()
    assert {bit for bit in (SHARED_MEMORY, BURSTS, PEER_COPY) if offered[0] & bit} == features


def ring_descriptors():
    """The descriptors of a WELCOME with shared memory: sealed memory for two rings, and an eventfd."""
    memory = os.memfd_create("pib-link", os.MFD_ALLOW_SEALING)
    os.truncate(memory, 0x10000 + 2 * 0x10000)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return memory, os.eventfd(0)


class PassedDescriptors:
    """A switch that passes descriptors with the first byte of WELCOME, or after it.

    `refused` counts the connections on which the kernel has refused them."""

    def __init__(self, late):
        self.late = late
        self.refused = 0

    def __call__(self, connection, _):
        connection.settimeout(60)
        connection.recv(HELLO_BYTES, socket.MSG_WAITALL)
        welcome = HEADER.pack(WELCOME, 0, 0, 32) + struct.pack(">HHIQB15x", 1, 0, 0, 0x5, 1)
        link = HEADER.pack(LINK, 0, 0, 12) + bytes(12)
        descriptors = ring_descriptors()
        try:
            if self.late:
                connection.sendall(welcome)
                connection.recv(1)  # the device answers WELCOME with LINK
            socket.send_fds(connection, [link if self.late else welcome], descriptors)
        except PermissionError:
            self.refused += 1
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


@pytest.mark.parametrize("late", [False, True], ids=["with WELCOME", "after WELCOME"])
@pytest.mark.parametrize("kernel", ["old", "new"])
def test_descriptors_without_a_request_close_the_link(tmp_path, kernel, late):
    """The kernel refuses them where it can; otherwise the device closes the link, and maps none of them."""
    behave = PassedDescriptors(late)
    fake = FakeSwitch(tmp_path, behave)
    shared = "on" if late else "off"
    preload = (preloadable(tmp_path, "old_kernel.c"),) if kernel == "old" else ()
    with Qtest("-device", f"pib-hca,addr=4,fabric=unix:{tmp_path}/fabric,shared-memory={shared}",
               preload=preload) as qtest:
        if kernel == "old":
            assert eventually(lambda: len(fake.connections) > 2), "the device keeps the link"
        else:
            assert eventually(lambda: behave.refused or len(fake.connections) > 2)
        maps = pathlib.Path(f"/proc/{qtest.process.pid}/maps").read_text(encoding="utf-8")
        fake.close()
    assert "pib-link" not in maps
    told = qtest.stderr.count("descriptors came that the device had not asked for")
    assert told == (0 if behave.refused else 1), qtest.stderr


def share_unsealed_memory(features):
    """A behaviour that notes the features of each HELLO, and answers it with memory that no device maps."""
    def behave(connection, _):
        note_features(features)(connection, _)
        if features[-1] & SHARED_MEMORY:
            memory, event = os.memfd_create("pib-link"), os.eventfd(0)
            welcome = HEADER.pack(WELCOME, 0, 0, 32) + struct.pack(">HHIQB15x", 1, 0, features[-1], 0x5, 1)
            socket.send_fds(connection, [welcome], [memory, event])
            os.close(memory)
            os.close(event)
        else:
            connection.close()
    return behave


def test_a_device_asks_for_shared_memory_again_a_while_after_it_has_failed(tmp_path):
    """QEMU may have had no file descriptor at that moment."""
    asked = []
    fake = FakeSwitch(tmp_path, share_unsealed_memory(asked))
    with Qtest("-device", f"pib-hca,addr=4,fabric=unix:{tmp_path}/fabric",
               preload=(preloadable(tmp_path, "later.c"),), variables={"PIB_LATER": f"{tmp_path}/later"}):
        assert eventually(lambda: any(not features & SHARED_MEMORY for features in asked)), "it asks at once"
        without = len(asked)
        (tmp_path / "later").touch()
        assert eventually(lambda: any(features & SHARED_MEMORY for features in asked[without + 1:]))
        fake.close()


def test_a_stopped_vm_changes_its_handlers_with_the_lock(tmp_path):
    """The core's lock protects the handlers of a socket: the thread of another port may change them meanwhile."""
    with switch(tmp_path), Qtest("-device", f"pib-hca,addr=4,fabric=unix:{tmp_path}/fabric,shared-memory=off") as qtest:
        device = Driver(qtest.pci(4).map_bars()).enable()
        assert eventually(lambda: device.port_state() == driver.PORT_INIT)
        qtest.qmp("stop")       # ends QEMU without the lock
        qtest.qmp("cont")
        assert device.command(driver.CMD_NOP) == driver.STATUS_OK


def test_a_switch_that_stands_still_does_not_stop_qemu(tmp_path):
    """T57: QEMU does not wait for the switch, which handles the pending frames later."""
    with switch(tmp_path) as fabric, \
            Qtest("-device", f"pib-hca,addr=4,fabric=unix:{tmp_path}/fabric") as qtest:
        device = Loopback(qtest.pci(4).map_bars()).enable()
        start_transfer(device)
        fabric.send_signal(signal.SIGSTOP)
        qtest.write(TARGET + SIZE - 1, 0, 1)
        # The loopback does not need the switch.
        assert eventually(lambda: qtest.read(TARGET + SIZE - 1, 1) == 0x5A)
        assert device.command(driver.CMD_NOP) == driver.STATUS_OK
        assert device.port_state() == driver.PORT_ACTIVE
        fabric.send_signal(signal.SIGCONT)
        assert device.port_state() == driver.PORT_ACTIVE


def test_room_in_the_ring_of_one_port_wakes_the_thread_of_that_port(tmp_path):
    """The thread of port 1 cannot use the room in the ring of port 2, and must not wait for it forever."""
    with switch(tmp_path) as fabric, \
            Qtest("-name", "debug-threads=on",
                  "-device", f"pib-hca,addr=4,ports=2,fabric=unix:{tmp_path}/fabric") as qtest:
        device = Flood(qtest.pci(4).map_bars()).enable()
        assert device.all_ports_up(2)
        fabric.send_signal(signal.SIGSTOP)
        device.create(port=2).fill_ring(port=2)
        sent = len(device.statuses())
        empty_rings(fabric)
        assert device.command(driver.CMD_NOP) == driver.STATUS_OK
        assert eventually(lambda: len(device.statuses()) > sent)
        assert eventually(lambda: link_threads_sleep(qtest))


def test_the_port_follows_a_switch_that_comes_and_goes(tmp_path):
    """T56: the port follows the link, with an event each time that it becomes or leaves Active."""
    with Qtest("-device", f"pib-hca,addr=4,fabric=unix:{tmp_path}/fabric") as qtest:
        device = Loopback(qtest.pci(4).map_bars()).enable()
        device.create_async_eq()
        for rounds in range(1, 4):
            with switch(tmp_path):
                assert eventually(lambda: device.port_state() == driver.PORT_INIT)
                device.activate()
            assert eventually(lambda: device.port_state() == driver.PORT_DOWN)
            os.unlink(tmp_path / "fabric")
            # One event for Active, and one for Down.
            assert device.events().count(driver.EVENT_PORT) >= 2 * rounds
        assert device.status() == driver.ENABLED


def test_devices_are_unplugged_while_they_connect(tmp_path):
    """T55 of docs/fault-cases.md: a device is unplugged at any moment from the first attempt until the link is up."""
    with switch(tmp_path), Qtest(*HOT_PLUG) as qtest:
        port = qtest.pci(5)
        slot_control = port.capability(0x10) + 0x18
        for round_number in range(60):
            port.config_write(slot_control, 0x0100, 2)  # power on
            # The attempt to connect is unanswered, refused or accepted.
            fabric = ("unix:/nonexistent", "tcp:127.0.0.1:9", f"unix:{tmp_path}/fabric")[round_number % 3]
            assert "return" in qtest.qmp("device_add", driver="pib-hca", id="hot", bus="plug",
                                         fabric=fabric, ports=1 + round_number % 4)
            for _ in range(round_number % 7):
                qtest.qmp("query-status")  # lets QEMU's main loop run
            port.config_write(slot_control, SLTCTL_POWER_OFF, 2)
            assert "hot" not in str(qtest.qmp("qom-list", path="/machine/peripheral"))
        port.config_write(slot_control, 0x0100, 2)
        qtest.qmp("device_add", driver="pib-hca", id="hot", bus="plug", fabric=f"unix:{tmp_path}/fabric")
        _, hca = behind_root_port(qtest)
        device = Driver(hca).enable()
        assert eventually(lambda: device.port_state() == driver.PORT_INIT)
