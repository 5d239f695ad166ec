# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples of a running lab: memory, file descriptors and threads of QEMU and of the switch, objects of the HCAs, and
error counters of the switches' ports."""

import csv
import dataclasses
import pathlib
import re
from collections.abc import Iterable

from lab.base import ui
from lab.fabric import cluster, control, evidence
from lab.guests import vm

PROC = pathlib.Path("/proc")
# Mappings of at least this size are guest RAM and TCG's code buffer, which fill as the guest works.
GUEST_KIB = 512 << 10
# For each block of code that TCG has translated, QEMU's heap has a node of a tree and an entry of a hash table, until
# the code buffer is full. Measured: 4,448 KiB for 82,000 blocks.
BLOCK_BYTES = 56
BLOCKS = re.compile(r"^TB count\s+(\d+)", re.MULTILINE)
# Counters that no load raises. LinkDowned and PortXmitDiscards are absent: loads that take links down raise them.
ERRORS = ("SymbolErrors", "PortRcvErrors", "PortRcvRemotePhysicalErrors", "PortRcvConstraintErrors",
          "PortXmitConstraintErrors", "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors")


@dataclasses.dataclass(frozen=True)
class Sample:
    """seconds: since the start of the soak. phase: name of the running load, or QUIET. values: by name, see
    rule.LIMITS. """
    seconds: float
    phase: str
    values: dict[str, float]


QUIET = "quiet"


def _number(line: str) -> int:
    return int(line.split()[1])


def memory_kib(smaps: str) -> int:
    """Resident memory of a process in KiB, without large mappings (see GUEST_KIB). smaps: text of the file in /proc."""
    total = size = 0
    for line in smaps.splitlines():
        if line.startswith("Size:"):
            size = _number(line)
        elif line.startswith("Rss:") and size < GUEST_KIB:
            total += _number(line)
    return total


def blocks_kib(info: str) -> float:
    """Memory of QEMU's heap for translated blocks in KiB; 0 without TCG. info: the monitor's answer to `info jit`."""
    found = BLOCKS.search(info.replace("\r", ""))
    return int(found[1]) * BLOCK_BYTES / 1024 if found else 0.0


def process(pid: int, proc: pathlib.Path = PROC) -> dict[str, float]:
    """Memory in KiB, number of file descriptors and of threads of a process."""
    directory = proc / str(pid)
    try:
        return {"memory": memory_kib((directory / "smaps").read_text()),
                "descriptors": len(list((directory / "fd").iterdir())),
                "threads": len(list((directory / "task").iterdir()))}
    except OSError as error:
        raise ui.LabError(f"process {pid} cannot be read ({error.strerror}): has it ended? Look at:  ./pib status"
                          ) from error


def objects(hcas: Iterable[evidence.Json]) -> float:
    """Number of objects of all kinds in all HCAs of a guest."""
    return sum(part["count"] for hca in hcas for part in hca["objects"].values()
               if isinstance(part, dict) and isinstance(part.get("count"), int))


def errors(controls: list[pathlib.Path]) -> float:
    """Sum of the counters in ERRORS over all ports of the switches."""
    return sum(port.get(name, 0) for asked, switch in control.every_switch(controls)
               for port in asked.ask("counters", switch=switch)["ports"] for name in ERRORS)


def read(lab: cluster.Cluster) -> dict[str, float]:
    """The present values, by name. A name has the kind of the value, and the process or guest."""
    values: dict[str, float] = {}
    names = [*(switch.name for switch in lab.switches()), *lab.nodes()]
    for name in names:
        values |= {f"{kind} {name}": value for kind, value in process(lab.record.processes[name].pid).items()}
    for name, found in evidence.guests(lab).items():
        if found is None:
            raise ui.LabError(f"QEMU of {name} does not answer. What runs:  ./pib status")
        values[f"objects {name}"] = objects(found["hcas"])
        values[f"memory {name}"] -= blocks_kib(vm.monitor_line(lab.monitor(name), "info jit"))
    values["errors fabric"] = errors([switch.control for switch in lab.switches()])
    return values


def columns(samples: list[Sample]) -> list[str]:
    return sorted({name for sample in samples for name in sample.values})


def write_csv(samples: list[Sample], path: pathlib.Path) -> None:
    names = columns(samples)
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["seconds", "phase", *names])
        for sample in samples:
            rows.writerow([f"{sample.seconds:.1f}", sample.phase,
                           *(f"{sample.values[name]:g}" if name in sample.values else "" for name in names)])
