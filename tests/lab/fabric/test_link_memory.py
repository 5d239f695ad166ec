# SPDX-License-Identifier: GPL-2.0-or-later
"""The memory that a switch gives to a device, and the memory that it takes from one: docs/fabric-protocol.md, "Shared
memory" and "Peer copy". The test acts as the device."""

import array
import contextlib
import fcntl
import mmap
import os
import select
import socket
import struct

import pytest

from lab.base import process, waiting
from lab.fabric import switch_process
from link_frames import BURSTS, MEMORY, PEER_COPY, SHARED_MEMORY, WELCOME_BYTES, features_of, frame, hello

PATIENCE_S = 60
RING_BYTES_AT, MAPPED_AT = 65536, 8
MAPPED, NOT_MAPPED = 1, 2
HUGE_PAGE = 2 << 20


def joined(path, guid: int) -> tuple[socket.socket, int, list[int]]:
    """Joins a switch, and offers all features; returns the connection, and features and descriptors of WELCOME."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(PATIENCE_S)
    sock.connect(str(path))
    sock.sendall(hello(guid))
    answer, descriptors, _, _ = socket.recv_fds(sock, WELCOME_BYTES, 2)
    return sock, features_of(answer), descriptors


class Device:
    """A device's end of a link: the socket, and the descriptors of WELCOME."""

    def __init__(self, path, guid: int):
        self.socket, features, descriptors = joined(path, guid)
        assert len(descriptors) == 2 and features & PEER_COPY
        self.memory, self.wakes = descriptors

    def hand_over(self, control: int, block: int, size: int) -> None:
        body = frame(MEMORY, struct.pack(">H6xQ", 1, size))
        rights = array.array("i", [control, block])
        self.socket.sendmsg([body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def close(self) -> None:
        self.socket.close()
        os.close(self.memory)
        os.close(self.wakes)


@pytest.fixture(name="running", scope="module")
def switch_process_with_a_log(tmp_path_factory):
    directory = tmp_path_factory.mktemp("switch")
    running = switch_process.Switch(directory)
    started = process.start(running.argv(), directory / "log", directory=directory, name="switch")
    process.wait_for("pib-switch", running.answers, started, directory / "log", PATIENCE_S)
    yield running
    started.stop()


@pytest.fixture(name="device")
def connected_device(running):
    with contextlib.closing(Device(running.socket, 0x100)) as made:
        yield made


@pytest.mark.parametrize("option, features", [
    ("--no-bursts", SHARED_MEMORY), ("--no-shared-memory", 0), ("--no-peer-copy", SHARED_MEMORY | BURSTS)])
def test_a_switch_takes_no_feature_that_its_options_exclude(tmp_path, option, features):
    switch = switch_process.Switch(tmp_path, (option,))
    started = process.start(switch.argv(), tmp_path / "log", directory=tmp_path, name="switch")
    try:
        process.wait_for("pib-switch", switch.answers, started, tmp_path / "log", PATIENCE_S)
        sock, taken, descriptors = joined(switch.socket, 0x100)
        sock.close()
        for descriptor in descriptors:
            os.close(descriptor)
        assert (taken, len(descriptors)) == (features, 2 if features & SHARED_MEMORY else 0)
    finally:
        started.stop()


def memfd(size: int, flags: int = 0) -> int:
    """Memory as a device shares it."""
    made = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | flags)
    os.ftruncate(made, size)
    fcntl.fcntl(made, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return made


def control_bytes(block: int) -> int:
    """Size of the control memory for one block: a bit for each page, in whole cache lines."""
    return 4096 + (1 << 20) + (block // 4096 + 511) // 512 * 64


def answer_to(device: Device, block: int, size: int) -> int:
    """The switch's answer (`mapped`) to shared memory."""
    control = memfd(control_bytes(size))
    try:
        with mmap.mmap(control, 4096) as seen:
            device.hand_over(control, block, size)
            return waiting.poll("an answer to MEMORY", lambda: seen[MAPPED_AT], PATIENCE_S)
    finally:
        os.close(control)


def test_each_link_has_memory_of_its_own(running, device):
    with contextlib.closing(Device(running.socket, 0x300)) as other:
        assert os.fstat(device.memory).st_ino != os.fstat(other.memory).st_ino
        with mmap.mmap(device.memory, 0) as mine, mmap.mmap(other.memory, 0) as theirs:
            mine[RING_BYTES_AT:RING_BYTES_AT + 4] = b"mine"
            assert theirs[RING_BYTES_AT:RING_BYTES_AT + 4] == bytes(4)
        os.write(device.wakes, struct.pack("=Q", 7))
        assert not select.select([other.wakes], [], [], 0)[0]


def test_a_device_cannot_shrink_the_memory_of_its_link(device):
    size = os.fstat(device.memory).st_size
    for other_size in (0, RING_BYTES_AT, size - 4096, size + 4096):
        with pytest.raises(PermissionError):
            os.ftruncate(device.memory, other_size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(device.memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)


def test_the_switch_does_not_read_the_eventfd_of_its_wake_ups(running, device):
    """The device could make a read block: the flags of the eventfd are common to both sides."""
    flags = fcntl.fcntl(device.wakes, fcntl.F_GETFL)
    fcntl.fcntl(device.wakes, fcntl.F_SETFL, flags & ~os.O_NONBLOCK)
    rings = 20
    for number in range(rings):
        os.write(device.wakes, struct.pack("=Q", 1))
        # The switch has looked at its descriptors when another device has got its WELCOME.
        Device(running.socket, 0x1000 + 0x10 * number).close()
    fcntl.fcntl(device.wakes, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    assert struct.unpack("=Q", os.read(device.wakes, 8))[0] == rings
    with pytest.raises(BlockingIOError):
        os.read(device.wakes, 8)


def test_a_full_eventfd_stops_no_other_link(running, device):
    os.write(device.wakes, struct.pack("=Q", (1 << 64) - 2))
    Device(running.socket, 0x300).close()


def test_memory_of_small_pages_is_mapped(device):
    block = memfd(HUGE_PAGE)
    assert answer_to(device, block, HUGE_PAGE) == MAPPED
    os.close(block)


def test_memory_of_huge_pages_is_not_mapped(running, device):
    """A hole punched into huge pages may be impossible to fill again: a read then raises SIGBUS."""
    try:
        block = memfd(HUGE_PAGE, os.MFD_HUGETLB)
    except OSError:
        pytest.skip("the kernel has no huge pages of 2 MiB")
    assert answer_to(device, block, HUGE_PAGE) == NOT_MAPPED
    os.close(block)
    assert running.answers()
