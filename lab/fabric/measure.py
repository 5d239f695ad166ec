# SPDX-License-Identifier: GPL-2.0-or-later
"""Bandwidth and latency between two guests, measured by perftest."""

import contextlib
import dataclasses
import subprocess
from collections.abc import Callable

from lab.base import signals, ui
from lab.fabric import subnet
from lab.guests.guest import Guest

CONTROL_PORT = 18515            # perftest's default
LIMIT_S = 120
NODE_S = 0.02                   # in addition, for each node of the fabric: opensm takes processor time of its guest
LISTEN_S = 600                  # longer than the time limit of the script in the guest
TRIES = 5


@dataclasses.dataclass(frozen=True)
class Result:
    bandwidth_mib_s: float      # ib_write_bw, 64 KiB, average
    latency_us: float           # result of ib_write_lat for 8 bytes, column "typical" (median of half round trips)


def wait_listen(server: Guest, program: str) -> None:
    """Waits until a perftest server accepts connections."""
    if server.run(["/usr/local/lib/lab/wait-listen", str(CONTROL_PORT)], timeout_s=LISTEN_S).returncode:
        raise ui.LabError(f"{program} does not listen in {server.name}. Look at its console:  ./pib console "
                          f"{server.name}")


def with_clock(program: str, run: Callable[[], tuple[str, str]]) -> str:
    """Repeats run(), a run of a perftest program that returns (output, errors), until the program could measure its
    clock; returns that run's output.

    If perftest is interrupted on a busy host while it compares cycles with microseconds, it does not know the speed of
    its processor, and its results are 0."""
    for _ in range(TRIES):
        out, errors = run()
        if "Correlation coefficient" not in errors:
            return out
    raise ui.LabError(f"{program} could not measure its processor's speed in {TRIES} runs: the host is too busy. "
                      "Try again when it is idle.")


def perftest(client: Guest, server: Guest, program: str, options: list[str],
             client_port: subnet.Port, server_port: subnet.Port, *, nodes: int = 0, limit_s: int = LIMIT_S) -> str:
    """Runs a perftest program between two guests, again if its clock failed; returns the client's output. nodes: number
    of the fabric's nodes. limit_s: seconds, in addition to those for nodes."""
    return with_clock(program, lambda: _perftest(client, server, program, options, client_port, server_port,
                                                 limit_s=limit_s + int(NODE_S * nodes)))


def _perftest(client: Guest, server: Guest, program: str, options: list[str],
              client_port: subnet.Port, server_port: subnet.Port, *, limit_s: int) -> tuple[str, str]:
    def command(port: subnet.Port) -> list[str]:
        return ["timeout", str(limit_s), program, "-F", "-d", port.device, "-i", str(port.number),
                *options]
    with contextlib.ExitStack() as stack:
        with signals.deferred():
            serving = server.start(command(server_port), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            stack.callback(serving.end)
        wait_listen(server, program)
        done = client.run([*command(client_port), server.name], timeout_s=limit_s + 30)
        if done.returncode:
            serving.end()
        text, _ = serving.communicate(timeout=limit_s + 30)
    if done.returncode or serving.returncode:
        raise ui.LabError(f"{program} {client.name} -> {server.name} failed. Look for the cause:  ./pib why\n"
                          f"{_text(done.stdout)}{_text(done.stderr)}\nserver:\n{_text(text)}")
    return _text(done.stdout), _text(done.stderr)


def _text(output: bytes) -> str:
    """A program's output as text for a terminal: without control characters, and with bytes replaced that are not
    UTF-8."""
    return ui.printable(output.decode(errors="replace"))


def columns(text: str, size: int) -> list[float]:
    """The numbers in perftest's result line for a message size."""
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == str(size):
            return [float(word) for word in words]
    raise ui.LabError(f"no result for {size} bytes. Measure again. The program printed:\n{text}")


def _active_port(node: Guest) -> subnet.Port:
    for port in subnet.ports_of(node):
        if port.state == "ACTIVE":
            return port
    raise ui.LabError(f"no port of {node.name} is ACTIVE. Look at:  ./pib status")


def measure(client: Guest, server: Guest, nodes: int = 0) -> Result:
    """Measures bandwidth and latency between two guests. nodes: number of the fabric's nodes."""
    client_port, server_port = _active_port(client), _active_port(server)
    bandwidth = columns(perftest(client, server, "ib_write_bw", ["-s", "65536", "-n", "500"],
                                 client_port, server_port, nodes=nodes), 65536)
    latency = columns(perftest(client, server, "ib_write_lat", ["-s", "8", "-n", "500"],
                               client_port, server_port, nodes=nodes), 8)
    return Result(bandwidth_mib_s=bandwidth[3], latency_us=latency[4])
