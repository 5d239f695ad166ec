# SPDX-License-Identifier: GPL-2.0-or-later
"""The guests' program that lists their InfiniBand ports, on files in place of sysfs."""

import pathlib
import shutil
import subprocess

import pytest

from lab.fabric import subnet
from lab.guests import initramfs

PROGRAM = initramfs.FILES / "rootfs/usr/local/lib/lab/ports"
FILES = {"gids/0": "fe80:0000:0000:0000:0670:6962:0002:0010", "lid": "0x1f", "sm_lid": "0x1", "state": "4: ACTIVE",
         "phys_state": "5: LinkUp", "rate": "100 Gb/sec (4X EDR)"}


@pytest.fixture(name="port")
def a_port(tmp_path):
    for name, text in FILES.items():
        file = tmp_path / "pib_0" / "ports" / "1" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return tmp_path / "pib_0" / "ports" / "1"


def listed(directory: pathlib.Path, shell: str = "sh") -> list[str]:
    """The lines that the program prints. PATH leads to no other program, because the program must not start any."""
    done = subprocess.run([shutil.which(shell), PROGRAM, directory], env={"PATH": "/none"}, capture_output=True,
                          text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_port_is_a_line_without_another_process(port, tmp_path, shell):
    """Each process takes long on an emulated processor, which the subnet manager needs meanwhile."""
    line = "pib_0|1|0x0670696200020010|31|1|ACTIVE|LinkUp|100 Gb/sec (4X EDR)"
    assert port and listed(tmp_path, shell) == [line] and subnet.PORT.fullmatch(line)


def test_a_port_that_goes_meanwhile_is_still_a_port(port, tmp_path):
    for name in ("gids/0", "lid", "rate"):
        (port / name).unlink()
    assert listed(tmp_path) == ["pib_0|1|0x|0|1|ACTIVE|LinkUp|"] and subnet.PORT.fullmatch(listed(tmp_path)[0])
    (port / "state").unlink()
    assert listed(tmp_path) == []
