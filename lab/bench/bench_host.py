# SPDX-License-Identifier: GPL-2.0-or-later
"""Measurements of ./pib bench without guests, and the description of the machine."""

import json
import os
import pathlib
import platform
import subprocess
import time
from typing import Iterable

from lab.base import paths, process, ui
from lab.bench import bench_figures
from lab.bench.bench_figures import LESS, MORE, Kind
from lab.bench.bench_steps import Step

DEVICE = "pib"
SECONDS = "0.3"                 # time limit for one figure of a program
DEVICE_BENCH, SCALE_BENCH, SWITCH_BENCH, HOST_BENCH, FABRIC_LOAD = TARGETS = tuple(
    f"tests/bench/{name}" for name in ("device-bench", "scale-bench", "switch-bench", "host-bench", "fabric-load"))

# Lines that the programs print, by name. COPIES: keys of the kinds that host-bench's copies are compared with.
# PING_PONG: names of host-bench's ping-pongs in the table.
COPIES = {"memcpy_64k": "write_bw_64k send_bw_64k read_bw_64k", "memcpy_dram": "write_bw_1m send_bw_1m read_bw_1m"}
PING_PONG = {"seqpacket": "SEQPACKET", "pipe": "pipe"}
DEVICE_KINDS = {
    "write_8": Kind("device_write_8", "work of a WRITE of 8 B, all ends", "ns", LESS),
    "send_64": Kind("device_send_64", "work of a SEND of 64 B, all ends", "ns", LESS),
    "write_64k": Kind("device_write_64k", "work of a WRITE of 64 KiB, all ends", "ns", LESS),
    "read_64k": Kind("device_read_64k", "work of a READ of 64 KiB, all ends", "ns", LESS),
}
# Titles of scale-bench's figures, by the objects that are many. {}: their number.
SCALE = {"qps": {"write": "work of a WRITE of 8 B, all ends, {} QPs in turn", "cq": "CQ, one of {}: made",
                 "qp": "QP, one of {}: made and connected"},
         "regions": {"write": "work of a WRITE of 8 B, all ends, {} MRs in turn", "mr": "MR, one of {}: made"}}


def lines(target: str, **environment: str) -> dict[str, dict]:
    """The JSON lines that a measuring program prints, by name."""
    done = subprocess.run([paths.BUILD / target, SECONDS], capture_output=True, text=True,
                          env={**os.environ, **environment}, check=False)
    if done.returncode:
        raise ui.LabError(f"{target} ended with status {done.returncode}. Build it again:  ./pib build   It said:\n"
                          f"{done.stderr}")
    parsed = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["figure"]: line for line in parsed}


def _add_device(results: bench_figures.Results) -> None:
    """Adds device-bench's figures: both HCAs and the switch in one thread, with frames in memory."""
    for name, line in lines(DEVICE_BENCH, PIB_LINK_MODE="shared").items():
        if name in DEVICE_KINDS:
            figure = results.figure(DEVICE_KINDS[name])
            figure.add(DEVICE, line["cpu_ns"])
            figure.add("memcpy", line["memcpy_ns"])


def _add_scale(results: bench_figures.Results) -> None:
    """Like _add_device(), with many connections or memory regions that take turns; also the cost of creating them."""
    for name, line in lines(SCALE_BENCH, PIB_LINK_MODE="shared").items():
        for what, title in SCALE[name.partition("_")[0]].items():
            kind = Kind(f"scale_{name}_{what}", title.format(f"{line['count']:,}"), "ns", LESS)
            results.figure(kind).add(DEVICE, line[f"{what}_ns"])


def switch_kind(name: str) -> Kind:
    """The kind of a line of switch-bench. name: the line's name."""
    words = name.split("_")
    if words[0] == "multicast":
        return Kind(name, f"switch, multicast of {words[2]} B to {words[1].removesuffix('copies')}", "copies/s", MORE)
    busy, configured = words[1].removesuffix("ports").split("of")
    ports = f"{busy} ports" if busy == configured else f"{busy} of {configured} ports"
    turn = ", one a turn" if words[3] == "1" else ""
    return Kind(name, f"switch, {ports}, {words[2]} B{turn}", "packets/s", MORE)


def _add_switch(results: bench_figures.Results) -> None:
    for name, line in lines(SWITCH_BENCH).items():
        results.figure(switch_kind(name)).add(DEVICE, 1e9 / line["cpu_ns"])


def _add_host(results: bench_figures.Results, kinds: dict[str, Kind]) -> None:
    measured = lines(HOST_BENCH)
    for name, keys in COPIES.items():
        for key in keys.split():
            results.figure(kinds[key]).add("memcpy", measured[name]["mib_s"])
    for name, title in PING_PONG.items():
        results.figure(kinds["write_lat_8"]).add(title, measured[name]["p50_us"])
        results.figure(kinds["write_lat_8_p99"]).add(title, measured[name]["p99_us"])


def device_steps(results: bench_figures.Results) -> Iterable[Step]:
    yield Step("both devices and the switch", lambda: _add_device(results))


def scale_steps(results: bench_figures.Results) -> Iterable[Step]:
    yield Step("1 to 16,384 connections, 100,000 memory regions", lambda: _add_scale(results))


def switch_steps(results: bench_figures.Results) -> Iterable[Step]:
    yield Step("the switch between rings", lambda: _add_switch(results))


def host_steps(results: bench_figures.Results, kinds: dict[str, Kind]) -> Iterable[Step]:
    """Yields the steps that measure the host. kinds: the guests' figures with which the host's figures are compared."""
    yield Step("copies and ping-pongs", lambda: _add_host(results, kinds))


# ---- processes

def tasks(running: process.Process) -> list[pathlib.Path]:
    return list(pathlib.Path(f"/proc/{running.pid}/task").iterdir())


def usage(running: list[process.Process]) -> tuple[int, float]:
    """(voluntary context switches of these processes' threads, seconds of processor time). The kernel keeps the
    processor time of threads that have ended, but not their context switches."""
    sleeps = 0
    for one in running:
        for task in tasks(one):
            try:
                status = (task / "status").read_text()
            except OSError:
                continue        # the thread has just ended
            sleeps += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return sleeps, sum(process.cpu_s(one.pid) for one in running)


# ---- the machine

def _first_line(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=paths.ROOT, check=False)
    return done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else "unknown"


def _processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def load() -> str:
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def machine(accelerator: str) -> dict[str, str]:
    return {"date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
            "commit": _first_line("git", "describe", "--always", "--dirty", "--abbrev=12",
                                  "--exclude=*"),
            "processor": f"{os.cpu_count()} x {_processor()}",
            "kernel": platform.release(),
            "QEMU": _first_line("qemu-system-x86_64", "--version"),
            "accelerator": accelerator,
            "load at the start": load()}
