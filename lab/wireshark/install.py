# SPDX-License-Identifier: GPL-2.0-or-later
"""Installs the extcap program and the dissector plugin for the user's Wireshark and tshark, and removes them."""

import dataclasses
import pathlib
import shlex
import shutil
import subprocess

from lab.base import paths, ui
from lab.wireshark import names

PLUGIN = "pib-hca.lua"
PROGRAM = "pib-hca"
ASKED = ("tshark", "wireshark")
EXTCAP, CONFIGURATION, LUA = "Personal Extcap path", "Personal configuration", "Personal Lua Plugins"


@dataclasses.dataclass(frozen=True)
class Places:
    """Files in Wireshark's personal folders."""
    program: pathlib.Path
    plugin: pathlib.Path
    names: pathlib.Path


def places(folders: str) -> Places:
    """The places of our files. folders: output of `tshark -G folders`. Before version 4.2 it did not list the extcap
    folder, which is in the configuration's folder."""
    found = {name: pathlib.Path(path.strip()) for line in folders.splitlines()
             for name, colon, path in [line.partition(":")] if colon and path.strip()}
    if CONFIGURATION not in found or LUA not in found:
        raise ui.LabError("tshark -G folders names no plugin folder. Without our plugins:  "
                          "./pib capture | tshark -r -")
    configuration = found[CONFIGURATION]
    return Places(found.get(EXTCAP, configuration / "extcap") / PROGRAM, found[LUA] / PLUGIN,
                  configuration / names.FILE)


def here() -> Places:
    program = next((found for name in ASKED if (found := shutil.which(name))), None)
    if not program:
        raise ui.LabError("there is neither tshark nor Wireshark here. Install one as root:  apt-get install tshark")
    return places(subprocess.run([program, "-G", "folders"], text=True, check=True, stdin=subprocess.DEVNULL,
                                 capture_output=True).stdout)


def script(names_file: pathlib.Path, control: pathlib.Path | None) -> str:
    words = ["/usr/bin/python3", "-I", "-B", str(paths.ROOT / "lab" / "start.py"), "lab.wireshark.extcap", "--names",
             str(names_file)] + (["--control", str(control.absolute())] if control else [])
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'


def install(control: pathlib.Path | None) -> str:
    """Installs the files. control: control socket of a pib-switch; None: the interfaces are ports of the lab that runs
    when Wireshark lists them."""
    place = here()
    for path in (place.program, place.plugin, place.names):
        path.parent.mkdir(parents=True, exist_ok=True)
    place.program.write_text(script(place.names, control))
    place.program.chmod(0o755)
    shutil.copyfile(pathlib.Path(__file__).with_name(PLUGIN), place.plugin)
    own = "" if names.made_here(place.names) else (
        f"{place.names}: this file is yours and is kept. To get the running fabric's names, rename your file, and "
        "enter its new name in the preference pib.names\n")
    return (f"{own}{place.program}: lists the running fabric's ports in Wireshark and tshark:  tshark -D\n"
            f"{place.plugin}: shows names, checksums and credits. Start Wireshark again to load it")


def remove() -> str:
    place = here()
    for path in (place.program, place.plugin, *([place.names] if names.made_here(place.names) else [])):
        path.unlink(missing_ok=True)
    return "removed from Wireshark's folders"
