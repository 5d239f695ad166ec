# SPDX-License-Identifier: GPL-2.0-or-later
"""Seconds that the stages of ./pib test take on two idle cores. A first run estimates its remaining time by them.

Later runs use the durations that earlier runs have left in test-seconds.json in the cache."""

SECONDS = {
    "tests/lab": 600,
    "tests/style": 200,
    "tests/driver": 45,
    "tests/qemu": 35,
    "build-sanitized": 300,
    "simulation, new seeds": 25,
    "tests/guest": 1300,
}
