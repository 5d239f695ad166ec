# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib bench: rounds of measurements, everything side by side in each; results in files."""

import pathlib
import time

from lab import (bench_figures, bench_guests, bench_host, bench_plot, bench_sweep, cluster,
                 guest_kernel, host_build, kvm, paths, table, ui, up)

RUN = paths.RUN / "bench"


def _guests(results: bench_figures.Results) -> tuple[cluster.Cluster, bench_guests.Bench]:
    lab = cluster.Cluster(RUN / "lab")
    try:
        up.boot(lab, 2, direct=True)
        return lab, bench_guests.Bench(lab, results)
    except BaseException:
        lab.down()
        raise


def _measure(results: bench_figures.Results, with_guests: bool) -> None:
    lab, between = _guests(results) if with_guests else (None, None)
    try:
        for number in range(results.rounds):
            ui.say(f"round {number + 1} of {results.rounds}")
            if between:
                between.round()
            bench_host.measure_host(results, bench_guests.KINDS)
            bench_host.measure_devices(results)
            bench_host.measure_switch(results)
    finally:
        if lab:
            lab.down()


def report(results: bench_figures.Results) -> str:
    """All of a run as text."""
    facts = "\n".join(f"{name}: {value}" for name, value in results.machine.items())
    figures = table.table(bench_figures.heading(results, bench_host.DEVICE),
                          bench_figures.rows(results, bench_host.DEVICE))
    notes = "".join(f"{note}\n" for note in results.notes)
    return (f"{facts}\nmedians of {results.rounds} rounds; (N×): so many times better than that\n"
            f"\n{figures}\n\n{notes}")


def save(results: bench_figures.Results, directory: pathlib.Path) -> pathlib.Path:
    """Writes a run's three files; the path of the one for machines."""
    directory.mkdir(parents=True, exist_ok=True)
    sweeps = bench_sweep.ORACLE in results.subjects()
    against = bench_sweep.ORACLE if sweeps else bench_guests.ROCE
    name = time.strftime("%Y%m%d-%H%M%S") + "-" + results.machine["commit"].split()[0]
    for suffix, text in ((".json", bench_figures.to_json(results)), (".txt", report(results)),
                         (".svg", bench_plot.svg(results, against))):
        (directory / (name + suffix)).write_text(text)
    return directory / f"{name}.json"


def bench(rounds: int, output: pathlib.Path | None, with_guests: bool, only: str | None) -> None:
    """only: "sweep", or None for all but that."""
    host_build.build()
    bench_host.build()
    accelerator = kvm.accelerator(guest_kernel.image()) if with_guests else "none"
    results = bench_figures.Results(bench_host.machine(accelerator), rounds)
    if only == "sweep":
        bench_sweep.measure(results, RUN)
    else:
        _measure(results, with_guests)
    kept = save(results, output or RUN)
    print(report(results))
    print(f"kept in {kept} (and .txt, .svg beside it)")
