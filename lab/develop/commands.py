# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib driver, provider, reboot and console: for authors of drivers, who change a driver and try it at once."""

import argparse
import concurrent.futures
import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from lab.base import errors, paths, ui, waiting
from lab.build import guest_build, image, kernel_module, kernel_tree
from lab.develop import driver_coverage, exchange, provider, watch
from lab.fabric import cluster, ports_table, report, subnet, up
from lab.guests import console, guest, vm

NODE = re.compile(r"vm\d+")
COVERAGE = "coverage"           # word in place of a directory; a directory of this name is given as ./coverage
ACTIVE_S = 20                   # limit until ports are ACTIVE again, which takes a sweep of the subnet manager
OUR_PROVIDER = paths.ROOT / guest_build.PROVIDER


@dataclasses.dataclass(frozen=True)
class Target:
    """The arguments of a command line. directory: the sources, None for those of this tree; nodes: the guests."""
    directory: pathlib.Path | None
    nodes: list[str]

    @staticmethod
    def of(words: list[str], lab: cluster.Cluster) -> "Target":
        places = [word for word in words if not NODE.fullmatch(word)]
        if len(places) > 1:
            raise ui.LabError(f"{places[1]}: one directory at a time, and {places[0]} is the first. A guest has a name "
                              "such as vm1")
        nodes = [word for word in words if word not in places] or lab.nodes()
        if not nodes:
            raise ui.LabError("no guest runs. Start some:  ./pib up")
        for name in nodes:
            lab.node(name)      # raises LabError if the guest does not run
        return Target(pathlib.Path(places[0]) if places else None, list(dict.fromkeys(nodes)))


def image_of(lab: cluster.Cluster) -> pathlib.Path:
    """The image that the guests run. Its build tree has the headers of their kernel."""
    if own := lab.record.own_image:
        raise ui.LabError(f"the guests' driver and provider are those of {own}. Install others there, and boot guests "
                          "of it again:  ./pib down   and  ./pib up --image FILE")
    found = pathlib.Path(lab.record.image)
    if not (found / "builder").is_dir():
        raise ui.LabError(f"the guests' build tree {found} is gone. Start guests of a new one:  ./pib up")
    return found


def _each(nodes: list[str], do: Callable[[str], None]) -> None:
    """Calls do() for all guests in parallel. Raises one error with all error messages."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(nodes)) as pool:
        started = [pool.submit(do, name) for name in nodes]
    wrong = [error for one in started if (error := one.exception())]
    if wrong and not all(isinstance(error, ui.LabError) for error in wrong):
        raise wrong[0]
    if wrong:
        raise ui.LabError("\n".join(str(error) for error in wrong))


def _again(source: pathlib.Path, do: Callable[[], None]) -> int:
    """Calls do() now and after each change in the directory or in its hardware interface, until Ctrl-C. Prints errors,
    such as that of a guest that hangs or of a file that an editor has just removed, and continues."""
    directories = (source, kernel_module.common(source))
    while True:
        before = watch.look(*directories)
        try:
            do()
        except BrokenPipeError:
            raise
        except (ui.LabError, OSError, subprocess.TimeoutExpired) as error:
            ui.say(errors.sentence(error))
        ui.say(f"waiting for changes in {' and '.join(map(str, directories))}; Ctrl-C ends that")
        watch.wait(before, *directories)


# -- driver -------------------------------------------------------------------

def driver(options: argparse.Namespace) -> int:
    lab = cluster.Cluster()
    if options.words[:1] == [COVERAGE]:
        driver_coverage.show(lab, options.words[1:], options)
        return 0
    if COVERAGE in options.words:
        others = " ".join(word for word in options.words if word != COVERAGE)
        raise ui.LabError(f"{COVERAGE} comes first:  ./pib driver {COVERAGE} {others}   A directory of this name is "
                          f"./{COVERAGE}")
    if options.merge or options.html or options.reset:
        raise ui.LabError(f"--merge, --html and --reset are options of  ./pib driver {COVERAGE}")
    target = Target.of(options.words, lab)
    source = kernel_module.directory(target.directory)

    def once() -> None:         # with the lab's present state: a guest may have been rebooted meanwhile
        exchange_driver(cluster.Cluster(), source, target.nodes)
    if options.watch:
        return _again(source, once)
    once()
    return 0


def _compile(lab: cluster.Cluster, source: pathlib.Path, place: pathlib.Path) -> kernel_module.Compiled:
    """place: a directory of this command's own, for the modules."""
    base = image_of(lab)
    tools = kernel_tree.tools(base)
    with tools.locked():
        compiled = kernel_module.copied(kernel_module.compile_for(image.kernel_version(base), tools, source), place)
    kernel_module.check_binds(compiled)
    return compiled


def exchange_driver(lab: cluster.Cluster, source: pathlib.Path, nodes: list[str]) -> None:
    begun = time.monotonic()
    _each(nodes, lambda name: exchange.check_answers(lab, name))
    with tempfile.TemporaryDirectory() as place:
        compiled = _compile(lab, source, pathlib.Path(place))
        ui.say(f"compiled {_names(compiled)} in {time.monotonic() - begun:.1f} s")
        with lab.locked():      # another exchange, which takes ports away, has ended
            _exchange(lab, compiled, nodes)
    ui.say(f"{time.monotonic() - begun:.1f} s in all")


def _names(compiled: kernel_module.Compiled) -> str:
    return ", ".join(module.file.name for module in compiled.modules)


def _exchange(lab: cluster.Cluster, compiled: kernel_module.Compiled, nodes: list[str]) -> None:
    before = _before(lab)
    active = {(port.node, port.number) for ports in before.values() for port in ports if port.state == "ACTIVE"}

    def one(name: str) -> None:
        done = exchange.exchange(lab, name, compiled)
        print("\n".join([f"{name}: {_names(compiled)}, exchanged in {done.seconds:.1f} s", *done.kernel.splitlines()]),
              flush=True)
    _each(nodes, one)
    _settle(lab, list(before), _expected(lab, list(before), nodes, active))


def _before(lab: cluster.Cluster) -> dict[str, list[subnet.Port]]:
    """The ports of each guest that answers. Another driver may have left other guests in a loop."""
    seen = subnet.look(lab, guest.ANSWER_S)
    if silent := [name for name, found in seen.items() if found is None]:
        ui.say(f"{', '.join(silent)} {'does' if len(silent) == 1 else 'do'} not answer. Start anew:  "
               f"./pib reboot {silent[0]}")
    return {name: found for name, found in seen.items() if found is not None}


def _expected(lab: cluster.Cluster, asked: list[str], nodes: list[str],
              active: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """Ports that should become ACTIVE: ports that were ACTIVE before, except in guests whose new driver registered no
    device. If the guests were booted without a driver, starts their subnet manager and expects port 1 of each guest.
    asked: the guests that answer."""
    with_device = {port.node for port in subnet.ports(lab, asked)}
    if lab.record.bare and up.MANAGER in with_device:
        subnet.start_manager(lab.node(up.MANAGER))
        active = active | {(name, 1) for name in nodes}
    return {port for port in active if port[0] in with_device}


def _settle(lab: cluster.Cluster, asked: list[str], expected: set[tuple[str, int]]) -> None:
    seen: list[subnet.Port] = []

    def ready() -> bool:
        seen[:] = subnet.ports(lab, asked)
        return expected <= {(port.node, port.number) for port in seen if port.state == "ACTIVE"}
    try:
        waiting.poll("ports", ready, ACTIVE_S, every_s=subnet.POLL_S)
    except ui.LabError:
        lab.check()
        ui.say(f"not every port is ACTIVE after {ACTIVE_S} s. What the subnet manager says:  "
               f"./pib exec {up.MANAGER} -- tail /var/log/opensm.log")
    if seen:
        print(ports_table.text(seen, {}))


# -- provider -----------------------------------------------------------------

def exchange_provider(options: argparse.Namespace) -> int:
    lab = cluster.Cluster()
    target = Target.of(options.words, lab)
    source = (target.directory or OUR_PROVIDER).resolve()
    guest_build.provider_name(source)

    def once() -> None:
        now = cluster.Cluster()         # a guest may have been rebooted meanwhile
        with tempfile.TemporaryDirectory() as place:
            library = provider.compile_in(image_of(now), source, pathlib.Path(place))

            def one(name: str) -> None:
                provider.exchange(now.node(name), library, guest_build.provider_name(source))
                print(f"{name}: {library.name}. Programs that are started from now on use it", flush=True)
            with now.locked():
                _each(target.nodes, one)
    if options.watch:
        return _again(source, once)
    once()
    return 0


# -- guests -------------------------------------------------------------------

def reboot(options: argparse.Namespace) -> int:
    lab, begun = cluster.Cluster(), time.monotonic()
    up.reboot(lab, options.node)
    ui.say(f"{options.node} runs again after {time.monotonic() - begun:.1f} s")
    return 0


def show_console(options: argparse.Namespace) -> int:
    """Connects the terminal to a guest's console. Without a terminal it prints the console's text so far, with lines of
    source."""
    lab = cluster.Cluster()
    files = vm.Files(options.node, lab.sockets())
    if not files.console.exists():
        raise ui.LabError(f"{options.node} is not a guest of this lab. Its guests: {', '.join(lab.nodes()) or 'none'}")
    terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    if terminal and lab.alive(options.node) and not lab.record.hosts:
        console.attach(files)
        return 0
    said = files.console.read_text(errors="replace").replace("\r", "")
    print(report.explain(lab, options.node, ui.printable(said)))
    return 0


def _add_exchange(add, name: str, function, text: str, what: str) -> argparse.ArgumentParser:
    command = add(name, function, text)
    command.add_argument("words", nargs="*", metavar="DIR|NODE", help=f"{what}, and the guests (default: all)")
    command.add_argument("--watch", action="store_true", help="again whenever a file in the directory, or in its "
                         "hw-interface, is saved")
    return command


def add_commands(add) -> None:
    driver_coverage.add_options(_add_exchange(
        add, "driver", driver, "compile a driver, and exchange it in the running guests; 'coverage' in place of a "
        "directory: show how much of the device their driver has used",
        "a directory with the Kbuild of a module that binds to the HCA's PCI ID (default: ours)"))
    _add_exchange(add, "provider", exchange_provider, "compile the provider, and exchange it in the running guests",
                  "a directory with the CMakeLists.txt of a provider (default: ours)")
    command = add("reboot", reboot, "start a guest anew, with an empty disk and the driver of its first boot; the "
                  "others run on, as do switch and captures")
    command.add_argument("node", metavar="NODE")
    command = add("console", show_console, "a guest's serial console, where Enter starts a shell and Ctrl-] leaves; in "
                  "a pipe its text so far, with lines of source for addresses in the driver")
    command.add_argument("node", metavar="NODE")
