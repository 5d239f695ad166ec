# SPDX-License-Identifier: GPL-2.0-or-later
"""Frames of the fabric link, for tests that act as a device: docs/fabric-protocol.md."""

import struct

HELLO, WELCOME, MEMORY = 1, 2, 8
SHARED_MEMORY, BURSTS, PEER_COPY = 1, 2, 4      # features
WELCOME_BYTES = 40


def frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">BBHI", kind, 0, 0, len(body)) + body


def hello(guid: int) -> bytes:
    """HELLO of a device with this node GUID, which offers all features."""
    features = SHARED_MEMORY | BURSTS | PEER_COPY
    return frame(HELLO, struct.pack(">4sHHIBBHQQQ64s8x", b"PIBL", 1, 3, features, 1, 1, 0, guid, guid + 1, 0, b"test"))


def features_of(welcome: bytes) -> int:
    """The features to which a switch has agreed."""
    assert welcome[0] == WELCOME, welcome
    return struct.unpack(">I", welcome[12:16])[0]
