# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib: the command line. Each subcommand calls one module."""

import argparse
import dataclasses
import pathlib
import re
import sys

from lab import ci, clean, complete, libvirt, reach, settings, status
from lab.base import environment, errors, paths, signals, ui
from lab.bench import bench
from lab.build import checkpatch, debian, deps, guest_build, image, qemu_headers
from lab.develop import commands as develop, debug_commands, replay, trace
from lab.fabric import (capture, causes, cluster, ctl, evidence, report, source, spread, top, topology_kinds, up,
                        wanted, why)
from lab.guests import guest_kernel, relay
from lab.fabric import map as fabric_map
from lab.soak import soak
from lab.testing import fuzz, parts, simulate
from lab.web import metrics, server as web_server, watch
from lab.wireshark import install, names as wireshark_names, ports as wireshark_ports


MOST_PORT = 65535


def _help(options) -> int:
    parser().parse_args([*([options.about] if options.about else []), "--help"])
    return 0


def _build(_options) -> int:
    up.prepare()
    return 0


def _words(rest: list[str]) -> list[str]:
    """The words after "--", which ends pib's own options."""
    return rest[1:] if rest[:1] == ["--"] else rest


def _exec(options) -> int:
    node = [] if options.all else options.command[:1]
    command = _words(options.command[len(node):])
    if not command or node == ["--"]:
        raise ui.LabError("exec: no command, or no guest. Usage:  ./pib exec NODE -- COMMAND…   or  "
                          "./pib exec --all -- COMMAND…")
    if options.all:
        return reach.exec_all(cluster.Cluster(), command)
    terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    return _attach(node[0], command, terminal and not relay.in_background())


def _attach(name: str, command: list[str], terminal: bool) -> int:
    lab = cluster.Cluster()
    node = lab.node(name)
    with report.told(lab, name):
        return node.attach(command, terminal=terminal)


def _shell(options) -> int:
    return _attach(options.node, [], True)


def _run(options) -> int:
    status.run(cluster.Cluster(), options.number, options.fabric, _words(options.arguments))
    return 0


def _up(options) -> int:
    return up.up(settings.settle(options))


def _bench(options) -> int:
    if options.rounds < 1:
        raise ui.LabError(f"--rounds {options.rounds}: expected at least 1")
    return bench.bench(options.rounds, options.output, options.guests, options.only)


def _guest_build(_options) -> int:
    up.machine()
    for tree in guest_build.build(guest_kernel.image()):
        print(tree)
    return 0


def _kvm(options) -> int:
    up.machine(needed=guest_kernel.needed(builds=False))
    return status.accelerator(options.again)


def _image(_options) -> int:
    up.machine(needed=dataclasses.replace(guest_kernel.needed(builds=False), compiles=False))
    print(image.ensure())
    return 0


def _checkpatch(_options) -> int:
    found = (checkpatch.complaints(checkpatch.driver_files())
             + checkpatch.complaints(checkpatch.glue_files(), checkpatch.QEMU))
    print("\n".join(found) or "checkpatch has no complaints")
    return 1 if found else 0


def _print(function):
    """Adds a command that prints a result."""
    def command(_options) -> int:
        print(function())
        return 0
    return command


def _add_lab(add) -> None:
    command = add("up", _up, "build all, boot the guests, join them to one subnet, measure")
    settings.add_options(command)
    command = add("ci", lambda options: ci.from_options(options, _words(options.command)),
                  "boot guests, run one command, keep logs and a verdict, and end all")
    ci.add_options(command)
    command = add("exec", _exec, "run a command in a guest, as root")
    command.usage = "pib exec [-h] (NODE | --all) -- COMMAND ..."
    command.add_argument("--all", action="store_true",
                         help="run it in all guests in parallel; each line of output begins with the guest's name")
    command.add_argument("command", nargs=argparse.REMAINDER, metavar="NODE -- COMMAND",
                         help="one word is a line for the guest's shell, several words are passed unchanged. The "
                              "command ends in the guest when this one ends, or when nobody reads its output")
    command = add("cp", lambda options: reach.copy(cluster.Cluster(), options.files),
                  "copy files and directories into guests, out of them, or from one to another")
    command.add_argument("files", nargs="+", metavar="FILE",
                         help="a path here, or NODE:PATH in a guest; the last one is the target")
    add("ssh-config", _print(lambda: reach.ssh_config(cluster.Cluster())),
        "print a configuration with which ssh, scp, rsync and others reach the guests by name")
    command = add("shell", _shell, "open a shell in a guest")
    command.add_argument("node", metavar="NODE")
    add("status", lambda _options: status.status(cluster.Cluster()), "show the running lab and its ports")
    command = add("kvm", _kvm, "show whether guests run with KVM")
    command.add_argument("--again", action="store_true", help="ignore the result of an earlier probe, and probe again")
    command = add("down", lambda options: status.down(options.all), "stop guests and switch")
    command.add_argument("--all", action="store_true", help="also stop the guests of tests and benchmarks")
    command = add("libvirt-xml", libvirt.show, "print the libvirt domain of a VM of your own on the fabric")
    _add_place(command)
    libvirt.add_options(command)
    command = add("run", _run, "print the QEMU command line for a VM of your own on the fabric")
    _add_place(command)
    command.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARGUMENTS",
                         help="the rest of your command line, e.g. -accel kvm -m 2G disk.qcow2")


def _add_place(command) -> None:
    command.add_argument("--number", type=int, default=wanted.MOST_NODES, metavar="N",
                         help="number from which the VM's GUIDs are derived; the lab's own guests count from 0 "
                              "(default: the first number that they never have)")
    command.add_argument("--fabric", default="", metavar="ADDRESS",
                         help="address of the switch (default: the running lab's)")


def _map(options) -> int:
    lab = None if options.control else cluster.Cluster()
    if lab:
        spread.refuse(lab, "map")
    picture, rates = fabric_map.look([switch.control for switch in lab.running_switches()] if lab else options.control)
    for process, names in (evidence.ended_switches(lab) if lab else {}).items():
        ui.say(f"{causes.ended_name(process, names)} does not run, so the map lacks its switches. Start it again:  "
               "./pib up")
    if options.svg:
        fabric_map.draw(picture, rates, options.svg)
        ui.say(f"drawn in {options.svg}")
    else:
        print(fabric_map.text(picture, rates), end="")
    return 0


def _metrics(options) -> int:
    if not 1 <= options.port <= MOST_PORT:
        raise ui.LabError(f"--port {options.port}: expected 1 to {MOST_PORT}")
    if not options.control:
        spread.refuse(cluster.Cluster(), "metrics")

    def controls() -> list[pathlib.Path]:
        return options.control or metrics.of_lab(cluster.Cluster())
    controls()                      # raises LabError if no lab runs
    metrics.serve(controls, options.port)
    return 0


def _ctl(options) -> int:
    words = _words(options.words)
    if not words:
        raise ui.LabError("ctl: no command. Usage:  ./pib ctl COMMAND…   docs/pib-switch.md lists them; one is:  "
                          "./pib ctl status")
    chosen = [*(["--json"] if options.json else []), *(["--switch", options.switch] if options.switch else [])]
    return ctl.ctl(cluster.Cluster(), options.process, chosen + words)


def _why(options) -> int:
    found, lab = source.reached("why", options.control), cluster.Cluster()
    if not options.control and not lab.state:
        raise ui.LabError("nothing runs. Start the lab:  ./pib up")
    print(ui.named(why.answer(found.evidence(), options.about)))
    return 0


def _top(options) -> int:
    spread.refuse(cluster.Cluster(), "top")
    top.top(cluster.Cluster, options.interval, options.once)
    return 0


def _capture(options) -> int:
    return capture.capture(cluster.Cluster(), options.node, options.qp, options.count)


def _wireshark(options) -> int:
    if options.action != "remove" and not options.control:
        spread.refuse(cluster.Cluster(), "wireshark" if options.action == "install" else "wireshark names")
    if options.action == "names":
        print(wireshark_names.text(wireshark_ports.now(source.of(options.control))), end="")
    else:
        ui.say(install.remove() if options.action == "remove" else install.install(options.control))
    return 0


def _web(options) -> int:
    if not 0 <= options.port <= MOST_PORT:
        raise ui.LabError(f"--port {options.port}: expected 0 to {MOST_PORT}")
    found = source.reached("web", options.control)
    web_server.serve(watch.Watcher(found), options.address, options.port, options.address_file)
    return 0


def _add_web(add) -> None:
    command = add("web", _web, "show the running fabric in a browser, live; prints the page's address")
    command.add_argument("--address", default="127.0.0.1", metavar="ADDRESS",
                         help="IP address to listen on (default: the loopback address). There is no encryption: from "
                              "another host rather use  ssh -L 8470:127.0.0.1:8470")
    command.add_argument("--port", type=int, default=8470, help="TCP port (default 8470); 0: an unused one")
    command.add_argument("--address-file", type=pathlib.Path, metavar="FILE",
                         help="write the page's address, with its token, to this file, which only you can read, "
                              "instead of printing it: for programs whose output goes to a log")
    _add_controls(command)


def _add_controls(command) -> None:
    command.add_argument("--control", type=pathlib.Path, metavar="PATH", action="append", default=[],
                         help="control socket of a pib-switch (default: the lab's); may be repeated, for a fabric of "
                              "several processes")


def _add_capture(add) -> None:
    command = add("capture", _capture, "write packets of the running fabric to standard output, as pcapng, live")
    command.add_argument("node", nargs="?", default="", metavar="NODE",
                         help="only packets from or to this guest (default: all packets)")
    command.add_argument("--qp", type=trace.qpn, metavar="N",
                         help="only packets of this QP, and of its peer to it; for example 0x40")
    command.add_argument("--count", type=int, metavar="N", help="end after this many packets")


def _add_wireshark(add) -> None:
    command = add("wireshark", _wireshark, "show the running fabric's ports as interfaces in Wireshark and tshark")
    command.add_argument("action", nargs="?", default="install", choices=["install", "remove", "names"],
                         help="install: put the interface program and the dissector plugin into Wireshark's personal "
                              "folders (default); remove: remove them; names: print the names of LIDs and QPs, as the "
                              "plugin reads them")
    command.add_argument("--control", type=pathlib.Path, metavar="PATH",
                         help="control socket of a pib-switch (default: the lab's)")


def _add_views(add) -> None:
    _add_capture(add)
    _add_wireshark(add)
    command = add("ctl", _ctl, "control the running fabric's switch: status, counters, cables, faults")
    command.add_argument("--process", type=int, default=0, metavar="N",
                         help="number of the switch process, in a fabric that is split (default 0)")
    command.add_argument("--json", action="store_true", help="print the answer as JSON")
    command.add_argument("--switch", metavar="NODE", help="a switch of a topology, by name or GUID")
    command.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND",
                         help="as for pib-switch ctl: status, lft, link PORT down, fault PORT --drop 0.01, …. "
                              "vm1 or vm1[2] is the switch's port that leads to this port of a guest")
    command = add("why", _why, "explain in words, with causes and times, what failed in the running fabric")
    command.add_argument("about", nargs="?", default="", metavar="NODE|PORT|QP",
                         help="a guest or switch (vm1, leaf2), a port (vm1[1], leaf2[3]) or a QP (0x41, vm1:0x41); "
                              "default: everything noteworthy, newest last")
    _add_controls(command)
    command = add("top", _top, "show QPs, links and guests by load, again and again; once in a pipe")
    command.add_argument("--once", action="store_true", help="print one table as text")
    command.add_argument("--interval", type=float, default=top.INTERVAL_S, metavar="SECONDS",
                         help=f"seconds between two samples (default {top.INTERVAL_S:g})")
    command = add("map", _map, "show the live fabric: nodes, links, states, LIDs, traffic")
    command.add_argument("--svg", type=pathlib.Path, metavar="FILE", help="draw the fabric to this file")
    _add_controls(command)
    _add_web(add)
    other = add("metrics", _metrics, "serve the fabric's counters for Prometheus on the loopback address")
    other.add_argument("--port", type=int, default=9417, help="TCP port (default 9417)")
    _add_controls(other)


def _topology(options) -> int:
    print(ui.named(topology_kinds.make(options.kind, options.settings, options.speed)), end="")
    return 0


def _add_topology(add) -> None:
    command = add("topology", _topology, "print a topology file of one of the usual kinds")
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.epilog = f"kinds, and what can be set:\n{topology_kinds.usage()}"
    command.add_argument("kind", metavar="KIND")
    command.add_argument("settings", nargs="*", metavar="NAME=NUMBER")
    command.add_argument("--speed", default=topology_kinds.DEFAULT_SPEED,
                         help="width and speed of every link, 1xSDR to 12xNDR (default "
                              f"{topology_kinds.DEFAULT_SPEED})")


def _add_steps(add) -> None:
    add("build", _build, "install and build what up needs, but start nothing")
    add("guest-build", _guest_build, "build driver, provider and test programs for guests")
    add("image", _image, "make the guest image and its build tree; print where")
    command = add("clean", lambda options: clean.clean(options.entries, options.unused, options.all),
                  "show what the cache holds, with sizes, or free it")
    command.add_argument("entries", nargs="*", metavar="ENTRY", help="entry to free")
    command.add_argument("--unused", type=int, metavar="DAYS",
                         help="free the entries that were not used for this many days")
    command.add_argument("--all", action="store_true", help="free all entries that are not in use")


def _test(options) -> int:
    simulation = simulate.Wanted(options.seconds, options.seed, options.seeds, options.script)
    if simulation != simulate.Wanted() and options.part not in ("simulate", parts.ADVERSARY):
        raise ui.LabError("--seed and --seeds belong to: ./pib test simulate and ./pib test adversary; --seconds and "
                          "--script to: ./pib test simulate")
    if options.part == parts.ADVERSARY and (options.seconds is not None or options.script is not None):
        raise ui.LabError("--seconds and --script belong to: ./pib test simulate")
    if options.pattern is not None and options.part != "mutants":
        raise ui.LabError("PATTERN belongs to: ./pib test mutants PATTERN")
    return parts.test(options.part, simulation, options.pattern)


def _fuzz(options) -> int:
    if options.target is None:
        print(fuzz.show())
        return 0
    seconds = options.seconds if options.hours is None else round(options.hours * 3600)
    return fuzz.fuzz(fuzz.Wanted(options.target, seconds, options.record, options.keep))


def _add_fuzz(add) -> None:
    command = add("fuzz", _fuzz, "feed a parser of untrusted input with inputs that reach new code, under sanitizers")
    command.add_argument("target", nargs="?", metavar="TARGET",
                         help=f"default: list the targets, and what each covers; {fuzz.ALL}: one after the other")
    length = command.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=int, default=fuzz.DEFAULT_S, metavar="N",
                        help=f"time of each target (default {fuzz.DEFAULT_S})")
    length.add_argument("--hours", type=float, metavar="H", help="the same in hours")
    command.add_argument("--record", action="store_true", help="add executions and coverage to docs/fuzzing.md")
    command.add_argument("--keep", action="store_true",
                         help="replace the target's inputs in tests/fuzz/corpus by the fewest that reach the same code")


def _soak(options) -> int:
    folder = options.output or paths.RUN / soak.NAME / "results"
    return soak.soak(soak.Job(options.hours, options.guests, folder.resolve()))


def _add_soak(add) -> None:
    command = add("soak", _soak, "disturb a lab of its own for hours under traffic; nothing may grow")
    command.add_argument("--hours", type=float, required=True, metavar="N",
                         help="time of the loads; the last round ends later")
    command.add_argument("--guests", type=int, default=3, metavar="N", help="number of guests (default 3)")
    command.add_argument("--output", type=pathlib.Path, metavar="DIR",
                         help="directory for samples.csv, soak.json and soak.svg (default: .lab/soak/results)")


def _add_simulation(command) -> None:
    more = command.add_argument_group("options of the parts simulate and adversary")
    more.add_argument("--seconds", type=int, metavar="N", help=f"time to run (default {simulate.DEFAULT_S})")
    more.add_argument("--seed", type=int, metavar="S", help="first seed (default: another one in each run)")
    more.add_argument("--seeds", type=int, metavar="N", help="number of seeds, instead of a time (adversary: "
                      f"default {parts.ADVERSARY_SEEDS})")
    more.add_argument("--script", type=pathlib.Path, metavar="FILE", help="the steps that a failure has printed")


def _add_development(add) -> None:
    """Adds the commands that need a checkout."""
    command = add("test", _test,
                  "run the tests: unit tests, then tests in booted guests")
    command.add_argument("part", nargs="?", choices=[*parts.PARTS, parts.ALL],
                         help="part to run; lockdep: the guest tests on a kernel that checks its "
                              "locking; kasan: on one that checks its accesses to memory, with allocations that "
                              "fail; bookworm: the guest tests in Debian 12; sockets, peer-copy: the guest "
                              "tests over other kinds of links; strict: with devices that stop when the driver "
                              "breaks a rule; adversary: with devices that do what the manual permits and others do "
                              "not, a boot for each seed; kvm: tests that need KVM, on an emulated host "
                              "if this one has none; tsan: tests with threads, under the thread sanitizer; "
                              "coverage: lines and branches that unit tests execute; kernels: "
                              "compile driver and provider for all kernels and rdma-core releases of Debian, and "
                              "boot the newest kernel of trixie-backports; qemu: the device in the QEMUs of Debian "
                              "13 and its backports, and a newer one of testing; arm: compiled for 64-bit Arm, unit "
                              "tests with pages of 4, 16 and 64 KiB; "
                              "web: the page of ./pib web in a browser; "
                              "debug: sessions of ./pib gdb and ./pib crash with guests; "
                              "packages: build Debian packages and the container, and use them in clean trees; "
                              "simulate: random fabrics against a reference model of verbs; "
                              "mutants: deliberate defects, each of which a test must find; "
                              "style: a part of unit; all: every part, and the tests that are marked nightly, which "
                              "takes a night. Default: unit and guest")
    command.add_argument("pattern", nargs="?", metavar="PATTERN",
                         help="names of mutants, or a part of them; an option of the part mutants (default: all)")
    _add_simulation(command)
    _add_fuzz(add)
    _add_soak(add)
    command = add("bench", _bench, "measure the HCA, Soft-RoCE and the limits of this machine")
    command.add_argument("--rounds", type=int, default=5, metavar="N",
                         help="number of rounds; their medians count (default 5)")
    command.add_argument("--no-guests", dest="guests", action="store_false",
                         help="only the measurements without virtual machines")
    command.add_argument("--only", choices=[*bench.NAMES, bench.SWEEP], action="append", metavar="GROUP",
                         help="group to measure, see below; may be repeated. Default: all but "
                         f"{', '.join(group.name for group in bench.GROUPS if group.on_request)} and {bench.SWEEP}")
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.epilog = "groups, and seconds of a round:\n" + "\n".join(
        [f"  {group.name:<10} {group.seconds:>4}  {group.about}" for group in bench.GROUPS]
        + [f"  {bench.SWEEP:<10} {bench.SWEEP_S:>4}  opensm's sweeps of 16 to 2,000 hosts, and ibsim's"])
    command.add_argument("--output", type=pathlib.Path, metavar="DIR",
                         help="directory for the results: JSON, table and plot (default: .lab/bench)")
    add("deps", lambda _options: deps.install(deps.TEST_LIST),
        "install the Debian packages that are missing")
    add("qemu-headers", _print(qemu_headers.ensure),
        "make the headers of the installed QEMU; print where")
    add("checkpatch", _checkpatch, "check the driver against the kernel's coding style, the glue against QEMU's")


class _Version(argparse.Action):
    """The version in meson.build, in a clone with the commit; or the version from which an installed lab was built."""

    def __init__(self, option_strings, dest):
        super().__init__(option_strings, dest, nargs=0, help="show the version")

    def __call__(self, parser_, _options, _values, _name=None):
        if paths.INSTALLED:
            print(f"pib-hca {paths.INSTALLED['version']}, for QEMU {paths.INSTALLED['qemu']}")
            parser_.exit()
        found = re.search(r"version: '([^']+)'", (paths.ROOT / "meson.build").read_text())
        commit = debian.output("git", "-C", str(paths.ROOT), "describe", "--always", "--dirty").strip()
        print(f"pib-hca {found[1] if found else '?'}" + (f" ({commit})" if commit else ""))
        parser_.exit()


def parser(installed: bool = bool(paths.INSTALLED)) -> argparse.ArgumentParser:
    top = complete.Parser(prog="pib", description="InfiniBand HCAs made of software, in virtual machines on this host.")
    top.add_argument("--version", action=_Version)
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, function, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function)
        return command

    _add_lab(add)
    command = add("help", _help, "show all commands, or the options of one")
    command.add_argument("about", nargs="?", metavar="COMMAND", help="as ./pib COMMAND --help")
    develop.add_commands(add)
    debug_commands.add_commands(add)
    trace.add_commands(add)
    replay.add_commands(add)
    _add_views(add)
    _add_topology(add)
    _add_steps(add)
    if not installed:
        _add_development(add)
    return top


def installed_parser() -> argparse.ArgumentParser:
    """The parser of an installed lab. pib(1) is generated from it."""
    return parser(installed=True)


def _command() -> int | str | None:
    try:
        complete.offer(top := parser())
        options = top.parse_args(sys.argv[1:] or ["help"])
        return options.function(options)
    except SystemExit as end:       # argparse raises it after --help and after an error it printed
        return end.code


def main() -> int | str | None:
    environment.settle()
    signals.raise_on_end()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.reconfigure(errors="replace")     # type: ignore[attr-defined]  # a TextIOWrapper
        code = _command()
        if sys.stdout:
            sys.stdout.flush()
        return code
    except (Exception, KeyboardInterrupt) as error:     # pylint: disable=broad-exception-caught
        return errors.status(error)


if __name__ == "__main__":
    sys.exit(main())
