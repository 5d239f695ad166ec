# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets of a message sequence chart."""

import pytest

from lab.web import sequence
from simulated_fabric import packet, pcapng


@pytest.mark.parametrize("opcode, more, name, answer", [
    (4, b"", "RC SEND_ONLY", ""), (0x24, b"", "UC SEND_ONLY", ""), (0x64, bytes(8), "UD SEND_ONLY", ""),
    (0xA6, b"", "XRC RDMA_WRITE_FIRST", ""), (16, bytes([0, 0, 0, 1]), "RC RDMA_READ_RESPONSE_ONLY", "ACK"),
    (14, bytes(4), "RC RDMA_READ_RESPONSE_MIDDLE", ""), (17, bytes([0x1F, 0, 0, 1]), "RC ACKNOWLEDGE", "ACK"),
    (17, bytes([0x2E, 0, 0, 1]), "RC ACKNOWLEDGE", "RNR NAK, wait 1.28 ms"),
    (17, bytes([0x62, 0, 0, 1]), "RC ACKNOWLEDGE", "NAK, remote access error"),
    (17, bytes([0x7F, 0, 0, 1]), "RC ACKNOWLEDGE", "NAK, 31"),
    (17, bytes([0x40, 0, 0, 1]), "RC ACKNOWLEDGE", "reserved"),
    (0x1C, bytes(20), "RC FLUSH", ""), (0xBD, bytes(28), "XRC ATOMIC_WRITE", ""), (0x80, bytes(16), "CNP", ""),
    (0xD3, bytes(44), "RC MASKED_COMPARE_SWAP", ""), (0xD4, bytes(28), "RC MASKED_FETCH_ADD", ""),
    (0xC4, b"", "6 SEND_ONLY", ""), (17, b"", "RC ACKNOWLEDGE", ""), (31, b"", "RC operation 31", "")])
def test_packets_have_names_and_answers(opcode, more, name, answer):
    found = sequence.message(1.5, packet(3, 4, 0x55, opcode, 0xABCDEF, more))
    assert (found.name, found.answer) == (name, answer)
    assert (found.at, found.slid, found.dlid, found.qpn, found.psn, found.octets) == (
        1.5, 3, 4, 0x55, 0xABCDEF, 20 + len(more))
    assert found.ack_request and not found.solicited


def test_a_packet_with_a_grh_is_decoded():
    plain = packet(3, 4, 0x55, 4, 9)
    found = sequence.message(0, plain[:1] + bytes([3]) + plain[2:8] + bytes(40) + plain[8:])
    assert (found.name, found.psn, found.octets) == ("RC SEND_ONLY", 9, 60)


def test_packets_that_are_too_short_or_raw_are_left_out():
    whole = packet(3, 4, 0x55, 4, 9)
    for octets in range(len(whole)):
        assert sequence.message(0, whole[:octets]) is None
    for next_header in (0, 1):
        assert sequence.message(0, whole[:1] + bytes([next_header]) + whole[2:]) is None


def test_each_block_of_a_capture_gives_time_and_psn():
    packets = [(float(number), packet(1, 2, 3, 4, number, bytes(number))) for number in range(9)]
    found = [sequence.message_of(block) for block in sequence.packets(pcapng(packets))]
    assert [(one.at, one.psn) for one in found] == [(number, number) for number in range(9)]
