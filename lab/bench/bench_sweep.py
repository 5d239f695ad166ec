# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib bench --only sweep: how long opensm takes to bring up a fabric and to sweep it again, on pib-switch and, with
the same opensm, guest and topology file, on ibsim."""

import datetime
import pathlib
import re
import subprocess
import time

from lab.base import ui
from lab.bench import bench_figures
from lab.fabric import cluster, subnet, topology_kinds, up
from lab.fabric.wanted import Wanted
from lab.guests.guest import Guest
from lab.bench.bench_figures import LESS, Kind

SUBJECT, ORACLE = "pib", "ibsim"
# Numbers of hosts. The first host is the guest; the others are phantoms.
FABRICS = {16: ("single", "hosts=16"),
           128: ("fat-tree", "leaves=8", "spines=4", "hosts=16"),
           1000: ("fat-tree-3", "pods=10", "leaves=5", "middles=5", "cores=5", "hosts=20", "up=3",
                  "links=3"),
           2000: ("fat-tree-3", "pods=20", "leaves=5", "middles=5", "cores=15", "hosts=20", "up=3",
                  "links=1")}
HOST = "vm0"
FILE, LOG = "/tmp/sweep.topo", "/tmp/sweep.log"
LIGHT_SWEEPS = 3
WAIT_S = 900
VERBOSE = "0x07"                # log level of opensm at which it logs the start and end of light sweeps
# Sets ibsim's table sizes: the defaults allow 2048 nodes.
SIMULATE = f"ibsim -N 4096 -S 1024 -P 65536 -s {FILE}"
ON_ORACLE = f"SIM_HOST={HOST} LD_PRELOAD=/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so "
# Prints each log line about a light sweep after the last line with a time stamp.
MARKS = f"awk '/^[A-Z][a-z][a-z] [0-9 ][0-9] / {{ t = $0 }} /LIGHT SWEEP/ {{ print t; print }}' {LOG}"
STAMP = re.compile(r"^(\w{3} \d\d \d\d:\d\d:\d\d) (\d{6}) ")


def text(hosts: int) -> str:
    """The topology file of a fabric whose first host is the guest."""
    kind, *settings = FABRICS[hosts]
    return topology_kinds.make(kind, settings, "4xEDR").replace('"node1"', f'"{HOST}"')


def _time(line: str) -> float | None:
    found = STAMP.match(line)
    if not found:
        return None
    moment = datetime.datetime.strptime(f"2000 {found[1]}", "%Y %b %d %H:%M:%S")
    return moment.timestamp() + int(found[2]) / 1e6


def spans(log: str, begin: str, end: str) -> list[float]:
    """Seconds from each line with `begin` to the next line with `end`. A line without a time stamp has the stamp of the
    last line with one."""
    found: list[float] = []
    since: float | None = None
    now: float | None = None
    for line in log.splitlines():
        now = _time(line) or now
        if begin in line:
            since = now
        elif end in line and since is not None and now is not None:
            found.append(now - since)
            since = None
    return found


def _log(guest: Guest) -> str:
    return guest.run(["cat", LOG]).stdout.decode(errors="replace")


def heavy(guest: Guest, before: str = "") -> float:
    """Duration of the first sweep: from the start of discovery to "SUBNET UP". before: variable assignments for the
    shell."""
    done = guest.run([f"rm -f {LOG}; {before}timeout {WAIT_S} opensm -o -f {LOG}"], timeout_s=WAIT_S + 60)
    log = _log(guest)
    found = spans(log, "Entering DISCOVERING state", "SUBNET UP")
    if done.returncode or not found or " ERR " in log:
        raise ui.LabError(f"opensm did not bring the subnet up. Start again:  ./pib bench   Its log:\n{log[-3000:]}")
    return found[0]


def light(guest: Guest, before: str = "") -> float:
    """Duration of a light sweep of an unchanged subnet: the shortest of several."""
    running = guest.start([f"rm -f {LOG}; {before}exec opensm -s 1 -D {VERBOSE} -f {LOG}"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + WAIT_S
    try:
        while True:
            marks = guest.run([MARKS]).stdout.decode(errors="replace")
            found = spans(marks, "INITIATING LIGHT SWEEP", "LIGHT SWEEP COMPLETE")
            if len(found) >= LIGHT_SWEEPS:
                return min(found)
            if time.monotonic() > end or running.poll() is not None:
                raise ui.LabError("opensm made no light sweeps. Start again:  ./pib bench   Its log:\n"
                                  f"{_log(guest)[-3000:]}")
            time.sleep(1)
    finally:
        guest.run(["pkill -x opensm; while pidof opensm >/dev/null; do sleep 0.1; done; true"])
        running.kill()


def _kind(how: str, hosts: int) -> Kind:
    return Kind(f"sweep_{how}_{hosts}", f"{how} sweep of {hosts} hosts", "s", LESS)


def _measure(results: bench_figures.Results, guest: Guest, hosts: int, what: str,
             before: str = "") -> None:
    results.figure(_kind("heavy", hosts)).add(what, heavy(guest, before))
    results.figure(_kind("light", hosts)).add(what, light(guest, before))


def _on_pib(lab: cluster.Cluster, results: bench_figures.Results, hosts: int) -> None:
    """Measures on pib-switch, restarted with this fabric, so that all ports are as after power-on."""
    lab.stop_switch()
    pathlib.Path(lab.record.topology).write_text(text(hosts))
    lab.start_switch()
    subnet.wait_connected(lab)
    _measure(results, lab.node(HOST), hosts, SUBJECT)


def _on_ibsim(lab: cluster.Cluster, results: bench_figures.Results, hosts: int) -> None:
    guest = lab.node(HOST)
    guest.run([f"cat >{FILE}"], stdin=text(hosts).encode())
    # ibsim reads console commands from standard input and exits at end of file, so sleep keeps that open.
    simulator = guest.start([f"sleep 100000 | {SIMULATE} >/tmp/ibsim.out 2>&1"], stdin=subprocess.DEVNULL)
    try:
        ready = guest.run([f"for i in $(seq 600); do {ON_ORACLE} ibstat >/dev/null 2>&1 && exit 0; "
                           "sleep 0.2; done; cat /tmp/ibsim.out; exit 1"], timeout_s=WAIT_S)
        if ready.returncode:
            raise ui.LabError("ibsim did not start. Start again:  ./pib bench   It said:\n"
                              f"{ready.stdout.decode()[-2000:]}")
        _measure(results, guest, hosts, ORACLE, ON_ORACLE)
    finally:
        guest.run(["pkill -x ibsim; pkill -x sleep; true"])
        simulator.kill()


def measure(results: bench_figures.Results, run: pathlib.Path, sizes: tuple[int, ...] = ()) -> None:
    """Each round measures both simulators one after the other, for each size."""
    file = run / "sweep.topo"
    run.mkdir(parents=True, exist_ok=True)
    file.write_text(text(min(FABRICS)))
    lab = cluster.Cluster(run / "sweep")
    try:
        up.boot(lab, Wanted(1, fabric_file=file))
        lab.node(HOST).run(["pkill -x opensm; while pidof opensm >/dev/null; do sleep 0.1; done; true"])
        for number in range(results.rounds):
            for hosts in sizes or FABRICS:
                ui.say(f"round {number + 1} of {results.rounds}: {hosts} hosts")
                _on_pib(lab, results, hosts)
                _on_ibsim(lab, results, hosts)
    finally:
        lab.down()
