# SPDX-License-Identifier: GPL-2.0-or-later
"""The packets of a capture in words, for a message sequence chart."""

import dataclasses
import struct
from collections.abc import Iterator

from lab.fabric import capture

ERF_BYTES, ERF_TYPE, ERF_EXTENDED = 16, 8, 0x80     # the ERF header; extension headers of 8 octets may follow
BLOCK = struct.Struct("=II")
PACKET_LENGTHS = struct.Struct("=IIIII")        # interface, time (two words), captured length, original length
BTH = struct.Struct(">BBHII")
GRH_BYTES, LRH_BYTES, AETH_OFFSET = 40, 8, 12
LNH_LOCAL, LNH_GLOBAL = 2, 3
PSN_MASK = QPN_MASK = (1 << 24) - 1
SOLICITED, ACK_REQUEST = 0x80, 1 << 31
SERVICES = {0: "RC", 1: "UC", 2: "RD", 3: "UD", 5: "XRC"}
OPERATIONS = ("SEND_FIRST", "SEND_MIDDLE", "SEND_LAST", "SEND_LAST with immediate", "SEND_ONLY",
              "SEND_ONLY with immediate", "RDMA_WRITE_FIRST", "RDMA_WRITE_MIDDLE", "RDMA_WRITE_LAST",
              "RDMA_WRITE_LAST with immediate", "RDMA_WRITE_ONLY", "RDMA_WRITE_ONLY with immediate",
              "RDMA_READ_REQUEST", "RDMA_READ_RESPONSE_FIRST", "RDMA_READ_RESPONSE_MIDDLE", "RDMA_READ_RESPONSE_LAST",
              "RDMA_READ_RESPONSE_ONLY", "ACKNOWLEDGE", "ATOMIC_ACKNOWLEDGE", "COMPARE_SWAP", "FETCH_ADD", "RESYNC",
              "SEND_LAST with invalidate", "SEND_ONLY with invalidate")
NAMES = {**dict(enumerate(OPERATIONS)), 0x1C: "FLUSH", 0x1D: "ATOMIC_WRITE"}
# Opcodes of congestion notifications and masked atomics: their upper bits name no service (ib/wire/opcode.h).
OTHERS = {0x80: "CNP", 0xD3: "RC MASKED_COMPARE_SWAP", 0xD4: "RC MASKED_FETCH_ADD"}
WITH_AETH = {OPERATIONS.index(name) for name in ("RDMA_READ_RESPONSE_FIRST", "RDMA_READ_RESPONSE_LAST",
                                                 "RDMA_READ_RESPONSE_ONLY", "ACKNOWLEDGE", "ATOMIC_ACKNOWLEDGE")}
NAKS = ("PSN sequence error", "invalid request", "remote access error", "remote operational error",
        "invalid RD request")
RNR_TIMERS_MS = (655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92, 2.56,
                 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68,
                 491.52)


@dataclasses.dataclass
class Message:
    """A packet. at: seconds since 1970. answer: meaning of its AETH; "" without AETH. octets: length from LRH to
    VCRC."""
    at: float
    slid: int
    dlid: int
    qpn: int
    name: str
    psn: int
    answer: str
    octets: int
    ack_request: bool
    solicited: bool


def aeth(syndrome: int) -> str:
    kind, value = syndrome >> 5 & 3, syndrome & 31
    if kind == 0:
        return "ACK"
    if kind == 1:
        return f"RNR NAK, wait {RNR_TIMERS_MS[value]:g} ms"
    if kind == 3:
        return f"NAK, {NAKS[value] if value < len(NAKS) else value}"
    return "reserved"


def message(at: float, packet: bytes) -> Message | None:
    """Decodes a packet; None if it has no BTH or is too short."""
    if len(packet) < LRH_BYTES:
        return None
    next_header = packet[1] & 3
    begin = LRH_BYTES + (GRH_BYTES if next_header == LNH_GLOBAL else 0)
    if next_header not in (LNH_LOCAL, LNH_GLOBAL) or len(packet) < begin + BTH.size:
        return None
    opcode, flags, _pkey, destination, last = BTH.unpack_from(packet, begin)
    service, operation = opcode >> 5, opcode & 31
    name = f"{SERVICES.get(service, service)} {NAMES.get(operation, f'operation {operation}')}"
    answer = ""
    if operation in WITH_AETH and len(packet) > begin + AETH_OFFSET:
        answer = aeth(packet[begin + AETH_OFFSET])
    dlid, _, slid = struct.unpack_from(">HHH", packet, 2)
    return Message(at, slid, dlid, destination & QPN_MASK, OTHERS.get(opcode, name), last & PSN_MASK, answer,
                   len(packet), bool(last & ACK_REQUEST), bool(flags & SOLICITED))


def _erf_bytes(record: bytes) -> int:
    """Length of a record's ERF header with its extension headers."""
    length, kind = ERF_BYTES, record[ERF_TYPE]
    while kind & ERF_EXTENDED and length < len(record):
        kind = record[length]
        length += 8
    return length


def packets(blocks: bytes) -> Iterator[bytes]:
    """The packet blocks in complete blocks of the switch's pcapng stream."""
    at = 0
    while at + BLOCK.size <= len(blocks):
        kind, length = BLOCK.unpack_from(blocks, at)
        if kind == capture.PACKET:
            yield blocks[at:at + length]
        at += max(length, BLOCK.size)


def message_of(block: bytes) -> Message | None:
    """The message in a packet block. None: the packet has no BTH, or is too short."""
    captured = PACKET_LENGTHS.unpack_from(block, BLOCK.size)[3]
    begin = BLOCK.size + PACKET_LENGTHS.size
    record = block[begin:begin + captured]
    arrival, = struct.unpack_from("<Q", record)
    octets, = struct.unpack_from(">H", record, ERF_BYTES - 2)
    packet = _erf_bytes(record)
    return message(arrival / (1 << 32), record[packet:packet + octets])
