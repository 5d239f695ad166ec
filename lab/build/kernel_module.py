# SPDX-License-Identifier: GPL-2.0-or-later
"""A directory with kernel modules, ours or any other that has a Kbuild, compiled for the guests' kernel."""

import dataclasses
import fnmatch
import pathlib
import re
import shlex
import shutil
import subprocess

from lab.base import paths, ui
from lab.build import builder

COMMON = "hw-interface"
DRIVER = "guest-driver"
OURS = paths.ROOT / DRIVER
REGISTERS = paths.ROOT / COMMON / "pib_hca_regs.h"
# The command that makes kernel modules, on all processors.
MAKE = "make -j$(nproc)"
LOG = "guest-driver"
STRIPPED = "stripped"


@dataclasses.dataclass(frozen=True)
class Module:
    """A compiled module. file: the module with debug information; stripped: without it, for a guest."""
    file: pathlib.Path
    stripped: pathlib.Path
    depends: tuple[str, ...]
    aliases: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.file.stem.replace("-", "_")

    def binds(self) -> bool:
        """Whether its table of PCI devices has the HCA."""
        return any(fnmatch.fnmatchcase(_modalias(), alias) for alias in self.aliases)


@dataclasses.dataclass(frozen=True)
class Compiled:
    """Result of a build. source: the directory; inside: path of its copy in the build tree, as in debug information;
    modules: in loading order."""
    source: pathlib.Path
    inside: str
    modules: list[Module]


def pci_id() -> tuple[str, str]:
    """Vendor and device of the HCA, as sysfs writes them."""
    found = dict(re.findall(r"#define PIB_HCA_PCI_(VENDOR|DEVICE)_ID (0x[0-9a-f]{4})", REGISTERS.read_text()))
    return found["VENDOR"], found["DEVICE"]


def _modalias() -> str:
    """The modalias of an HCA, with an asterisk for each part that a virtual machine can choose."""
    vendor, device = (int(number, 16) for number in pci_id())
    return f"pci:v{vendor:08X}d{device:08X}sv*sd*bc0Csc06i*"


def directory(given: pathlib.Path | None) -> pathlib.Path:
    """The given directory, or our driver's; an error if it has no Kbuild or Makefile."""
    found = (given or OURS).resolve()
    if not found.is_dir():
        raise ui.LabError(f"{given}: no such directory. Name the one that has the driver's Kbuild or Makefile")
    if not any((found / name).is_file() for name in ("Kbuild", "Makefile")):
        raise ui.LabError(f"{given} has no Kbuild and no Makefile. Name the directory in which  make -C KERNEL M=$PWD  "
                          "makes the driver")
    return found


def common(source: pathlib.Path) -> pathlib.Path:
    """The hardware interface that lies beside a driver, or ours."""
    beside = source.parent / COMMON
    return beside if beside.is_dir() else paths.ROOT / COMMON


def _bring(source: pathlib.Path, tools: builder.Builder) -> str:
    """Copies a directory and the hardware interface beside it to the working directory; returns the copy's path in it.
    """
    parent = "" if source == OURS else f"drivers/{paths.recipe_hash(str(source))}/"
    place = parent + re.sub(r"[^\w.-]", "_", source.name)
    tools.bring(common(source), parent + COMMON)
    tools.bring(source, place)
    return place


def compile_for(kernel: str, tools: builder.Builder, source: pathlib.Path = OURS) -> Compiled:
    """Compiles the modules of a directory. kernel: a version whose headers the tree has."""
    place = _bring(source, tools)
    inside = f"{tools.inside}/{place}"
    script = (f"{MAKE} -C {shlex.quote(tools.headers(kernel))} M={inside} {tools.flags} modules; cd {place}; "
              f"rm -rf {STRIPPED}; mkdir {STRIPPED}; find . -name '*.ko' | while read file; do "
              f"strip -g -o {STRIPPED}/${{file##*/}} $file; done")
    try:
        tools.sh(f"compiling {source.name}", script, LOG)
    except ui.LabError as error:
        raise ui.LabError(str(error).replace(f"{inside}/", f"{source}/")) from error
    return Compiled(source, inside, _in_loading_order(_modules(tools.work / place, inside)))


def copied(compiled: Compiled, place: pathlib.Path) -> Compiled:
    """Copies the modules to a directory of this command's own. Another command may compile the same directory anew as
    soon as the lock of the build tree is free."""
    (place / STRIPPED).mkdir()
    return dataclasses.replace(compiled, modules=[
        dataclasses.replace(module, file=pathlib.Path(shutil.copy(module.file, place)),
                            stripped=pathlib.Path(shutil.copy(module.stripped, place / STRIPPED)))
        for module in compiled.modules])


def _modules(place: pathlib.Path, inside: str) -> list[Module]:
    """The modules of the last make. The directory may also have modules of an earlier make."""
    order = (place / "modules.order").read_text().replace(f"{inside}/", "").split()
    return [_module(place, place / pathlib.Path(line).with_suffix(".ko")) for line in order]


def _module(place: pathlib.Path, file: pathlib.Path) -> Module:
    def field(name: str) -> list[str]:
        return subprocess.run(["modinfo", "-F", name, file], check=True, capture_output=True, text=True).stdout.split()
    depends = [name for line in field("depends") for name in line.split(",")]
    return Module(file, place / STRIPPED / file.name, tuple(depends), tuple(field("alias")))


def _in_loading_order(modules: list[Module]) -> list[Module]:
    by_name = {module.name: module for module in modules}
    order: list[Module] = []

    def add(module: Module) -> None:
        for name in module.depends:
            if name in by_name and by_name[name] not in order:
                add(by_name[name])
        if module not in order:
            order.append(module)
    for module in modules:
        add(module)
    return order


def check_binds(compiled: Compiled) -> None:
    if not any(module.binds() for module in compiled.modules):
        vendor, device = pci_id()
        names = ", ".join(module.file.name for module in compiled.modules) or "no module"
        raise ui.LabError(f"{compiled.source} makes {names}, and none of that binds to the HCA. Add its PCI ID:  "
                          f"static const struct pci_device_id ids[] = {{ {{ PCI_DEVICE({vendor}, {device}) }}, {{}} }};"
                          "  MODULE_DEVICE_TABLE(pci, ids);")
