# SPDX-License-Identifier: GPL-2.0-or-later
"""Readings of a running lab: memory, descriptors and threads of QEMU and of the switch, objects of the HCAs, and error
counters of the switches' ports."""

import csv
import dataclasses
import pathlib
import re
from collections.abc import Iterable

from lab import ui
from lab.fabric import cluster, control, evidence

PROC = pathlib.Path("/proc")
# A guest's own memory and the code that TCG makes of it fill as the guest works; they are mapped in such pieces.
GUEST_KIB = 512 << 10
MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ ")
# Counters that no load raises: links that are taken down count LinkDowned, and discard packets.
ERRORS = ("SymbolErrors", "PortRcvErrors", "PortRcvRemotePhysicalErrors", "PortRcvConstraintErrors",
          "PortXmitConstraintErrors", "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors")


@dataclasses.dataclass(frozen=True)
class Sample:
    """seconds: since the beginning. phase: the load that runs; QUIET: none. values: by name, see rule.LIMITS."""
    seconds: float
    phase: str
    values: dict[str, float]


QUIET = "quiet"


def _number(line: str) -> int:
    return int(line.split()[1])


def memory_kib(smaps: str) -> int:
    """Resident memory of a process without the large mappings, which are a guest's."""
    total = size = 0
    for line in smaps.splitlines():
        if line.startswith("Size:"):
            size = _number(line)
        elif line.startswith("Rss:") and size < GUEST_KIB:
            total += _number(line)
    return total


def process(pid: int, proc: pathlib.Path = PROC) -> dict[str, float]:
    """Memory in KiB, descriptors and threads."""
    directory = proc / str(pid)
    try:
        return {"memory": memory_kib((directory / "smaps").read_text()),
                "descriptors": len(list((directory / "fd").iterdir())),
                "threads": len(list((directory / "task").iterdir()))}
    except OSError as error:
        raise ui.LabError(f"process {pid} cannot be read ({error.strerror}): has it ended? Look at:  ./pib status"
                          ) from error


def objects(hcas: Iterable[evidence.Json]) -> float:
    """Number of objects of all kinds, of all HCAs of a guest."""
    return sum(part["count"] for hca in hcas for part in hca["objects"].values()
               if isinstance(part, dict) and isinstance(part.get("count"), int))


def errors(controls: list[pathlib.Path]) -> float:
    """Sum over all ports of the switches of the counters that no load raises."""
    return sum(port.get(name, 0) for asked, switch in control.every_switch(controls)
               for port in asked.ask("counters", switch=switch)["ports"] for name in ERRORS)


def read(lab: cluster.Cluster) -> dict[str, float]:
    """The present values, by kind and what they belong to."""
    values: dict[str, float] = {}
    names = [*(switch.name for switch in lab.switches()), *lab.nodes()]
    for name in names:
        values |= {f"{kind} {name}": value for kind, value in process(lab.record.processes[name].pid).items()}
    for name, found in evidence.guests(lab).items():
        if found is None:
            raise ui.LabError(f"QEMU of {name} does not answer. What runs:  ./pib status")
        values[f"objects {name}"] = objects(found["hcas"])
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
