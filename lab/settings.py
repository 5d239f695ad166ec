# SPDX-License-Identifier: GPL-2.0-or-later
"""Settings of ./pib up: options of the command line, else pib.toml in the working directory, else defaults.

A team can keep pib.toml in its program's repository. Each mistake in the file is reported with its line.
"""

import argparse
import bisect
import contextlib
import dataclasses
import os
import pathlib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lab.base import ui
from lab.build import debug_kernel, image, kernel_module
from lab.fabric import wanted
from lab.guests import extra_packages, guest_kernel, hca_properties, vm
from lab.hosts import place

FILE = pathlib.Path("pib.toml")
MOST_BYTES = 1 << 20
CONNECT = "connect"
HCA = "hca"                     # table of the HCAs' properties
INT_BITS = 64                   # size of a number in TOML
SHOWN = 100                     # limit for the characters of a value in a message
# A TOML key, and keys joined by dots.
KEY = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
KEYS = rf"({KEY}(?:\s*\.\s*{KEY})*)"
# Comments and strings. A comment sign in a string, or a quote in a comment, begins nothing.
TEXT = re.compile(r'''#[^\n]*|"""(?:\\.|[^\\])*?"""|\'{3}.*?\'{3}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'''', re.DOTALL)
NAME_OF = {int: "a number", bool: "true or false", str: "text", list: "a list of texts", pathlib.Path: "a path"}


def _from(least: int, most: int | None = None) -> Callable[[int], str]:
    def wrong(value: int) -> str:
        if value >= least and (most is None or value <= most):
            return ""
        return f"expected {least} to {most}" if most else f"expected at least {least}"
    return wrong


def _one_of(*choices: str) -> Callable[[str], str]:
    return lambda value: "" if value in choices else f"expected one of {', '.join(choices)}"


def _packages(names: list[str]) -> str:
    try:
        extra_packages.check(tuple(names))
    except ui.LabError as error:
        return str(error)
    return ""


def _directory(path: pathlib.Path) -> str:
    return "" if path.is_dir() else "no such directory"


def _file(path: pathlib.Path) -> str:
    return "" if path.is_file() else "no such file"


def _new_file(path: pathlib.Path) -> str:
    return "" if path.absolute().parent.is_dir() and not path.is_dir() else "no file can be made there"


def _anything(_value: Any) -> str:
    return ""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting. wrong: returns what is wrong with a value; "" if nothing."""
    kind: type
    default: Callable[[], Any]
    wrong: Callable[[Any], str] = _anything


SETTINGS = {
    "nodes": Setting(int, lambda: 2, _from(1, wanted.MOST_NODES)),
    "topology": Setting(pathlib.Path, lambda: None, _file),
    "split": Setting(int, lambda: 1, _from(1)),
    CONNECT: Setting(list, list, place.wrong),
    "packages": Setting(list, list, _packages),
    "image": Setting(pathlib.Path, lambda: None, _file),
    "share": Setting(pathlib.Path, lambda: None, _directory),
    "kernel": Setting(str, guest_kernel.chosen, _one_of(*guest_kernel.KINDS)),
    "kernel-dir": Setting(pathlib.Path, lambda: None, _directory),
    "guest": Setting(str, lambda: os.environ.get(image.VARIABLE, image.RELEASES[0]), _one_of(*image.RELEASES)),
    "memory": Setting(int, lambda: 1024, _from(vm.LEAST_MEMORY_MIB)),
    "cpus": Setting(int, lambda: 1, _from(1, vm.MOST_CPUS)),
    "iommu": Setting(bool, lambda: False),
    "peer-copy": Setting(bool, lambda: False),
    "driver": Setting(pathlib.Path, lambda: None, _directory),
    "bare": Setting(bool, lambda: False),
    "record": Setting(pathlib.Path, lambda: None, _new_file),
}
# Settings of the lab's own image. They exclude the setting "image".
OF_OUR_IMAGE = ("packages", "kernel", "kernel-dir", "guest", "driver", "bare")
# Settings that are impossible with guests on other hosts, with their defaults.
OF_THIS_HOST = {"split": 1, "image": None, "share": None, "kernel": "debian", "kernel-dir": None, "iommu": False,
                "peer-copy": False, "record": None}
OPTION_OF = {"packages": "package"}     # options of the command line with other names than their settings


Where = dict[tuple[str, str], int]      # line of each key, by table and name


@dataclasses.dataclass(frozen=True)
class Project:
    """The checked contents of a file. hca: properties as -device takes them; "" if there are none."""
    file: pathlib.Path
    values: dict[str, Any]
    hca: str = ""
    where: Where = dataclasses.field(default_factory=dict)

    def place(self, names: Iterable[str]) -> str:
        """"FILE:LINE: " for a message about settings: the line of the last of them; "" if none is in the file."""
        lines = [self.where.get(("", name), 1) for name in names if name in self.values]
        return f"{self.file}:{max(lines)}: " if lines else ""


# -- the file ----------------------------------------------------------------

def _without_long_text(text: str) -> str:
    """The same lines without comments and strings of several lines, in which a line may look like a setting."""
    def kept(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n") if found[0].startswith(("#", '"""', "'''")) else found[0]
    return TEXT.sub(kept, text)


def _names(keys: str) -> tuple[str, ...]:
    """The names of a dotted key, without quotes and escapes."""
    inner: Any = tomllib.loads(f"{keys} = 0")
    names = []
    while isinstance(inner, dict):
        [(name, inner)] = inner.items()
        names.append(name)
    return tuple(names)


def _lines(text: str) -> Where:
    """Lines of the keys of a valid file. Tables may have the forms that settings use: [hca], hca = {…} and
    hca.ports."""
    found: Where = {}
    table: tuple[str, ...] = ()

    def note(names: tuple[str, ...], number: int) -> None:
        for key in zip(("", *names), names[:2]):
            found.setdefault(key, number)
    for number, line in enumerate(_without_long_text(text).split("\n"), 1):
        if heading := re.match(rf"\s*\[\[?\s*{KEYS}\s*\]", line):
            table = _names(heading[1])
            note(table, number)
        elif key := re.match(rf"\s*{KEYS}\s*=\s*(\{{?)", line):
            names = table + _names(key[1])
            note(names, number)
            for inner in re.findall(rf"[{{,]\s*{KEYS}\s*=", line) if key[2] else []:
                note(names + _names(inner), number)
    return found


def _failing_line(text: str, failure: type[Exception]) -> int:
    """The number of the line at which the parser fails, for a failure that names no line. It is the smallest number of
    lines, from the start of the file, with which the parser fails in the same way."""
    lines = text.split("\n")

    def fails(count: int) -> bool:
        try:
            tomllib.loads("\n".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            return False
        except failure:
            return True
        return False
    return bisect.bisect_left(range(len(lines)), True, key=fails)


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _too_large(value: Any) -> bool:
    """Whether a value is a number beyond TOML's 64 bits, which may have more digits than Python prints."""
    return isinstance(value, int) and value.bit_length() >= INT_BITS


def _wrong(setting: Setting, value: Any) -> str:
    """The error in a value; "" if there is none. A path that the system refuses, for example because it is too long, is
    an error too."""
    if setting.kind is pathlib.Path and "\0" in str(value):
        return "expected a path"
    try:
        return setting.wrong(value)
    except OSError as error:
        return error.strerror or str(error)


def _foreign(uris: list[str]) -> str:
    """Why URIs are refused in the file, which somebody else may have written; "" if they are not."""
    if any(map(place.runs_program, uris)):
        return "names a program to run here, which only the command line may:  --connect URI"
    return ""


def _fits(value: Any, kind: type) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if isinstance(value, bool):     # bool is a subclass of int
        return kind is bool
    return isinstance(value, str if kind is pathlib.Path else kind)


def _check_owner(file: pathlib.Path, looked: os.stat_result) -> None:
    """Refuses a file in the working directory that belongs to another user: it could name a driver, which is compiled,
    and a directory to share. looked: of the file there, and again of the one that was opened, because that user may
    exchange them."""
    trusted = {os.getuid(), 0}
    with contextlib.suppress(ValueError):       # sudo did not set it
        trusted.add(int(os.environ.get("SUDO_UID", "0")))
    if not {looked.st_uid, file.lstat().st_uid} <= trusted:
        raise ui.LabError(f"{file} in this directory is another user's, and names what is compiled and shared. Go to "
                          f"another directory, or name it if you trust it:  --project {file}")


class _Reader:
    """Reads one file; errors name the line of the mistake. found: the user has not named the file, which is in the
    working directory."""

    def __init__(self, file: pathlib.Path, found: bool):
        self.file = file
        self._found = found
        self._where: Where = {}

    def _refuse(self, key: tuple[str, str], reason: str) -> ui.LabError:
        return ui.LabError(f"{self.file}:{self._where.get(key, 1)}: {key[1]}: {reason}")

    def _at(self, line: int | str, reason: str) -> ui.LabError:
        return ui.LabError(f"{self.file}:{line}: {reason}")

    def _text(self) -> str:
        with open(self.file, "rb") as stream:
            if self._found:
                _check_owner(self.file, os.fstat(stream.fileno()))
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ui.LabError(f"{self.file}: larger than {MOST_BYTES} bytes, so it is not a project file")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self._at(data.count(b"\n", 0, error.start) + 1, "expected text in UTF-8") from error

    def _parsed(self) -> dict[str, Any]:
        text = self._text()
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            reason, _, place = str(error).partition(" (at ")
            found = re.match(r"line (\d+)", place)
            line = found[1] if found else len(text.splitlines())    # "at end of document": the last line
            raise self._at(line, f"this is not TOML: {reason}") from error
        except ValueError as error:
            raise self._at(_failing_line(text, ValueError), "a number has too many digits") from error
        except RecursionError as error:
            raise self._at(_failing_line(text, RecursionError), "lists or tables are nested too deeply") from error
        self._where = _lines(text)
        return data

    def _value(self, name: str, value: Any) -> Any:
        setting = SETTINGS.get(name)
        if not setting:
            raise self._refuse(("", name), f"there is no such setting. Settings: {', '.join([*SETTINGS, HCA])}")
        if not _fits(value, setting.kind) or _too_large(value):
            raise self._refuse(("", name), f"expected {NAME_OF[setting.kind]}")
        if setting.kind is pathlib.Path:
            value = self.file.parent / value
        if reason := _wrong(setting, value) or (_foreign(value) if name == CONNECT else ""):
            raise self._refuse(("", name), f"{_shown(value)}: {reason}")
        return value

    def _property(self, name: str, value: Any) -> str:
        if (not isinstance(value, (int, str)) or _too_large(value)
                or not re.fullmatch(r"[\w.:/-]+", hca_properties.word(value))):
            raise self._refuse((HCA, name), "expected a number, true, false or a word")
        if reason := hca_properties.wrong(name, value):
            raise self._refuse((HCA, name), reason)
        return f"{name}={hca_properties.word(value)}"

    def read(self) -> Project:
        data = self._parsed()
        hca = data.pop(HCA, {})
        if not isinstance(hca, dict):
            raise self._refuse(("", HCA), f"expected a table of properties: [{HCA}]")
        return Project(self.file, {name: self._value(name, value) for name, value in data.items()},
                       ",".join(self._property(name, value) for name, value in hca.items()), self._where)


def read(file: pathlib.Path, found: bool = False) -> Project:
    """Reads a file. found: the user has not named it; that of another user is then refused."""
    return _Reader(file, found).read()


# -- the command line --------------------------------------------------------

def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line gives, checked."""
    given = {}
    for name, setting in SETTINGS.items():
        option = OPTION_OF.get(name, name)
        value = getattr(options, option.replace("-", "_"))
        if value is None:
            continue
        if setting.kind is list:
            value = [word for words in value for word in words.split(",") if word]
        if reason := _wrong(setting, value):
            raise ui.LabError(f"--{option} {_shown(value)}: {reason}")
        given[name] = value
    if reason := hca_properties.wrong_in(options.hca_options or ""):
        raise ui.LabError(f"--hca-options: {reason}")
    return given


def _project(options: argparse.Namespace) -> Project:
    file = options.project or FILE
    if not options.project:
        if not file.exists():
            return Project(file, {})
        _check_owner(file, file.stat())     # the open would wait if it is a FIFO of another user
    ui.say(f"settings of {file}")
    return read(file, found=not options.project)


def _conflict(values: dict[str, Any], chosen: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """Names of settings that exclude each other, and the reason; ((), "") if there are none. values: all settings;
    chosen: settings that the user gave."""
    if values["split"] > 1 and not values["topology"]:
        return ("split",), "split is a number of processes, and needs a topology to split"
    if values["bare"] and values["driver"]:
        return ("bare", "driver"), "bare guests have no driver: leave out bare or driver"
    if chosen.get("kernel") and values["kernel-dir"]:
        return ("kernel", "kernel-dir"), "guests have one kernel: leave out kernel or kernel-dir"
    if values["image"] and (useless := [name for name in OF_OUR_IMAGE if chosen.get(name)]):
        return ("image", useless[0]), ("an image of your own has its own kernel, driver and packages: leave out "
                                       f"{useless[0]}, and install in the image what guests need")
    hosts = len(values["connect"])
    if hosts and (wrong := [name for name, plain in OF_THIS_HOST.items() if values[name] != plain]):
        return ("connect", wrong[0]), f"guests on other hosts cannot have {wrong[0]}: leave out {wrong[0]} or connect"
    if values["nodes"] < hosts:
        return ("connect", "nodes"), f"{hosts} hosts need as many guests:  ./pib up -n {hosts}"
    return _lack(values)


def _lack(values: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """A setting that the lab's kernels with checks ignore, and the reason, as _conflict()."""
    kind = values["kernel"]
    if kind not in debug_kernel.KINDS or values["kernel-dir"] or values["image"]:
        return (), ""
    if values["iommu"] and not debug_kernel.has_iommu(kind):
        return ("kernel", "iommu"), f"the {kind} kernel has no driver for an IOMMU: leave out iommu or kernel"
    if values["cpus"] > (most := debug_kernel.most_cpus(kind)):
        return ("kernel", "cpus"), f"the {kind} kernel uses {most} processors at most: choose fewer cpus"
    return (), ""


@contextlib.contextmanager
def _told_at(place: str) -> Iterator[None]:
    """Prefixes LabErrors of the block with this place."""
    try:
        yield
    except ui.LabError as error:
        raise ui.LabError(f"{place}{error}") from error


def _driver(values: dict[str, Any]) -> pathlib.Path | None:
    return None if values["bare"] else kernel_module.directory(values["driver"])


def settle(options: argparse.Namespace) -> wanted.Wanted:
    """The guests that options and file ask for. Also chooses kernel and release for the rest of this command."""
    project, given = _project(options), _given(options)
    chosen = project.values | given
    values = {name: setting.default() for name, setting in SETTINGS.items()} | chosen
    hca = options.hca_options if options.hca_options is not None else project.hca
    peer_copy = values["peer-copy"] or hca_properties.is_on(hca, "peer-copy")
    names, reason = _conflict(values | {"peer-copy": peer_copy}, chosen)

    def place_of(*names: str) -> str:
        return project.place(name for name in names if name not in given)
    if reason:
        raise ui.LabError(place_of(*names) + reason)
    with _told_at(place_of("kernel-dir")):
        if values["kernel-dir"]:
            guest_kernel.choose_tree(values["kernel-dir"])
        else:
            guest_kernel.choose(values["kernel"])
    with _told_at(place_of("driver")):
        driver = _driver(values)
    image.choose(values["guest"])
    with _told_at(place_of("kernel", "guest")):
        guest_kernel.check()
    share, own = values["share"], values["image"]
    return wanted.Wanted(values["nodes"], ",".join(filter(None, (hca, vm.PEER_COPY if values["peer-copy"] else ""))),
                         vm.Size(values["memory"], values["cpus"], values["iommu"]), values["topology"],
                         switch_processes=values["split"], packages=tuple(sorted(set(values["packages"]))),
                         packages_place=f"{packages}packages: " if (packages := place_of("packages")) else "",
                         share=share.resolve() if share else None,
                         driver=driver, image_file=own.resolve() if own else None,
                         hosts=place.hosts(values["connect"]),
                         record=values["record"].resolve() if values["record"] else None)


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the options. The default of each is None, so that the file can decide."""
    command.add_argument("--project", type=pathlib.Path, metavar="FILE",
                         help=f"take settings from this file (default: {FILE}, if there is one); options win over it")
    command.add_argument("-n", "--nodes", type=int, metavar="N", help="number of guests (default 2)")
    command.add_argument("--hca-options", metavar="PROPERTIES",
                         help="more properties of -device pib-hca, e.g. ports=2,link-speed=hdr")
    command.add_argument("--peer-copy", action="store_true", default=None,
                         help="peer copy: the switch gets the guests' memory and copies long messages between them")
    command.add_argument("--memory", type=int, metavar="MIB", help="memory of a guest (default 1024)")
    command.add_argument("--cpus", type=int, metavar="N",
                         help="processors of a guest (default 1); the driver has a completion vector for each")
    command.add_argument("--iommu", action="store_true", default=None,
                         help="each guest has an IOMMU (VT-d) in front of its devices")
    command.add_argument("--topology", type=pathlib.Path, metavar="FILE",
                         help="run the fabric of this file, with the guests as hosts (see the command topology); "
                              "default: one switch")
    command.add_argument("--split", type=int, metavar="N",
                         help="run the topology in N pib-switch processes, joined by sockets (default 1)")
    command.add_argument("--connect", action="append", metavar="URI,…",
                         help="libvirt runs the guests and their switches on these hosts, such as "
                              "qemu+ssh://a/system,qemu+ssh://b/system")
    command.add_argument("--package", action="append", metavar="NAME,…",
                         help="additional packages of Debian's component main in the guests, e.g. fio,openmpi-bin; "
                              "installed once, then cached; may be repeated. Their services do not start")
    command.add_argument("--image", type=pathlib.Path, metavar="FILE",
                         help="guests boot this disk image, raw or qcow2, with their driver, provider and opensm "
                              "installed; the file is never written")
    command.add_argument("--share", type=pathlib.Path, metavar="DIR",
                         help="directory of this machine that all guests see as /share")
    driver = command.add_mutually_exclusive_group()
    driver.add_argument("--driver", type=pathlib.Path, metavar="DIR",
                        help="compile and load the driver in this directory, which has a Kbuild or Makefile")
    driver.add_argument("--bare", action="store_true", default=None,
                        help="the guests' HCAs have no driver; pib driver loads one")
    command.add_argument("--record", type=pathlib.Path, metavar="FILE",
                         help="record all input of each guest's HCA, in FILE with the guest's name, as run-vm0.rec; "
                              "pib replay plays that back")
    command.add_argument("--kernel", metavar="KIND",
                         help="debian: as released (default); lockdep: compiled with the kernel's checks of locking, "
                              "sleeping, lists and DMA; kasan: with its checks of memory, undefined behaviour, leaks "
                              "and locking, and failing allocations. Each is compiled once, in some minutes")
    command.add_argument("--kernel-dir", type=pathlib.Path, metavar="DIR",
                         help="boot the kernel and modules that  make bzImage modules  has built in this tree; the "
                              "driver is compiled against it")
    command.add_argument("--guest", metavar="RELEASE",
                         help=f"the guests' Debian release (default: {image.VARIABLE}, or trixie): trixie has kernel "
                              "6.12 and rdma-core 56, bookworm 6.1 and 44, trixie-backports the newest kernel that "
                              "Debian has for trixie")
