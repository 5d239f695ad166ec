# SPDX-License-Identifier: GPL-2.0-or-later
"""An extcap program (extcap(4)): Wireshark and tshark run it to list interfaces and their options, and to capture.
`./pib wireshark install` puts a script that starts it into the user's extcap folder."""

import argparse
import contextlib
import pathlib
import sys
from collections.abc import Iterator
from typing import BinaryIO

from lab.base import environment, errors, paths, signals, ui
from lab.fabric import capture, source
from lab.wireshark import filters, names, ports

ALL_QPS = "all"
LINK_TYPE = "dlt {number=197}{name=ERF}{display=InfiniBand packets, with ERF headers}"


# -- answers --------------------------------------------------------------------

def _sentence(text: str) -> str:
    """A text as a value in extcap's output: without braces and ends of lines, which would end it."""
    return ui.printable(text).translate({ord("{"): None, ord("}"): None, ord("\n"): " "})


def _whole(number: int, count: int) -> tuple[str, str]:
    """(name, description) of the interface for all packets of a switch process."""
    if count == 1:
        return ports.WHOLE, "pib-hca fabric: all packets"
    return f"{ports.WHOLE}{number}", f"pib-hca fabric: all packets at switch process {number}"


def interfaces(found: ports.Found) -> Iterator[str]:
    whole = [_whole(number, len(found.controls)) for number in range(len(found.controls))]
    some = [(port.interface, f"pib-hca fabric: {port.name} at {port.at}, LID {', '.join(map(str, port.lids))}")
            for port in found.ports]
    for name, display in whole + some:
        yield f"interface {{value={name}}}{{display={_sentence(display)}}}"


def choices(found: ports.Found, name: str) -> Iterator[str]:
    """Lines of the option that selects a QP of the port."""
    port = found.port(name)
    if not port or not port.hca:
        return
    yield "arg {number=0}{call=--qp}{display=QP}{type=selector}{tooltip=The switch captures only packets of this QP}"
    yield f"value {{arg=0}}{{value={ALL_QPS}}}{{display=all packets of the port}}{{default=true}}"
    for qp in found.qps(port):
        to = f", to QP {qp['dest_qpn']:#x}" if "dest_qpn" in qp else ""
        display = f"QP {qp['qpn']:#x}: {qp['type']}, {qp['state']}{to}"
        yield f"value {{arg=0}}{{value={qp['qpn']:#x}}}{{display={_sentence(display)}}}{{default=false}}"


# -- the capture ----------------------------------------------------------------

def _qpn(text: str) -> int | None:
    try:
        return None if text in ("", ALL_QPS) else int(text, 0)
    except ValueError as error:
        raise ui.LabError(f"QP {text}: expected a number, for example 0x40, or {ALL_QPS}") from error


def chosen(found: ports.Found, name: str, qp: str) -> tuple[pathlib.Path, capture.Rules]:
    """Control socket and capture rules for an interface and a QP."""
    for number, path in enumerate(found.controls):
        if _whole(number, len(found.controls))[0] == name:
            return path, []
    port = found.port(name)
    if not port:
        raise ui.LabError(f"the fabric has no port {name} any more. Its ports:  tshark -D")
    return port.control, ports.rules(found, port, _qpn(qp))


def _copy(of: source.Source, options: argparse.Namespace, out: BinaryIO) -> None:
    path, rules = chosen(ports.now(of), options.extcap_interface, options.qp)
    rules = filters.both(rules, filters.rules(options.extcap_capture_filter))
    with names.kept_fresh(options.names, lambda: names.text(ports.now(of))):
        seen = capture.relay(path, rules, out, None)
    if seen.lost:
        print(f"{seen.lost} packets were lost, because Wireshark was too slow; {seen.taken} were captured",
              file=sys.stderr)


def _capture(of: source.Source, options: argparse.Namespace) -> int:
    """Captures to the FIFO; returns the exit status. Opens the FIFO first, because Wireshark waits for it even if this
    program fails, and closes it after the messages: Wireshark then sends SIGTERM, which would interrupt them."""
    with open(options.fifo, "wb", buffering=0) as out:
        try:
            _copy(of, options, out)
            return 0
        except Exception as error:      # pylint: disable=broad-exception-caught
            return errors.status(error)


# -- the program ----------------------------------------------------------------

def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="pib", allow_abbrev=False)
    parser.add_argument("--names", type=pathlib.Path, required=True)
    parser.add_argument("--control", type=pathlib.Path)
    for name in ("interfaces", "config", "dlts"):
        parser.add_argument(f"--extcap-{name}", action="store_true")
    for name in ("version", "interface", "capture-filter"):
        parser.add_argument(f"--extcap-{name}", default="")
    parser.add_argument("--capture", action="store_true")
    parser.add_argument("--fifo", type=pathlib.Path)
    parser.add_argument("--qp", default=ALL_QPS)
    return parser.parse_known_args(words)[0]        # ignores further options of later Wireshark versions


def _list(of: source.Source, names_file: pathlib.Path) -> None:
    """Lists the interfaces; none if no fabric runs. Also writes the file of names, which Wireshark reads later."""
    print(f"extcap {{version=1.0}}{{help=file://{paths.ROOT}/docs/user-guide.md}}{{display=pib-hca}}")
    with contextlib.suppress(ui.LabError):
        found = ports.now(of)
        with contextlib.suppress(OSError):      # capturing also works without names
            names.write(names_file, names.text(found))
        print("\n".join(interfaces(found)))


def _check_filter(text: str) -> None:
    """Checks a capture filter. Wireshark shows the output as the filter's error."""
    try:
        filters.rules(text)
    except ui.LabError as error:
        print(error)


def answer(options: argparse.Namespace, of: source.Source) -> int:
    """Answers one request of Wireshark; returns the exit status."""
    if options.extcap_interfaces:
        _list(of, options.names)
    elif options.extcap_dlts:
        print(LINK_TYPE)
    elif options.extcap_config:
        print("\n".join(choices(ports.now(of), options.extcap_interface)))
    elif options.capture:
        return _capture(of, options)
    elif options.extcap_capture_filter:
        _check_filter(options.extcap_capture_filter)
    return 0


def main() -> int:
    environment.settle()
    signals.raise_on_end()
    try:
        options = _options(sys.argv[1:])
        return answer(options, source.of(options.control))
    except signals.Stopped:
        return 0                # Wireshark has stopped the capture
    except (Exception, KeyboardInterrupt) as error:     # pylint: disable=broad-exception-caught
        return errors.status(error)


if __name__ == "__main__":
    sys.exit(main())
