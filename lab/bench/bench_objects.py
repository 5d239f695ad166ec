# SPDX-License-Identifier: GPL-2.0-or-later
"""Measurements of connections and memory regions: how fast a guest creates them on the HCA and on Soft-RoCE."""

import functools
import json
import re
import subprocess
from typing import Iterable

from lab.base import paths, ui
from lab.bench import bench_figures, bench_host
from lab.bench.bench_figures import LESS, MORE, Kind
from lab.bench.bench_guests import DIRECT, ROCE, Guests, run_program, sh
from lab.bench.bench_steps import Step

PROGRAM = paths.ROOT / "lab" / "bench" / "in_guest_objects.py"
SIZES = {4096: "4 KiB", 2 << 20: "2 MiB", 1 << 30: "1 GiB"}
KINDS = {"connections": Kind("connections", "RC QP made, modified to RTS, destroyed", "per s", MORE),
         **{f"mr_{size}": Kind(f"mr_{size}", f"memory region of {text}: register", "us", LESS)
            for size, text in SIZES.items()},
         **{f"unmr_{size}": Kind(f"unmr_{size}", f"memory region of {text}: deregister", "us", LESS)
            for size, text in SIZES.items()}}
CM = Kind("cm_connect", "connection by librdmacm (cmtime), all steps", "us", LESS)
CM_COUNT, CM_LIMIT_S = 100, 120
IPOIB = "10.98.0.{}"            # addresses on the fabric, by which librdmacm finds the device


def objects(guests: Guests, what: str) -> None:
    end = guests.ends[what][0]
    gid = "-1" if end.gid is None else str(end.gid)
    add_objects(guests.results, what, run_program(end.node, PROGRAM, [end.device, gid], "./pib bench"))


def add_objects(results: bench_figures.Results, what: str, text: str) -> None:
    """Adds the figures that in_guest_objects.py printed. text: its output."""
    for name, value in json.loads(text).items():
        results.figure(KINDS[name]).add(what, value)


# ---- the connection manager

def _use_ipoib(guests: Guests) -> None:
    """Sets up IPoIB between the HCAs. The first packet may have to wait for the SM's answer."""
    for number, end in enumerate(guests.ends[bench_host.DEVICE], 1):
        sh(end.node, f"modprobe ib_ipoib; card=$(ls /sys/class/infiniband/{end.device}/device/net | head -n 1); "
                     f"ip link set $card up && ip addr replace {IPOIB.format(number)}/24 dev $card")
    client = guests.ends[bench_host.DEVICE][0].node
    sh(client, f"timeout 60 sh -c 'until ping -c 1 -W 1 {IPOIB.format(2)}; do sleep 0.2; done'")


def full_connect_us(text: str) -> float:
    """Microseconds of all steps of one connection, from cmtime's first table, which is about connections with QPs."""
    found = re.search(r"^full connect +(\d+) ", text, re.MULTILINE)
    if not found:
        raise ui.LabError(f"cmtime printed no times. Start again:  ./pib bench   It printed:\n{text}")
    return float(found[1])


def connection_manager(guests: Guests, what: str) -> None:
    if what != ROCE:
        _use_ipoib(guests)
    client, server = guests.ends[what]
    address = (DIRECT if what == ROCE else IPOIB).format(2)
    options = f"-c {CM_COUNT}"
    serving = server.node.start([f"exec timeout {CM_LIMIT_S} cmtime {options}"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        text = sh(client.node, f"timeout {CM_LIMIT_S} sh -c 'until cmtime -s {address} {options}; do sleep 0.2; done'")
    finally:
        if serving.poll() is None:
            sh(server.node, "pkill -x cmtime || true")
        serving.wait(CM_LIMIT_S)
    guests.results.figure(CM).add(what, full_connect_us(text))


def steps(guests: Guests) -> Iterable[Step]:
    for what in (bench_host.DEVICE, ROCE):
        yield Step(f"connections and memory regions, {what}", functools.partial(objects, guests, what))
        yield Step(f"connections by librdmacm, {what}", functools.partial(connection_manager, guests, what))
